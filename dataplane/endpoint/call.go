package endpoint

import (
	"sync/atomic"
	"time"

	"anabranch/dataplane/inference"
	"anabranch/dataplane/prefix"
	"anabranch/failover"
)

// Call is one request under way at an endpoint, or in another region at a cluster. Done must be
// called once it is over; further calls do nothing, so that it may be deferred.
type Call struct {
	cluster  *Cluster
	endpoint *Endpoint // nil: in another region
	load     Load
	began    time.Time
	uncached float64 // tokens believed
	queued   queued  // of these, what the backlog has
	match    prefix.Match
	ahead    float64 // prompt tokens that were to be computed before its own
	room     bool    // the batch had room, so that only those were to be waited for
	batch    float64 // requests in the batch when it began
	first    atomic.Bool
	done     atomic.Bool
}

// Result is how a call went.
type Result struct {
	Outcome failover.Outcome
	// FirstToken is the time from Begin to the first content, 0 if none came.
	FirstToken time.Duration
	// Usage as the place told it; zero if it didn't.
	Usage inference.Usage
	// Output is how many tokens came, where Usage doesn't say.
	Output int64
	// Busy: the place answered that it has no room now, RetryAfter for how long; 0: it didn't say.
	Busy       bool
	RetryAfter time.Duration
}

// Begin counts a request in. From now on the endpoint is believed to hold its prompt.
func (e *Endpoint) Begin(l Load, now time.Time) *Call {
	c := &Call{cluster: e.Cluster, endpoint: e, load: l, began: now}
	r := e.rates[l.Model]
	rate := believedPrefill
	if r != nil {
		rate = r.Learned().Prefill
	}
	s := e.signals.Load()
	freshness := s.Freshness(now)
	slots := e.slots.load()
	var waiting float64
	waiting, c.batch = s.load(e.inFlight.Load(), slots, freshness)
	c.ahead = e.backlog.tokens(now, rate)
	c.room = waiting+c.batch < slots
	c.match = e.index.Match(e.holder, l.Blocks, now)
	c.uncached = float64(l.PromptTokens - l.cached(c.match.Blocks))
	e.index.Reserve(e.holder, l.Blocks, now)
	if l.Adapter != "" {
		c.room = c.room && e.hasAdapter(s, l.Adapter)
		e.sentAdapter(l.Adapter)
	}
	c.queued = queued{left: c.uncached, stream: l.Stream}
	e.backlog.add(&c.queued, now, rate)
	if e.inFlight.Load() == 0 {
		e.progress.Store(now.UnixNano()) // it was idle, which isn't being stuck
	}
	e.inFlight.Add(1)
	e.begun.Add(1)
	e.Cluster.inFlight.Add(1)
	return c
}

// Hop counts in a request that goes to a cluster of another region, by way of that region's
// router.
func (c *Cluster) Hop(l Load, now time.Time) *Call {
	c.inFlight.Add(1)
	return &Call{cluster: c, load: l, began: now}
}

// FirstToken says that the first content has come.
func (c *Call) FirstToken(now time.Time) {
	if c.endpoint == nil || !c.first.CompareAndSwap(false, true) {
		return
	}
	c.endpoint.flows(now)
	c.endpoint.backlog.took(&c.queued, now)
	c.endpoint.index.Confirm(c.endpoint.holder, c.load.Blocks, now)
}

// Done counts the request out, and learns from it.
func (c *Call) Done(r Result, now time.Time) {
	if !c.done.CompareAndSwap(false, true) {
		return
	}
	c.cluster.end(&c.load, r, now)
	e := c.endpoint
	if e == nil {
		c.cluster.breaker.record(r.Outcome, now)
		return
	}
	e.inFlight.Add(-1)
	if c.first.CompareAndSwap(false, true) {
		e.backlog.took(&c.queued, now)
		if r.Outcome == failover.OK && r.FirstToken > 0 {
			e.index.Confirm(e.holder, c.load.Blocks, now)
		}
	}
	if r.Outcome == failover.Silence {
		e.hung.Store(true)
	}
	if r.Busy {
		e.backOff(r.RetryAfter, now)
	}
	e.breaker.record(r.Outcome, now)
	if out, _ := e.breaker.ejected(); !out {
		// What an ejected endpoint did is its own fault, not the cluster's.
		c.cluster.breaker.record(r.Outcome, now)
	}
	if r.Outcome != failover.OK || r.FirstToken <= 0 {
		if r.FirstToken <= 0 && c.match.Blocks < len(c.load.Blocks) {
			e.index.Forget(e.holder, c.load.Blocks[c.match.Blocks:])
		}
		return
	}
	e.flows(now)
	c.learn(r, now)
}

// learn corrects what was believed of rates and cache by what was seen.
func (c *Call) learn(r Result, now time.Time) {
	e := c.endpoint
	prompt, uncached := float64(c.load.PromptTokens), c.uncached
	if r.Usage.Prompt > 0 {
		share := uncached / max(prompt, 1)
		prompt = float64(r.Usage.Prompt)
		uncached = share * prompt
	}
	if r.Usage.Cached > 0 {
		e.caches.Store(true)
	}
	if e.caches.Load() && r.Usage.Prompt > 0 {
		uncached = float64(r.Usage.Prompt - r.Usage.Cached)
		bytes := float64(c.load.PromptBytes) * float64(r.Usage.Cached) / prompt
		e.index.Correct(e.holder, c.match, int(bytes)/inference.BlockBytes, now)
	}
	rates := e.rates[c.load.Model]
	if rates == nil {
		return
	}
	f := finished{
		prompt: prompt, uncached: uncached, output: float64(max(r.Usage.Completion, r.Output)),
		ahead: c.ahead, hold: now.Sub(c.began), room: c.room,
	}
	if c.load.Stream { // otherwise the first token came with the last
		f.ttft = r.FirstToken
		f.decode = f.hold - r.FirstToken
		f.hold = f.decode
		s := e.signals.Load()
		_, running := s.load(e.inFlight.Load(), e.slots.load(), s.Freshness(now))
		f.batch = (c.batch + running + 2) / 2 // mean of begin and end, itself in both
	}
	rates.learn(f)
}

// end counts a request out of its cluster, and into the window of its model.
func (c *Cluster) end(l *Load, r Result, now time.Time) {
	c.inFlight.Add(-1)
	w := c.windows[l.Model]
	if w == nil {
		return
	}
	w.requests.Add(1)
	switch r.Outcome {
	case failover.ConnectFailure, failover.ServerFault, failover.Silence:
		w.failures.Add(1)
	case failover.OK:
		prompt := r.Usage.Prompt
		if prompt == 0 {
			prompt = l.PromptTokens
		}
		w.work.add(float64(prompt) + w.weight.load()*float64(max(r.Usage.Completion, r.Output)))
		if l.Stream && r.FirstToken > 0 {
			w.ttft.add(r.FirstToken, now)
		}
	case failover.Ignored:
	}
}
