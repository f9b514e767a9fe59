package sim

import (
	"slices"
	"time"
)

type plainSequence struct {
	req       Request
	target    int // tokens to generate
	total     int // prompt and generated tokens
	computed  int // tokens whose KV is in blocks
	blocks    []int32
	published int // leading blocks whose content is in the index, or was there before
	generated int
	cached    int
	admitted  bool // once at least
	running   bool
	decoding  bool
	gone      bool // finished or aborted; skipped when the step in flight ends
}

// plain is the obvious engine: every step visits every running sequence, and Next is the end of the
// step. Engine must do the same, sooner.
type plain struct {
	opts     Options
	now      time.Duration
	ready    time.Duration
	stepEnd  time.Duration
	inStep   bool
	slow     float64
	closed   error            // why nothing new is taken; nil: it is
	running  []*plainSequence // in order of admission
	waiting  []*plainSequence
	byID     map[uint64]*plainSequence
	pool     blockPool
	adapters adapterSlots
	batch    []plainShare // the step in flight
	events   []Event
	returned bool // events were handed out and may be overwritten
	stats    Stats
}

type plainShare struct {
	seq    *plainSequence
	tokens int
}

func newPlain(opts Options) *plain {
	opts = opts.withDefaults()
	e := &plain{
		opts: opts, now: opts.Start, ready: opts.Start + opts.StartUp, slow: 1,
		byID: map[uint64]*plainSequence{}, pool: newBlockPool(opts.Blocks),
		adapters: adapterSlots{max: opts.MaxAdapters},
	}
	e.pool.watched = opts.Cache
	return e
}

func (e *plain) SetSlow(now time.Duration, factor float64) {
	e.run(now)
	if !(factor > 0) {
		factor = 1
	}
	e.slow = factor
}

func (e *plain) Submit(now time.Duration, r Request) error {
	target := r.OutputTokens
	if r.MaxTokens > 0 {
		target = min(target, r.MaxTokens)
	}
	switch {
	case e.closed != nil:
		return e.closed
	case r.PromptTokens < 1, target < 1, r.PromptTokens > e.opts.Blocks*BlockSize-target,
		r.Adapter != "" && e.opts.MaxAdapters < 1, e.byID[r.ID] != nil:
		return ErrRequest
	}
	e.run(now)
	s := &plainSequence{}
	s.req, s.target, s.total = r, target, r.PromptTokens
	if limit := r.PromptTokens / BlockSize; len(s.req.Blocks) > limit {
		s.req.Blocks = s.req.Blocks[:limit]
	}
	e.byID[r.ID] = s
	e.waiting = append(e.waiting, s)
	e.stats.Submitted++
	if !e.inStep {
		e.begin()
	}
	return nil
}

