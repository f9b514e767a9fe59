package endpoint

import (
	"fmt"
	"math"
	"slices"
	"time"

	"anabranch/api/exposition"
	"anabranch/failover"
)

// The steps of a registry, one by one, for callers that have time and what is seen of places by other
// ways than a clock and sockets, as a simulation has. [Registry.Run] takes the same steps; a registry
// that is stepped must not run.

// Observation is what one look at the metrics of a model server found, in plain numbers.
type Observation struct {
	// At is when it was asked for.
	At time.Time
	// InFlight is how many of this router's requests were there then; below 0: as many as are now.
	InFlight int64
	// Waiting and Running are requests queued and in the batch, KV the share 0..1 of the KV cache in use.
	Waiting, Running, KV float64
	// KVTokens is how many tokens the KV cache has room for, MaxBatch how many requests the batch takes;
	// 0: not told.
	KVTokens, MaxBatch float64
	// MaxLoRA is how many adapters fit, 0 if not told; Running- and WaitingAdapters are those that
	// requests in the batch and in the queue use.
	MaxLoRA                          int
	RunningAdapters, WaitingAdapters []string
	// Generated tokens so far, and prompt tokens looked up in the prefix cache and found there so far;
	// below 0: not told.
	Generated, PrefixAsked, PrefixFound float64
}

// Observe takes in an observation, as a scrape takes in the page that it has read.
func (e *Endpoint) Observe(o *Observation, now time.Time) {
	l := exposition.Load{
		Waiting: number(o.Waiting), Running: number(o.Running), KV: min(number(o.KV), 1),
		KVTokens: max(number(o.KVTokens), 0), MaxBatch: max(number(o.MaxBatch), 0), MaxLoRA: min(o.MaxLoRA, exposition.MaxLoRA),
		InBatch: len(o.RunningAdapters), Adapters: slices.Concat(o.RunningAdapters, o.WaitingAdapters),
		Ready: -1, Saturation: -1, Generated: -1,
	}
	if o.Generated >= 0 {
		l.Generated = o.Generated
	}
	if o.PrefixAsked >= 0 && o.PrefixFound >= 0 {
		l.PrefixAsked, l.PrefixFound = o.PrefixAsked, o.PrefixFound
	}
	l.Mark = exposition.Mark(l.Waiting, l.Running, l.KV, l.KVTokens, l.MaxBatch, l.Generated, l.PrefixAsked, l.PrefixFound)
	s := &Signals{At: o.At, inFlight: o.InFlight}
	if s.inFlight < 0 {
		s.inFlight = e.inFlight.Load()
	}
	e.took(s.fill(l))
	e.suspect(now)
}

// number is v, or 0 where it is none.
func number(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// Missed notes that a look at the metrics failed.
func (e *Endpoint) Missed(now time.Time) {
	e.missed(now)
	e.suspect(now)
}

// watch is what looks at an endpoint's metrics remember from one to the next. They come one at a time.
type watch struct {
	batch   slots
	failing time.Time // when the looks that fail last raised doubt; zero: they don't fail
}

// took takes in what a look has found, and says whether those before it failed.
func (e *Endpoint) took(x *Signals) (back bool) {
	servers := float64(max(x.Ready, 1))
	e.slots.store(servers * e.watch.batch.learn(x, servers, e.mix()))
	e.seen(x)
	if back = !e.watch.failing.IsZero(); back {
		e.breaker.hurry()
	}
	e.watch.failing = time.Time{}
	e.pageless.Store(false)
	return back
}

// missed notes a look that failed, and says whether it is the first after one that did not.
func (e *Endpoint) missed(now time.Time) (first bool) {
	first = e.watch.failing.IsZero()
	e.unseen(now)
	if now.Sub(e.watch.failing) >= doubtPause {
		e.watch.failing = now
		e.breaker.doubt()
	}
	return first
}

// suspect puts the place in doubt if requests there show nothing.
func (e *Endpoint) suspect(now time.Time) {
	if e.stuck(now) {
		e.breaker.doubt()
	}
}

// ProbeDue says whether a canary should go there now, and if so counts it as sent. rnd is evenly spread
// over [0,1). While one is under way no other should go, and from the end of one to the next [CanaryPause]
// should pass.
func (e *Endpoint) ProbeDue(now time.Time, rnd float64) bool {
	model, due := e.turn(now, rnd)
	if due {
		e.asks.model = model
	}
	return due
}

// ProbeWithin is how long a canary waits for its answer that is sent now: half of the floor, or less if the
// silence of requests there is to be judged before. One that waited on would put the judgement off; another one
// has waited before it then.
func (e *Endpoint) ProbeWithin(now time.Time) time.Duration {
	most := e.floor() / 2
	if silent := e.silent(now); silent > 0 {
		return min(max(e.patience(now)-silent, most/5), most)
	}
	return most
}

// Probed takes in how a canary went that was sent at began; what says for people what was wrong.
func (e *Endpoint) Probed(o failover.Outcome, what string, began, now time.Time) {
	o, what = e.heard(o, what, began, now)
	e.probed(o, what, now)
}

// heard judges what came of a canary by what came of requests meanwhile.
func (e *Endpoint) heard(o failover.Outcome, what string, began, now time.Time) (judged failover.Outcome, why string) {
	switch o {
	case failover.OK:
		e.flows(now)
	case failover.Silence:
		if e.flowed.Load() > began.UnixNano() {
			return failover.Ignored, "slow, but tokens flow" // it waits in line
		}
		switch silent := e.silent(now); {
		case silent == 0: // no request is there that it could be waiting behind
		case silent < e.patience(now):
			e.breaker.doubt()
			return failover.Ignored, "silent, but not for long enough" // it may wait behind a long prompt
		default:
			e.breaker.eject(fmt.Sprintf("no token for %s, and none for a canary", silent.Round(100*time.Millisecond)), now)
		}
	default:
	}
	return o, what
}

// probed counts a canary; one that brings the place back begins its slow start.
func (e *Endpoint) probed(o failover.Outcome, what string, now time.Time) {
	if e.breaker.probed(e.answersFor(e.asks.model, o, what, now), what, now) {
		e.ramp.start(now)
		e.Cluster.unanswered.restored(now)
	}
}

// ProbeDue says whether the routers of the cluster's region should be asked for it now, and if so counts
// the question as sent; see [Endpoint.ProbeDue]. Of a cluster that is not remote nobody needs to be asked.
func (c *Cluster) ProbeDue(now time.Time, rnd float64) bool {
	return c.Remote && c.breaker.probe(now, rnd)
}

// ProbeWithin is how long the answer is waited for.
func (c *Cluster) ProbeWithin() time.Duration { return c.class.Load().FirstByteFloor / 2 }

// Probed takes in the answer: [failover.OK], the cluster can be used, or [failover.ConnectFailure].
func (c *Cluster) Probed(o failover.Outcome, what string, now time.Time) {
	if c.Remote {
		c.breaker.probed(o, what, now)
	}
}

func (c *Cluster) idle() bool { return c.breaker.idle() }
