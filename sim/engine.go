package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options of an engine. The zero value of all but Profile is useful.
type Options struct {
	// Profile says how fast the pod is; see [Lookup].
	Profile Profile
	// MaxSequences is the number of batch slots. 0: 256, vLLM's max_num_seqs.
	MaxSequences int
	// MaxBatchTokens is the budget of new tokens of a step, which chunks long prompts. 0: 2048,
	// vLLM's max_num_batched_tokens for serving on most GPUs.
	MaxBatchTokens int
	// Blocks is the number of KV blocks. 0: what fits by the profile.
	Blocks int
	// MaxAdapters is the number of LoRA slots; 0: none.
	MaxAdapters int
	// AdapterLoad is how long bringing an adapter into its slot stops the engine. 0: [AdapterLoad].
	AdapterLoad time.Duration
	// Start is when the pod was started and StartUp how long it loads until its first step.
	Start, StartUp time.Duration
	// NoPrefixCache turns the prefix cache off.
	NoPrefixCache bool
	// Tokens asks for an event for every token, not only for the first and last.
	Tokens bool
	// Cache asks for what the prefix cache stores and drops; see [Engine.CacheEvents].
	Cache bool
}

// AdapterLoad is how long loading an adapter takes by default: some hundred MB from host memory or local
// disk.
const AdapterLoad = 100 * time.Millisecond

func (o Options) withDefaults() Options {
	if o.MaxSequences <= 0 {
		o.MaxSequences = 256
	}
	if o.MaxBatchTokens <= 0 {
		o.MaxBatchTokens = 2048
	}
	if o.Blocks <= 0 {
		o.Blocks = o.Profile.KVTokens / BlockSize
	}
	if o.AdapterLoad <= 0 {
		o.AdapterLoad = AdapterLoad
	}
	return o
}

// Errors of [Engine.Submit].
var (
	// ErrTooLong: prompt and output don't fit the KV cache even alone.
	ErrTooLong = errors.New("prompt and output are longer than the KV cache")
	// ErrAdapter: an adapter on an engine without LoRA slots.
	ErrAdapter = errors.New("the engine has no LoRA slots")
	// ErrRequest: no prompt, no output, or an ID in use.
	ErrRequest = errors.New("request is malformed")
	// ErrDraining: it finishes what it has; see [Engine.Drain].
	ErrDraining = errors.New("the engine is draining")
	// ErrCrashed: it is dead; see [Engine.Crash].
	ErrCrashed = errors.New("the engine has crashed")
)

// Engine is one pod in virtual time. Times are durations since an epoch of the caller's choice
// and never go back. An Engine is not safe for concurrent use.
//
// Work happens in steps, as in vLLM: each step gives every decoding sequence one token and fills
// its budget with chunks of prompts, first of running sequences, then of waiting ones.
type Engine struct {
	opts     Options
	now      time.Duration
	ready    time.Duration
	stepEnd  time.Duration
	inStep   bool
	slow     float64
	closed   error       // why nothing new is taken; nil: it is
	running  []*sequence // in order of admission: first those that decode
	decoders decoders
	waiting  []*sequence
	byID     map[uint64]*sequence
	pool     blockPool
	adapters adapterSlots
	batch    []share       // the step in flight, but for those that decode
	ahead    time.Duration // what Next foresees, until something happens; 0: not known
	retired  []*sequence
	spare    []*sequence
	events   []Event
	returned bool // events were handed out and may be overwritten
	stats    Stats
}

// New makes an idle engine.
func New(opts Options) *Engine {
	opts = opts.withDefaults()
	e := &Engine{
		opts: opts, now: opts.Start, ready: opts.Start + opts.StartUp, slow: 1,
		byID: map[uint64]*sequence{}, pool: newBlockPool(opts.Blocks),
		adapters: adapterSlots{max: opts.MaxAdapters},
	}
	e.pool.watched = opts.Cache
	return e
}

// Ready says whether start-up is over and the engine has not crashed.
func (e *Engine) Ready(now time.Duration) bool {
	return now >= e.ready && !errors.Is(e.closed, ErrCrashed)
}

// MaxTokens is the longest prompt plus output that fits.
func (e *Engine) MaxTokens() int { return e.opts.Blocks * BlockSize }

// SetSlow stretches every step that begins after the given time by a factor; 1 is normal speed, and
// what isn't above 0 means 1. It is how a sick or throttled GPU looks from outside.
func (e *Engine) SetSlow(now time.Duration, factor float64) {
	e.run(now)
	if !(factor > 0) {
		factor = 1
	}
	e.slow, e.ahead = factor, 0
}