func (e *plain) Abort(now time.Duration, id uint64) bool {
	e.run(now)
	s := e.byID[id]
	if s == nil {
		return false
	}
	if s.running {
		e.leave(s)
	} else {
		i := slices.Index(e.waiting, s)
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	s.gone = true
	delete(e.byID, s.req.ID)
	e.stats.Aborted++
	return true
}

func (e *plain) Next() (time.Duration, bool) {
	switch {
	case e.inStep:
		return e.stepEnd, true
	case len(e.waiting) > 0:
		return max(e.now, e.ready), true
	default:
		return 0, false
	}
}

func (e *plain) Advance(now time.Duration) []Event {
	e.run(now)
	e.returned = true
	return e.events
}

func (e *plain) CacheEvents() []CacheEvent {
	changes := e.pool.changes
	e.pool.changes = e.pool.changes[:0]
	return changes
}

func (e *plain) run(now time.Duration) {
	if e.returned {
		e.events, e.returned = e.events[:0], false
	}
	for {
		at, ok := e.Next()
		if !ok || at > now {
			break
		}
		e.now = at
		if e.inStep {
			e.complete()
		}
		e.begin()
		if !e.inStep {
			break
		}
	}
	e.now = max(e.now, now)
}

func (e *plain) emit(s *plainSequence, k EventKind, why Reason) {
	e.events = append(e.events, Event{
		At: e.now, ID: s.req.ID, Kind: k, Generated: s.generated, Cached: s.cached, Reason: why,
	})
}

func (e *plain) begin() {
	e.batch = e.batch[:0]
	if e.now < e.ready {
		return
	}
	budget := e.opts.MaxBatchTokens
	preempted := e.continueRunning(&budget)
	var loads int
	if !preempted {
		loads = e.admitWaiting(&budget)
	}
	if len(e.batch) == 0 {
		return
	}
	d := e.opts.Profile.Step(e.load())
	d += time.Duration(loads) * e.opts.AdapterLoad
	e.inStep = true
	e.stepEnd = e.now + max(1, time.Duration(float64(d)*e.slow))
	e.stats.Steps++
}

func (e *plain) continueRunning(budget *int) (preempted bool) {
	for i := 0; i < len(e.running) && *budget > 0; i++ {
		s := e.running[i]
		n := min(s.total-s.computed, *budget)
		for s.running && !e.grow(s, n) {
			e.preempt(e.running[len(e.running)-1])
			preempted = true
		}
		if !s.running {
			break // it was the latest itself
		}
		e.batch = append(e.batch, plainShare{s, n})
		*budget -= n
	}
	return preempted
}

func (e *plain) admitWaiting(budget *int) (loads int) {
	kept := 0
	for i := 0; i < len(e.waiting) && kept < lookahead; {
		s := e.waiting[i]
		if *budget == 0 || len(e.running) >= e.opts.MaxSequences {
			break
		}
		if !e.adapters.fits(s.req.Adapter) {
			i++
			kept++
			continue
		}
		n, ok := e.admit(s, *budget)
		if !ok {
			break
		}
		if e.adapters.hold(s.req.Adapter, e.now) {
			loads++
			e.stats.AdapterLoads++
		}
		e.waiting = slices.Delete(e.waiting, i, i+1)
		e.batch = append(e.batch, plainShare{s, n})
		*budget -= n
		e.emit(s, Admitted, "")
	}
	return loads
}

func (s *plainSequence) cacheable() []uint64 {
	return s.req.Blocks[:min(len(s.req.Blocks), (s.total-1)/BlockSize)]
}

func (e *plain) admit(s *plainSequence, budget int) (tokens int, ok bool) {
	var hit, fromFree int
	usable := s.cacheable()
	if !e.opts.NoPrefixCache {
		hit, fromFree = e.pool.match(usable)
	}
	n := min(s.total-hit*BlockSize, budget)
	need := blocksFor(hit*BlockSize+n) - hit
	if fromFree+need > e.pool.free() {
		return 0, false
	}
	s.blocks = e.pool.take(s.blocks[:0], usable[:hit])
	s.blocks = e.pool.allocate(s.blocks, need)
	s.computed, s.published = hit*BlockSize, hit
	s.running = true
	e.running = append(e.running, s)
	if !s.admitted {
		s.admitted = true
		s.cached = hit * BlockSize
		e.stats.PromptTokens += uint64(s.req.PromptTokens)
		if !e.opts.NoPrefixCache {
			e.stats.PrefixQueries += uint64(s.req.PromptTokens)
			e.stats.PrefixHits += uint64(s.cached)
		}
	}
	return n, true
}

func (e *plain) grow(s *plainSequence, n int) bool {
	need := blocksFor(s.computed+n) - len(s.blocks)
	if need <= 0 {
		return true
	}
	if need > e.pool.free() {
		return false
	}
	s.blocks = e.pool.allocate(s.blocks, need)
	return true
}

func (e *plain) preempt(s *plainSequence) {
	e.leave(s)
	e.waiting = slices.Insert(e.waiting, 0, s)
	e.stats.Preemptions++
	e.emit(s, Preempted, "")
}

func (e *plain) leave(s *plainSequence) {
	i := slices.Index(e.running, s)
	e.running = slices.Delete(e.running, i, i+1)
	e.pool.release(s.blocks)
	s.blocks, s.computed, s.published = s.blocks[:0], 0, 0
	s.running, s.decoding = false, false
	e.adapters.drop(s.req.Adapter)
}

func (e *plain) load() Load {
	var l Load
	for _, b := range e.batch {
		if b.tokens == 1 {
			l.Decode++
			l.Context += b.seq.computed
			continue
		}
		n := float64(b.tokens)
		l.Prefill += b.tokens
		l.Attended += n * (float64(b.seq.computed) + n/2)
	}
	return l
}

func (e *plain) complete() {
	for _, b := range e.batch {
		s := b.seq
		if s.gone {
			continue
		}
		s.computed += b.tokens
		e.publish(s)
		if s.computed < s.total {
			continue
		}
		s.decoding = true
		s.generated++
		s.total++
		e.stats.GenerationTokens++
		if s.generated == 1 {
			e.emit(s, First, "")
		}
		if e.opts.Tokens {
			e.emit(s, Token, "")
		}
		if s.generated == s.target {
			e.finish(s)
		}
	}
	e.batch, e.inStep = e.batch[:0], false
}

func (e *plain) publish(s *plainSequence) {
	full := min(s.computed/BlockSize, len(s.req.Blocks))
	if !e.opts.NoPrefixCache {
		for ; s.published < full; s.published++ {
			e.pool.publish(s.blocks[s.published], s.req.Blocks[s.published])
			if e.pool.watched {
				e.pool.changes = append(e.pool.changes, CacheEvent{Hash: s.req.Blocks[s.published], Stored: true, ID: s.req.ID, Block: s.published})
			}
		}
	}
}

func (e *plain) finish(s *plainSequence) {
	why := Stop
	if s.target < s.req.OutputTokens {
		why = Length
	}
	e.leave(s)
	e.emit(s, Finished, why)
	e.stats.Finished++
	s.gone = true
	delete(e.byID, s.req.ID)
}
