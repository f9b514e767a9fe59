package sim

import (
	"slices"
	"time"
)

// lookahead bounds how many waiting sequences a step looks at past those whose adapter finds no
// slot.
const lookahead = 64

// begin composes the next step, if there is anything to do, and sets when it ends.
func (e *Engine) begin() {
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
	if len(e.batch) == 0 && e.decoders.len() == 0 {
		return
	}
	e.inStep = true
	e.stepEnd = e.now + e.duration(e.load(), loads)
	e.stats.Steps++
}

// duration is how long a step takes.
func (e *Engine) duration(l Load, loads int) time.Duration {
	d := e.opts.Profile.Step(l) + time.Duration(loads)*e.opts.AdapterLoad
	return max(1, time.Duration(float64(d)*e.slow))
}

// continueRunning gives running sequences their tokens in order of admission. One that finds no
// block takes those of the latest admitted, which goes back to the head of the queue. There is budget
// for all: none was admitted without.
func (e *Engine) continueRunning(budget *int) (preempted bool) {
	room := func(s *sequence, n int) bool {
		for s.running && !e.grow(s, n) {
			e.preempt(e.running[len(e.running)-1])
			preempted = true
		}
		return s.running // else it was the latest itself
	}
	due := e.decoders.due()
	for i := 0; i < len(*due) && room((*due)[i], 1); i++ {
	}
	decode := e.decoders.len()
	*budget -= decode
	for i := decode; i < len(e.running); i++ {
		s := e.running[i]
		n := min(s.total-s.computed, *budget)
		if !room(s, n) {
			break
		}
		e.batch = append(e.batch, share{s, n})
		*budget -= n
	}
	return preempted
}

// admitWaiting fills slots from the queue while blocks and budget last. A sequence whose adapter
// finds no slot is passed over; one that finds no blocks holds up those behind it.
func (e *Engine) admitWaiting(budget *int) (loads int) {
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
		e.batch = append(e.batch, share{s, n})
		*budget -= n
		e.emit(s, Admitted, "")
	}
	return loads
}

// admit takes what the prefix cache holds of a waiting sequence and blocks for its first chunk.
func (e *Engine) admit(s *sequence, budget int) (tokens int, ok bool) {
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

// grow gets the blocks for n more tokens of a running sequence, or says that there are none.
func (e *Engine) grow(s *sequence, n int) bool {
	need := 1 // for one that decodes and is due
	if !s.decoding {
		need = blocksFor(s.computed+n) - len(s.blocks)
	}
	if need > e.pool.free() {
		return false
	}
	s.blocks = e.pool.allocate(s.blocks, need)
	return true
}

// preempt sends a running sequence back to the head of the queue without its blocks. It will
// compute its prompt and what it had generated again.
func (e *Engine) preempt(s *sequence) {
	e.leave(s)
	e.waiting = slices.Insert(e.waiting, 0, s)
	e.stats.Preemptions++
	e.emit(s, Preempted, "")
}

// leave frees slot, blocks and adapter of a running sequence.
func (e *Engine) leave(s *sequence) {
	if s.decoding {
		e.decoders.remove(s)
	}
	i := slices.Index(e.running, s)
	e.running = slices.Delete(e.running, i, i+1)
	e.pool.release(s.blocks)
	s.blocks, s.computed, s.published = s.blocks[:0], 0, 0
	s.running = false
	e.adapters.drop(s.req.Adapter)
}

// load sums up the composed step.
func (e *Engine) load() Load {
	l := Load{Decode: e.decoders.len(), Context: e.decoders.context}
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

// complete carries out the step in flight at its end.
func (e *Engine) complete() {
	e.decode()
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
		} else {
			e.decoders.add(s)
		}
	}
	// Only now may the memory of those that are gone be used again: the batch names them.
	e.batch, e.inStep = e.batch[:0], false
	e.recycle()
}

// publish names the prompt blocks that are complete now.
func (e *Engine) publish(s *sequence) {
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

func (e *Engine) finish(s *sequence) {
	why := Stop
	if s.target < s.req.OutputTokens {
		why = Length
	}
	e.leave(s)
	e.emit(s, Finished, why)
	e.stats.Finished++
	e.retire(s)
}
