package world

import (
	"time"

	"anabranch/sim"
)

// state of a pod.
type state uint8

const (
	serving  state = iota
	starting       // it loads, and refuses
	draining       // it ends what it has, and refuses
	dead           // it refuses, and is still listed
	gone           // it is not there
)

// never is later than everything.
const never = time.Duration(1<<63 - 1)

// pod is one pod, whose engine may be replaced. The engine's time lags behind the world's by what it
// has been held up for.
type pod struct {
	number       int // among all
	cluster      int
	index        int // in its cluster
	kind         *Pods
	state        state
	engine       *sim.Engine // nil: starting, dead or gone
	starts       uint32      // how often it was told to start
	lag, held    time.Duration
	hanging      bool
	frozen       PodView       // what a hanging one shows
	next         time.Duration // when the engine changes next; never
	place        int           // in the schedule
	watched      bool          // by scrapes, from its first service on
	listed       bool          // as one that is there, whether it answers or not
	slow, price  float64
	doom, retire bool // what events want of it: to be dead, to be gone
	paid         time.Duration
	base         sim.Stats // of the engine, when counting began
	total        PodTotal
	cost         float64 // micro-dollars
}

// clock is the engine's time.
func (p *pod) clock(now time.Duration) time.Duration {
	if p.hanging {
		return p.held
	}
	return now - p.lag
}

func (p *pod) alive() bool { return p.state == serving || p.state == draining }

// addPod appends a pod to a cluster. It is not there yet.
func (w *world) addPod(cluster int, kind *Pods) *pod {
	c := w.clusters[cluster]
	p := &pod{
		number: len(w.pods), cluster: cluster, index: len(c.pods), kind: kind, state: gone, next: never,
		slow: 1, price: 1, total: PodTotal{Class: kind.Class}, hanging: c.hangs,
	}
	w.pods = append(w.pods, p)
	c.pods = append(c.pods, p)
	w.schedule.add(p)
	return p
}

// start lets a pod load; it serves after its start-up, with nothing in its caches.
func (w *world) start(p *pod) {
	p.state, p.paid = starting, w.now
	p.starts++
	w.applyPrices()
	if d := p.kind.Options.StartUp; d > 0 {
		w.timeline.push(event{at: w.now + d, kind: started, ref: uint32(p.number), gen: p.starts})
		return
	}
	w.serve(p)
}

// serve gives a pod its engine.
func (w *world) serve(p *pod) {
	p.state = serving
	o := p.kind.Options
	o.Start, o.StartUp, o.Tokens, o.Cache = w.now, 0, false, false
	p.engine = sim.New(o)
	p.engine.SetSlow(w.now, p.slow)
	p.lag, p.held = 0, w.now
	p.base = sim.Stats{}
	p.measure(&p.frozen)
	p.listed = true
	if !p.watched {
		p.watched = true
		w.watch(p)
	}
}

// crash ends a pod with all that it has.
func (w *world) crash(p *pod) {
	if p.engine != nil {
		w.step(p)
		for a := range w.pool.live {
			if a.pod == p {
				a.output, _ = p.engine.Generated(a.engineID())
				a.pod = nil
				w.send(a, refusal, w.way(a, wayOut, local), Refused)
				w.drop(a)
			}
		}
		p.engine.Crash(p.clock(w.now))
	}
	w.close(p, dead)
}

// close takes the engine away and stops paying.
func (w *world) close(p *pod, s state) {
	w.account(p)
	p.engine, p.state, p.next = nil, s, never
	w.schedule.fix(p)
	w.applyPrices()
}