// Submit queues a request at the given time. An idle engine starts on it at once.
func (e *Engine) Submit(now time.Duration, r Request) error {
	target := r.OutputTokens
	if r.MaxTokens > 0 {
		target = min(target, r.MaxTokens)
	}
	switch {
	case e.closed != nil:
		return e.closed
	case r.PromptTokens < 1 || target < 1:
		return fmt.Errorf("%w: %d prompt and %d output tokens", ErrRequest, r.PromptTokens, target)
	case r.PromptTokens > e.MaxTokens()-target:
		return fmt.Errorf("%w: %d and %d tokens, the cache holds %d", ErrTooLong, r.PromptTokens, target, e.MaxTokens())
	case r.Adapter != "" && e.opts.MaxAdapters < 1:
		return fmt.Errorf("%w: adapter %q", ErrAdapter, r.Adapter)
	case e.byID[r.ID] != nil:
		return fmt.Errorf("%w: id %d is in use", ErrRequest, r.ID)
	}
	e.run(now)
	s := e.newSequence()
	s.req, s.target, s.total = r, target, r.PromptTokens
	if limit := r.PromptTokens / BlockSize; len(s.req.Blocks) > limit {
		s.req.Blocks = s.req.Blocks[:limit]
	}
	e.byID[r.ID] = s
	e.waiting, e.ahead = append(e.waiting, s), 0
	e.stats.Submitted++
	if !e.inStep {
		e.begin()
	}
	return nil
}

// Abort ends a request at once: its slot and blocks are free for the next step. It says whether
// the request was still there; no event follows.
func (e *Engine) Abort(now time.Duration, id uint64) bool {
	e.run(now)
	s := e.byID[id]
	if s == nil {
		return false
	}
	e.ahead = 0
	if s.running {
		e.leave(s)
	} else {
		i := slices.Index(e.waiting, s)
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	e.retire(s)
	e.stats.Aborted++
	return true
}

// Next is when the engine has something to tell next if it is left alone, at the latest: no event comes
// sooner, and by then most often one does. With [Options].Tokens or Cache it is the end of each step.
// False: never, it waits for a Submit.
func (e *Engine) Next() (time.Duration, bool) {
	at, ok := e.boundary()
	if !e.quiet() {
		return at, ok
	}
	if e.ahead == 0 {
		e.ahead = e.foresee()
	}
	return e.ahead, true
}

// boundary is when the step in flight ends or one can begin.
func (e *Engine) boundary() (time.Duration, bool) {
	switch {
	case e.inStep:
		return e.stepEnd, true
	case len(e.waiting) > 0:
		return max(e.now, e.ready), true
	default:
		return 0, false
	}
}

// Advance brings the engine to the given time and returns what happened since the last call, in
// order of time. The slice is the engine's and valid until the next call of any method.
func (e *Engine) Advance(now time.Duration) []Event {
	e.run(now)
	e.returned = true
	return e.events
}

// CacheEvents returns what the prefix cache has stored and dropped since the last call, in order, if
// [Options].Cache asked for it. The slice is the engine's and valid until the next call of any method.
func (e *Engine) CacheEvents() []CacheEvent {
	changes := e.pool.changes
	e.pool.changes = e.pool.changes[:0]
	return changes
}

// run carries out all steps that end by now. Events collect until the next Advance.
func (e *Engine) run(now time.Duration) {
	if e.returned {
		e.events, e.returned = e.events[:0], false
	}
	for {
		at, ok := e.boundary()
		if !ok || at > now {
			break
		}
		if e.quiet() {
			if at = e.coast(now); at > now {
				break
			}
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
	if e.ahead <= e.now {
		e.ahead = 0
	}
}

func (e *Engine) emit(s *sequence, k EventKind, why Reason) {
	e.ahead = 0
	e.events = append(e.events, Event{
		At: e.now, ID: s.req.ID, Kind: k, Generated: s.generated, Cached: s.cached, Reason: why,
	})
}

func (e *Engine) newSequence() *sequence {
	if n := len(e.spare); n > 0 {
		s := e.spare[n-1]
		e.spare = e.spare[:n-1]
		return s
	}
	return &sequence{}
}

// retire forgets a sequence. Its memory is reused only when no step in flight names it.
func (e *Engine) retire(s *sequence) {
	delete(e.byID, s.req.ID)
	s.gone = true
	e.retired = append(e.retired, s)
	if !e.inStep {
		e.recycle()
	}
}

func (e *Engine) recycle() {
	for _, s := range e.retired {
		*s = sequence{blocks: s.blocks[:0]}
		e.spare = append(e.spare, s)
	}
	e.retired = e.retired[:0]
}
