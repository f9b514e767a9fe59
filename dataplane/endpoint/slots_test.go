package endpoint

import (
	"testing"
	"time"
)

// engine is a model server with a batch and chunked prefill: each step takes prompt tokens of at most
// one budget, of the requests in the order in which they came, and one token of each that decodes.
type engine struct {
	batch           int // requests at once
	budget          float64
	prefill         float64 // tokens/s
	step, more      float64 // s of a decode step, and for each request in it
	prompt, output  float64 // tokens of each request
	now             float64 // s
	waiting         int
	running         []job
	generated, done float64
}

type job struct{ left, output float64 }

func (e *engine) run(until float64) {
	for e.now < until {
		budget, decoding := e.budget, 0
		for i := range e.running {
			if e.running[i].left == 0 {
				decoding++
			}
		}
		for i := range e.running {
			take := min(e.running[i].left, budget)
			e.running[i].left -= take
			budget -= take
		}
		for budget > 0 && e.waiting > 0 && len(e.running) < e.batch {
			e.waiting--
			take := min(e.prompt, budget)
			budget -= take
			e.running = append(e.running, job{e.prompt - take, e.output})
		}
		e.now += e.step + e.more*float64(decoding) + (e.budget-budget)/e.prefill
		kept := e.running[:0]
		for _, j := range e.running {
			if j.left == 0 {
				j.output--
				e.generated++
			}
			if j.output > 0 {
				kept = append(kept, j)
			} else {
				e.done++
			}
		}
		e.running = kept
	}
}

// watch scrapes the engine every quarter of a second while keep, if not nil, sends it more.
func (e *engine) watch(s *slots, span float64, keep func()) (limit float64) {
	for end := e.now + span; e.now < end; {
		if keep != nil {
			keep()
		}
		e.run(e.now + 0.25)
		limit = s.learn(&Signals{
			At: time.Unix(0, int64(e.now*1e9)), Waiting: float64(e.waiting), Running: float64(len(e.running)), tokens: e.generated, Ready: -1,
		}, 1, Learned{})
	}
	return limit
}

func modern() *engine {
	return &engine{batch: 256, budget: 8192, prefill: 8000, step: 0.012, more: 0.0002, prompt: 8000, output: 200}
}

// Prompts that wait for their turn to be computed stand in the queue as well. The batch has room, and
// once it is taken for full, nothing more is let in that would show the contrary.
func TestAQueueForPrefillIsNoFullBatch(t *testing.T) {
	e := modern()
	var s slots
	e.waiting = 12
	if limit := e.watch(&s, 20, nil); limit < believedSlots {
		t.Errorf("a burst of twelve prompts, and the batch is believed to take %v", limit)
	}
	e.prompt, e.waiting = 100_000, 1
	e.run(e.now + 0.1)
	e.prompt, e.waiting = 500, 6
	if limit := e.watch(&s, 15, nil); limit < believedSlots {
		t.Errorf("six requests behind a prompt of 100,000 tokens, and the batch is believed to take %v", limit)
	}
}

func TestAFullBatchIsFoundOut(t *testing.T) {
	for name, batch := range map[string]int{"small": 16, "as usual": 256} {
		t.Run(name, func(t *testing.T) {
			e := modern()
			e.batch, e.prompt = batch, 500
			var s slots
			limit := e.watch(&s, 20, func() { e.waiting = max(e.waiting, 400) })
			if !near(limit, float64(batch), 0.1) {
				t.Errorf("a batch of %d under a steady queue is believed to take %v", batch, limit)
			}
		})
	}
}

// A batch that takes more than is usual shows it although no more is let in than a share of what is
// believed: 90 % for requests of the standard tier.
func TestALargeBatchIsFoundOutBehindACeiling(t *testing.T) {
	e := modern()
	e.batch, e.prompt, e.prefill, e.output = 1024, 100, 1e6, 2000
	var s slots
	limit := float64(believedSlots)
	for range 200 {
		limit = e.watch(&s, 0.25, func() { e.waiting = max(int(0.9*limit)-len(e.running), 0) })
	}
	if limit < 1000 {
		t.Errorf("of 1,024 places %v are found", limit)
	}
}

// What was full for want of KV cache or of places for adapters says nothing of the batch.
func TestWhatElseARequestMayWaitFor(t *testing.T) {
	for name, x := range map[string]Signals{
		"KV cache": {Waiting: 10, Running: 20, KV: 0.97},
		"adapters": {Waiting: 10, Running: 20, MaxLoRA: 2, Adapters: []string{"a", "b", "c"}, InBatch: 2},
	} {
		t.Run(name, func(t *testing.T) {
			var s slots
			x.tokens, x.Ready = -1, -1
			for range 20 {
				s.learn(&x, 1, Learned{})
			}
			if limit := s.learn(&Signals{Running: 20, tokens: -1, Ready: -1}, 1, Learned{}); limit != believedSlots {
				t.Errorf("the batch is believed to take %v once there is room again", limit)
			}
		})
	}
}

// A limit that was learned too low is left again by what then comes in.
func TestALimitIsTestedWhenItIsReached(t *testing.T) {
	var s slots
	at := time.Unix(1000, 0)
	see := func(waiting, running float64) float64 {
		at = at.Add(250 * time.Millisecond)
		return s.learn(&Signals{At: at, Waiting: waiting, Running: running, tokens: -1, Ready: -1}, 1, Learned{})
	}
	limit := 0.0
	for range 20 {
		limit = see(5, 32)
	}
	for range 100 {
		if limit = see(0, 20); !near(limit, 32, 0.01) {
			t.Fatalf("with 20 of 32 places taken the limit is %v", limit)
		}
	}
	for range 40 {
		limit = see(0, limit) // as many as are let in
	}
	if limit < believedSlots {
		t.Errorf("as many as are let in run without a queue, and the limit is still %v", limit)
	}
}

// A server that has started anew may have another batch.
func TestARestartForgetsTheBatch(t *testing.T) {
	var s slots
	at := time.Unix(1000, 0)
	see := func(waiting, running, tokens float64) float64 {
		at = at.Add(time.Second)
		return s.learn(&Signals{At: at, Waiting: waiting, Running: running, tokens: tokens, Ready: -1}, 1, Learned{})
	}
	for i := range 20 {
		see(5, 16, 1000*float64(i))
	}
	if limit := see(0, 8, 19_500); !near(limit, 16, 0.1) {
		t.Fatalf("a full batch of 16 is believed to take %v", limit)
	}
	if limit := see(0, 8, 10); limit != believedSlots {
		t.Errorf("after a restart %v", limit)
	}
}