// account adds up what a pod, which has been brought to now, has cost and done since last time.
func (w *world) account(p *pod) {
	if p.state != dead && p.state != gone {
		from := max(p.paid, w.spec.Warmup)
		if d := w.now - from; d > 0 {
			p.total.Alive += d
			p.cost += d.Hours() * float64(p.kind.PriceMicroUSD) * p.price
		}
		p.paid = w.now
	}
	if p.engine != nil {
		st := p.engine.Stats()
		if w.counting {
			p.total.Prompt += int64(st.PromptTokens - p.base.PromptTokens)
			p.total.Cached += int64(st.PrefixHits - p.base.PrefixHits)
			p.total.Output += int64(st.GenerationTokens - p.base.GenerationTokens)
			p.total.Preempted += st.Preemptions - p.base.Preemptions
		}
		p.base = st
	}
}

// settle makes a pod what events want of it.
func (w *world) settle(p *pod) {
	switch {
	case p.doom:
		if p.state != dead && p.state != gone {
			w.crash(p)
		}
	case p.state == dead && p.retire:
		p.state, p.listed = gone, false
	case p.state == dead, p.state == gone && !p.retire:
		w.start(p)
	case p.retire && p.state == starting:
		p.listed = false
		w.close(p, gone)
	case p.retire && p.state == serving:
		p.engine.Drain(p.clock(w.now))
		p.state, p.listed = draining, false
		w.step(p)
	}
}

// hang holds a pod's engine, or lets it go on.
func (w *world) hang(p *pod, on bool) {
	if p.hanging == on {
		return
	}
	w.catchUp(p)
	switch {
	case p.engine == nil:
	case on:
		p.held = w.now - p.lag
		p.measure(&p.frozen)
	default:
		p.lag = w.now - p.held
	}
	p.hanging = on
	w.catchUp(p)
}

// step brings a pod's engine to now and sends off what it has to say.
func (w *world) step(p *pod) {
	for _, e := range p.engine.Advance(p.clock(w.now)) {
		if e.Kind != sim.First && e.Kind != sim.Finished {
			continue
		}
		a := w.pool.attempts[uint32(e.ID)]
		a.cached = e.Cached
		if e.Kind == sim.First {
			a.began = true
			w.send(a, firstHere, w.way(a, wayOut, local), Answered)
			continue
		}
		a.output, a.pod = e.Generated, nil
		w.send(a, lastHere, w.way(a, wayOut, local), Answered)
		w.drop(a)
	}
	at, ok := p.engine.Next()
	switch {
	case !ok && p.state == draining:
		w.close(p, gone)
		w.settle(p)
		return
	case !ok || p.hanging:
		at = never
	default:
		at += p.lag
	}
	if at != p.next {
		p.next = at
		w.schedule.fix(p)
	}
}

// catchUp brings a pod's engine to now, if it has one: what it shows is as of when it was touched last.
func (w *world) catchUp(p *pod) {
	if p.engine != nil {
		w.step(p)
	}
}

// give submits an attempt to its pod, which may refuse it.
func (w *world) give(a *attempt) {
	c := w.clusters[a.home.Cluster]
	p := c.pods[a.picker().Pod]
	if p.state != serving {
		w.send(a, refusal, w.way(a, wayOut, local), Refused)
		return
	}
	r := a.request
	a.chain = r.Chain(a.chain[:0])
	err := p.engine.Submit(p.clock(w.now), sim.Request{
		ID: a.engineID(), PromptTokens: r.PromptTokens, Blocks: a.chain, OutputTokens: r.OutputTokens, Adapter: r.Adapter,
	})
	if err != nil { // it is too long, or wants an adapter, or is no request: the engine is neither dead nor draining
		w.send(a, refusal, w.way(a, wayOut, local), Unfit)
		return
	}
	a.pod = p
	a.refs++
	w.step(p)
}

// take makes a pod forget an attempt that nobody waits for.
func (w *world) take(a *attempt) {
	p := a.pod
	if p == nil {
		return
	}
	if w.step(p); a.pod == nil {
		return // it has just ended
	}
	a.output, _ = p.engine.Generated(a.engineID())
	p.engine.Abort(p.clock(w.now), a.engineID())
	a.pod = nil
	w.step(p)
	w.drop(a)
}
