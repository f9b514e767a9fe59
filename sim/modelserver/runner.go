package modelserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"anabranch/dataplane/kvevents"
	"anabranch/sim"

	"github.com/prometheus/client_golang/prometheus"
)

// runner drives one engine by the wall clock: one model on one endpoint. Its run is the only
// goroutine it has; calls from handlers enter under the mutex.
type runner struct {
	model    Model
	adapters map[string]bool
	maxLen   int           // tokens
	slots    int           // of LoRA adapters
	wake     chan struct{} // the engine has something to do sooner than it had
	ttft     prometheus.Histogram
	latency  prometheus.Histogram
	publish  func([]kvevents.Event) // nil: nobody is told of the cache

	// mu guards what follows.
	mu       sync.Mutex
	clock    clock
	engine   *sim.Engine
	calls    map[uint64]*call
	next     uint64
	finished map[string]uint64 // by vLLM's finished_reason
}

// call is one sequence as its handler sees it. The fields belong to the runner's mutex.
type call struct {
	id       uint64
	arrived  time.Duration
	notify   chan struct{} // capacity 1: there is news
	progress progress
	blocks   []uint64 // of the prompt, and its text; kept to tell of the cache
	text     string
}

// progress is how far a sequence is.
type progress struct {
	generated int
	cached    int
	done      bool
	reason    sim.Reason
}

func newRunner(m Model, opts sim.Options, scale float64, maxLen int) *runner {
	r := &runner{
		model: m, adapters: map[string]bool{}, wake: make(chan struct{}, 1),
		clock: newClock(scale, time.Now()), engine: sim.New(opts),
		calls: map[uint64]*call{}, finished: map[string]uint64{}, slots: opts.MaxAdapters,
	}
	r.maxLen = min(maxLen, r.engine.MaxTokens())
	for _, a := range m.Adapters {
		r.adapters[string(a)] = true
	}
	return r
}

// run lets the engine take its steps when their time has come, until ctx ends.
func (r *runner) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		}
		if d, ok := r.step(); ok {
			timer.Reset(d)
		} else {
			timer.Stop()
		}
	}
}

// step catches up with the wall clock and says how long until the next change; false: none.
func (r *runner) step() (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.catchUp()
	at, ok := r.engine.Next()
	if !ok || r.clock.paused {
		return 0, false
	}
	return max(0, r.clock.wall(at-now)), true
}

// catchUp hands out what happened by now. The mutex is held.
func (r *runner) catchUp() time.Duration {
	now := r.clock.virtual(time.Now())
	events := r.engine.Advance(now)
	if r.publish != nil {
		r.tell(r.engine.CacheEvents())
	}
	r.deliver(events)
	return now
}

// tell publishes changes of the cache: what one request stored in a row as one event.
func (r *runner) tell(changes []sim.CacheEvent) {
	if len(changes) == 0 {
		return
	}
	var events []kvevents.Event
	var before sim.CacheEvent
	for i, c := range changes {
		last := len(events) - 1
		switch {
		case i > 0 && c.Stored && before.Stored && c.ID == before.ID && c.Block == before.Block+1,
			i > 0 && !c.Stored && !before.Stored:
			events[last].Hashes = append(events[last].Hashes, c.Hash)
		case c.Stored:
			e := kvevents.Event{Kind: kvevents.Stored, Hashes: []uint64{c.Hash}, BlockSize: sim.BlockSize}
			if e.HasParent = c.Block > 0; e.HasParent {
				e.Parent = r.calls[c.ID].blocks[c.Block-1]
			}
			events = append(events, e)
		default:
			events = append(events, kvevents.Event{Kind: kvevents.Removed, Hashes: []uint64{c.Hash}})
		}
		if before = c; c.Stored {
			e := &events[len(events)-1]
			e.Tokens = appendTokens(e.Tokens, r.calls[c.ID].text, c.Block)
		}
	}
	r.publish(events)
}

func (r *runner) deliver(events []sim.Event) {
	for _, ev := range events {
		c := r.calls[ev.ID]
		if c == nil {
			continue
		}
		c.progress.generated, c.progress.cached = ev.Generated, ev.Cached
		switch ev.Kind {
		case sim.First:
			r.ttft.Observe(r.clock.wall(ev.At - c.arrived).Seconds())
		case sim.Finished:
			c.progress.done, c.progress.reason = true, ev.Reason
			r.finished[string(ev.Reason)]++
			r.latency.Observe(r.clock.wall(ev.At - c.arrived).Seconds())
			delete(r.calls, ev.ID)
		case sim.Token:
		default:
			continue
		}
		select {
		case c.notify <- struct{}{}:
		default: // it has not read the last news yet, and will read this with it
		}
	}
}

// submit queues a request; its ID is set here. Whoever submits must release.
func (r *runner) submit(req sim.Request, text string) (*call, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.catchUp()
	r.next++
	req.ID = r.next
	if err := r.engine.Submit(now, req); err != nil {
		return nil, fmt.Errorf("submit to %s: %w", r.model.Name, err)
	}
	c := &call{id: req.ID, arrived: now, notify: make(chan struct{}, 1)}
	if r.publish != nil {
		c.blocks, c.text = req.Blocks, text
	}
	r.calls[req.ID] = c
	r.kick()
	return c, nil
}

// release ends a call: what has not finished is aborted at once.
func (r *runner) release(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.catchUp()
	if c.progress.done {
		return
	}
	delete(r.calls, c.id)
	if r.engine.Abort(now, c.id) {
		r.finished["abort"]++
	}
	r.kick()
}

// wait blocks until more than the given number of tokens is there or the sequence is done.
func (r *runner) wait(ctx context.Context, c *call, seen int) (progress, error) {
	for {
		r.mu.Lock()
		p := c.progress
		r.mu.Unlock()
		if p.generated > seen || p.done {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return p, ctx.Err()
		case <-c.notify:
		}
	}
}

// kick makes run look at the engine again.
func (r *runner) kick() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// pause stops or restarts the engine's time; slow stretches its steps.
func (r *runner) pause(stop bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp()
	r.clock.pause(time.Now(), stop)
	r.kick()
}

func (r *runner) slow(factor float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engine.SetSlow(r.catchUp(), factor)
}

// ready says whether start-up is over.
func (r *runner) ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.engine.Ready(r.clock.virtual(time.Now()))
}

// lora lists the adapters of running and of waiting sequences.
func (r *runner) lora() (running, waiting []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.engine.RunningAdapters(nil), r.engine.WaitingAdapters(nil)
}

// stats is the engine's, and the sequences that ended by reason.
func (r *runner) stats() (sim.Stats, map[string]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.catchUp()
	finished := map[string]uint64{"stop": 0, "length": 0, "abort": 0}
	for k, n := range r.finished {
		finished[k] = n
	}
	return r.engine.Stats(), finished
}
