package endpoint

import (
	"sync/atomic"
	"time"

	"anabranch/dataplane/inference"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/prefix"
	"anabranch/failover"
)

// Call is one request under way at an endpoint, or in another region at a cluster. Done must be
// called once it is over; further calls do nothing, so that it may be deferred.
type Call struct {
	cluster  *Cluster
	endpoint *Endpoint // nil: in another region
	index    *prefix.Index
	holder   *prefix.Holder
	load     Load
	began    time.Time
	order    uint64  // among those ever begun there
	uncached float64 // tokens believed
	queued   queued  // of these, what the backlog has
	match    prefix.Match
	// ahead is prompt tokens that were computed before its own, since a moment that long before it began.
	ahead  float64
	since  time.Duration
	room   bool    // the batch had room, so that only those were to be waited for
	loads  bool    // its adapter was not there
	others float64 // requests of other routers that it found there
	joined moment  // of its endpoint's company, when it began to decode
	first  atomic.Bool
	told   bool        // the load of its cluster, as its answer began
	silent atomic.Bool // it counts as one without an answer
	done   atomic.Bool
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
	// That is never a failure, whatever Outcome says.
	Busy       bool
	RetryAfter time.Duration
	// Missing: the place answered that it does not know what was asked for.
	Missing bool
	// RateLimit is what a provider says is left; zero if it didn't.
	RateLimit inference.RateLimit
	// Saturation is what the router of another region says of the cluster's load, where
	// HasSaturation.
	Saturation    float64
	HasSaturation bool
}

