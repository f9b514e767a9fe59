package sim

import (
	"container/heap"
	"slices"
	"time"
)

// decoders are the running sequences that have all of their prompt and get one token in every step.
// A step visits none of them but those that need a block or end with it: how far each is follows from
// the number of steps since. All lists are in order of admission, because prompts are completed in it.
type decoders struct {
	tick    uint64 // steps completed
	added   uint64 // sequences so far
	context int    // tokens computed of all together
	ends    endings
	// growing parts them by the step that needs the next block of theirs, modulo the block size.
	growing [BlockSize][]*sequence
}

// endings is a heap of those that decode by the tick of their last token.
type endings []*sequence

func (d *decoders) len() int { return len(d.ends) }

// due are those that need a block for the next step. The list is changed by add and remove.
func (d *decoders) due() *[]*sequence { return &d.growing[d.tick%BlockSize] }

// add takes a running sequence that has just got a token and lacks more.
func (d *decoders) add(s *sequence) {
	d.added++
	s.decoding, s.order, s.last = true, d.added, d.tick+uint64(s.target-s.generated)
	d.context += s.computed
	list := d.list(s)
	*list = append(*list, s)
	heap.Push(&d.ends, s)
}

// remove lets go of a sequence and brings its progress up to date.
func (d *decoders) remove(s *sequence) {
	list := d.list(s)
	i := slices.Index(*list, s)
	*list = slices.Delete(*list, i, i+1)
	heap.Remove(&d.ends, s.heap)
	s.generated = d.generated(s)
	s.total = s.req.PromptTokens + s.generated
	s.computed = s.total - 1
	s.decoding = false
	d.context -= s.computed
}

// generated is how many tokens one that decodes has.
func (d *decoders) generated(s *sequence) int { return s.target - int(s.last-d.tick) }

// list is the one of growing that a sequence is in: its blocks are full at the ticks when the tokens
// computed, PromptTokens + target − (last − tick) − 1, are a multiple of the block size.
func (d *decoders) list(s *sequence) *[]*sequence {
	full := s.last + 1 - uint64(s.req.PromptTokens+s.target)
	return &d.growing[full%BlockSize]
}

// decode gives a token to each that decodes, at the end of a step.
func (e *Engine) decode() {
	d := &e.decoders
	d.tick++
	d.context += d.len()
	e.stats.GenerationTokens += uint64(d.len())
	if !e.opts.Tokens {
		for len(d.ends) > 0 && d.ends[0].last == d.tick {
			e.finish(d.ends[0])
		}
		return
	}
	for i := 0; i < d.len(); {
		s := e.running[i]
		s.generated = d.generated(s)
		e.emit(s, Token, "")
		if s.last == d.tick {
			e.finish(s)
		} else {
			i++
		}
	}
}

// quiet says whether nothing can happen but by the sequences that decode now, and nobody wants to know
// of each step.
func (e *Engine) quiet() bool {
	return e.inStep && len(e.batch) == 0 && e.decoders.len() > 0 && !e.opts.Tokens && !e.opts.Cache &&
		(len(e.waiting) == 0 || len(e.running) >= e.opts.MaxSequences)
}

// coast takes the steps that end by now and in which nobody ends or needs a block, if the engine is
// quiet, and returns when the next step ends.
func (e *Engine) coast(now time.Duration) time.Duration {
	d := &e.decoders
	l := Load{Decode: d.len(), Context: d.context}
	began := d.tick
	for last := d.ends[0].last; e.stepEnd <= now && d.tick+1 < last && len(d.growing[(d.tick+1)%BlockSize]) == 0; d.tick++ {
		l.Context += l.Decode
		e.stepEnd += e.duration(l, 0)
	}
	d.context = l.Context
	e.stats.Steps += d.tick - began
	e.stats.GenerationTokens += (d.tick - began) * uint64(l.Decode)
	return e.stepEnd
}

// foresee is the end of the step in which the first sequence ends, or before which the blocks run out,
// if the engine is quiet.
func (e *Engine) foresee() time.Duration {
	d := &e.decoders
	at, free := e.stepEnd, e.pool.free()
	l := Load{Decode: d.len(), Context: d.context}
	for tick := d.tick + 1; tick < d.ends[0].last; tick++ {
		if free -= len(d.growing[tick%BlockSize]); free < 0 {
			break
		}
		l.Context += l.Decode
		at += e.duration(l, 0)
	}
	return at
}

func (h endings) Len() int { return len(h) }

func (h endings) Less(i, j int) bool {
	if h[i].last != h[j].last {
		return h[i].last < h[j].last
	}
	return h[i].order < h[j].order
}

func (h endings) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heap, h[j].heap = i, j
}

// Push is for container/heap.
func (h *endings) Push(x any) {
	s, _ := x.(*sequence)
	s.heap = len(*h)
	*h = append(*h, s)
}

// Pop is for container/heap.
func (h *endings) Pop() any {
	s := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return s
}