// Begin counts a request in. From now on the endpoint is believed to hold its prompt.
func (e *Endpoint) Begin(l Load, now time.Time) *Call {
	c := &Call{cluster: e.Cluster, endpoint: e, index: e.index, holder: e.holder, load: l, began: now}
	var learned Learned
	if r := e.rates.of(l.Model); r != nil {
		learned = r.Learned()
	}
	rate := learned.Prefill
	if rate <= 0 {
		rate = believedPrefill
	}
	s, inFlight := e.signals.Load(), e.inFlight.Load()
	slots := e.slots.load()
	waiting, running := s.load(inFlight, slots, e.freshness(s, inFlight, now))
	servers := e.count(s)
	c.ahead = e.backlog.tokens(now, rate, learned.Overhead, servers)
	if tokens, ago, ok := e.backlog.whole(now); ok && servers == 1 {
		c.ahead, c.since = tokens, ago
	}
	c.room = waiting+running < slots
	c.match = e.index.Match(e.holder, l.Blocks, now)
	cached := l.cached(c.match.Blocks)
	e.trust.begin(float64(l.PromptTokens), float64(cached))
	c.uncached = float64(l.PromptTokens - e.trusted(cached))
	e.index.Reserve(e.holder, l.Blocks, now)
	if l.Adapter != "" {
		state, _ := e.adapter(s, l.Adapter, &learned)
		c.loads = state != pick.Resident
		e.sentAdapter(l.Adapter)
	}
	c.queued = queued{left: c.uncached, stream: l.Stream}
	e.backlog.add(&c.queued, now, rate, servers)
	c.others = s.strangers()
	e.company.meets(float64(inFlight+1), c.others)
	if !l.Stream {
		c.joined = e.company.join(0, now)
	}
	if inFlight == 0 {
		e.progress.Store(now.UnixNano()) // it was idle, which isn't being stuck
		e.occupied.Store(now.UnixNano())
	}
	e.inFlight.Add(1)
	c.order = e.begun.Add(1)
	e.Cluster.inFlight.Add(1)
	if e.dozing.Load() && e.dozing.CompareAndSwap(true, false) {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	return c
}

// Hop counts in a request that goes to a cluster of another region, by way of that region's
// router.
func (c *Cluster) Hop(l Load, now time.Time) *Call {
	c.inFlight.Add(1)
	call := &Call{cluster: c, index: c.index, holder: c.holder, load: l, began: now, room: true}
	if c.index != nil {
		call.match = c.index.Match(c.holder, l.Blocks, now)
		c.index.Reserve(c.holder, l.Blocks, now)
	}
	call.uncached = float64(l.PromptTokens - l.cached(call.match.Blocks))
	return call
}

// FirstToken says that the first content has come.
func (c *Call) FirstToken(now time.Time) {
	if !c.first.CompareAndSwap(false, true) {
		return
	}
	if e := c.endpoint; e != nil {
		e.flows(now)
		e.backlog.took(&c.queued, now)
		if c.load.Stream {
			c.joined = e.company.join(c.uncached, now)
		}
		c.cluster.unanswered.answers(now)
	}
	if c.index != nil {
		c.index.Confirm(c.holder, c.load.Blocks, now)
	}
}

// Told says what the router of another region has said of its cluster's load in the head of its answer.
// Said only with [Result], it counts as news of the end.
func (c *Call) Told(saturation float64, now time.Time) {
	c.told = true
	c.cluster.told.Store(&told{now, max(saturation, 0)})
}

// Done counts the request out, and learns from it.
func (c *Call) Done(r Result, now time.Time) {
	if !c.done.CompareAndSwap(false, true) {
		return
	}
	if r.Busy {
		r.Outcome = failover.Ignored
	}
	tells := r.Usage.Cached > 0 || c.endpoint != nil && c.endpoint.caches.Load()
	work := c.cluster.end(&c.load, r, tells, now.Sub(c.began), now)
	unsaid := c.first.CompareAndSwap(false, true)
	var met moment
	if c.endpoint != nil {
		c.endpoint.yield.done.add(work)
		met = c.leave(r, unsaid, now)
	} else {
		if r.HasSaturation && !c.told {
			c.Told(r.Saturation, now)
		}
		c.cluster.heard(r, now)
	}
	ok := r.Outcome == failover.OK && r.FirstToken > 0
	switch {
	case c.index == nil:
	case ok && unsaid:
		c.index.Confirm(c.holder, c.load.Blocks, now)
	case r.FirstToken <= 0 && c.match.Blocks < len(c.load.Blocks):
		c.index.Forget(c.holder, c.load.Blocks[c.match.Blocks:])
	}
	if ok {
		c.learn(r, met, now)
		c.tell(r)
	}
}

// leave counts the request out of its endpoint, and tells what it shared that with.
func (c *Call) leave(r Result, unsaid bool, now time.Time) (met moment) {
	e := c.endpoint
	e.inFlight.Add(-1)
	e.ended.Add(1)
	if unsaid {
		e.backlog.took(&c.queued, now)
	}
	if !unsaid || !c.load.Stream {
		tokens := 0.0
		if !c.load.Stream && r.FirstToken > 0 {
			tokens = c.uncached
		}
		met = e.company.leave(tokens, now).since(c.joined)
	}
	if r.Outcome == failover.Silence {
		e.hung.Store(true)
	}
	if r.Busy {
		e.busy.backOff(r.RetryAfter, now)
	}
	e.told(limits{RateLimit: r.RateLimit, at: c.began, order: c.order}, now)
	e.record(c.load.Model, r.Outcome, r.Missing && c.load.Adapter == "", now)
	c.judge(r, unsaid, now)
	if r.Outcome == failover.OK && r.FirstToken > 0 {
		e.flows(now)
		e.ramp.answered()
		if p := e.paces.of(c.load.Model); p != nil {
			p.note(c.load.times(r, now.Sub(c.began), now))
		}
	}
	return met
}

// judge takes in what the end says of the cluster as a whole. Unsaid: no content came before it. What an
// endpoint does that is ejected says nothing of the others.
func (c *Call) judge(r Result, unsaid bool, now time.Time) {
	dead, _ := c.endpoint.Ejected()
	switch {
	case !unsaid: // it was answered, and has counted
	case r.Outcome == failover.OK && r.FirstToken > 0:
		c.cluster.unanswered.answers(now)
	case !dead && (r.Outcome == failover.ServerFault || r.Outcome == failover.Silence):
		c.unanswered(now)
	default:
		c.undecided(now)
	}
}

// heard takes in what an answer by way of another region's router says of the cluster.
func (c *Cluster) heard(r Result, now time.Time) {
	if r.Busy {
		c.busy.backOff(r.RetryAfter, now)
	}
	c.breaker.record(r.Outcome, now)
}

// times of a whole answer: to its first token, and the mean between its tokens; 0 where it was not
// streamed, or had but one.
func (l *Load) times(r Result, took time.Duration, now time.Time) (first, gap time.Duration, at time.Time) {
	if !l.Stream {
		return 0, 0, now
	}
	if output := max(r.Usage.Completion, r.Output); output > 1 {
		gap = (took - r.FirstToken) / time.Duration(output-1)
	}
	return r.FirstToken, gap, now
}

// learn corrects what was believed of rates and cache by what was seen.
func (c *Call) learn(r Result, met moment, now time.Time) {
	prompt, uncached := float64(c.load.PromptTokens), c.uncached
	if r.Usage.Prompt > 0 {
		share := uncached / max(prompt, 1)
		prompt = float64(r.Usage.Prompt)
		uncached = share * prompt
	}
	e := c.endpoint
	if e != nil && r.Usage.Cached > 0 {
		e.caches.Store(true)
	}
	if r.Usage.Prompt > 0 && (r.Usage.Cached > 0 || e != nil && e.caches.Load()) {
		uncached = float64(r.Usage.Prompt - r.Usage.Cached)
		bytes := float64(c.load.PromptBytes) * float64(r.Usage.Cached) / prompt
		c.index.Correct(c.holder, c.match, int(bytes)/inference.BlockBytes, now)
	}
	rates := c.cluster.rates.of(c.load.Model)
	if e != nil {
		rates = e.rates.of(c.load.Model)
	}
	if rates == nil {
		return
	}
	f := finished{
		prompt: prompt, uncached: uncached, output: float64(max(r.Usage.Completion, r.Output)),
		ahead: c.ahead, since: c.since, hold: now.Sub(c.began), room: c.room, loads: c.loads,
	}
	if c.load.Stream { // otherwise the first token came with the last
		f.ttft = r.FirstToken
		f.decode = f.hold - r.FirstToken
		f.hold = f.decode
		if e == nil {
			f.ttft = max(f.ttft-time.Duration(c.cluster.rtt.Load()), 0)
		} else {
			s := e.signals.Load()
			servers := float64(e.count(s)) // each of a pool's has its part
			f.batch = (met.decoding/f.decode.Seconds() + (c.others+s.strangers())/2) / servers
			all := e.company.all()
			f.beside, f.exact = all*met.prompts/servers, all < hardlyMore
		}
	}
	rates.learn(f)
}

// end counts a request out of its cluster, and into the window of its model. Work is what it was, in
// work units; 0 if it failed. Tells: the place tells how much of prompts it finds cached.
func (c *Cluster) end(l *Load, r Result, tells bool, took time.Duration, now time.Time) (work float64) {
	c.inFlight.Add(-1)
	w := c.windows.of(l.Model)
	if w == nil {
		return 0
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
		output := float64(max(r.Usage.Completion, r.Output))
		work = float64(prompt) + w.weight.load()*output
		w.work.add(work)
		w.counts(prompt, int64(output), r.Usage.Cached, tells && r.Usage.Prompt > 0)
		c.answers.learn(l.Model, output)
		if l.Stream && r.FirstToken > 0 {
			w.ttft.add(r.FirstToken, now)
			w.note(l.times(r, took, now))
		}
	case failover.Ignored:
	}
	return work
}
