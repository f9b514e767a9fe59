package endpoint

import (
	"time"

	"anabranch/dataplane/pick"
)

// loadEvery is how long a view of a cluster's load serves before it is computed anew.
const loadEvery = 20 * time.Millisecond

// loadView is a cluster's load, summed over its endpoints.
type loadView struct {
	at               time.Time
	known            bool
	saturation       float64
	slots            float64
	wait             time.Duration
	total, ready     int
	waiting, running float64
	kv               float64
	ageMs            int64
	scraped          bool
}

// look is the load as of now or shortly before.
func (c *Cluster) look(now time.Time) *loadView {
	if v := c.load.Load(); v != nil && now.Sub(v.at) < loadEvery && !now.Before(v.at) {
		return v
	}
	var v *loadView
	if c.Remote {
		v = c.remoteLoad(now)
	} else {
		v = c.ownLoad(now)
	}
	c.load.Store(v)
	return v
}

// SignalAge is how old the newest measurement of a cluster's load is, in ms; -1: there is none, as of
// a remote one.
func (c *Cluster) SignalAge(now time.Time) int64 {
	v := c.look(now)
	if !v.scraped {
		return -1
	}
	return v.ageMs + now.Sub(v.at).Milliseconds()
}

// ownLoad sums the endpoints. An ejected one counts neither as load nor as capacity. One of which no
// fresh signals are there counts as the mean of those that have some, or as what is known of it at the
// least, if that is more: what can't be seen is no room. Where none has, stale signals count in the
// same way before absent ones.
func (c *Cluster) ownLoad(now time.Time) *loadView {
	v := &loadView{at: now, ageMs: -1}
	typical := Load{}
	if models := c.Spec().Models; len(models) > 0 {
		typical.Model = models[0]
	}
	var all []sighting
	best := pick.Absent
	for _, e := range c.Endpoints() {
		s := e.signals.Load()
		v.total += e.count(s)
		if age := s.ageMs(now); age >= 0 && (v.ageMs < 0 || age < v.ageMs) {
			v.ageMs, v.scraped = age, true
		}
		if out, _ := e.Ejected(); out {
			continue
		}
		cand := e.Candidate(&typical, now)
		if cand.Freshness != pick.Absent || e.pageless.Load() || e.pageURL(0) == "" {
			v.ready += e.ready(s)
		}
		v.waiting += cand.Waiting
		v.running += cand.Running
		v.kv += cand.KV
		v.slots += e.slots.load()
		x := sighting{wait: seconds(waitAt(&cand))}
		x.saturation, x.fresh = e.saturation(s, &cand, now)
		all, best = append(all, x), max(best, x.fresh)
	}
	v.known = best > pick.Absent
	v.judge(all, best)
	return v
}

// sighting is what is seen of one endpoint.
type sighting struct {
	saturation float64
	wait       time.Duration
	fresh      pick.Freshness
}

// judge fills in the means over the endpoints in use, of which those count that are seen best.
func (v *loadView) judge(all []sighting, best pick.Freshness) {
	if len(all) == 0 {
		return
	}
	seen := 0
	for _, x := range all {
		if x.fresh != best {
			continue
		}
		if seen == 0 || x.wait < v.wait {
			v.wait = x.wait
		}
		v.saturation += x.saturation
		seen++
	}
	mean := v.saturation / float64(seen)
	for _, x := range all {
		if x.fresh != best {
			v.saturation += max(x.saturation, mean)
		}
	}
	v.saturation /= float64(len(all))
	v.kv /= float64(len(all))
}

// waitAt is how long in seconds a request waits at an endpoint until its prompt is begun.
func waitAt(c *pick.Candidate) float64 {
	rate := c.Prefill
	if rate <= 0 {
		rate = believedPrefill
	}
	return max(c.Backlog/rate, c.Waiting*c.Turn, 0)
}

// count is how many model servers stand behind an endpoint.
func (e *Endpoint) count(s *Signals) int {
	if s != nil && s.Ready >= 0 {
		return max(s.Ready, 1)
	}
	return 1
}

func (e *Endpoint) ready(s *Signals) int {
	if s != nil && s.Ready >= 0 {
		return s.Ready
	}
	return 1
}

// saturation is load over capacity: what the gateway calls so, or how much of its limits a provider
// says is used, or else the larger of two shares, of requests there in those the batch takes, and of
// the wait in line in the wanted first-token time. A batch that has room is still full when prompts
// queue for longer than that. What a gateway said that isn't fresh any more is the least that it is.
// Fresh: how far it can be believed; absent, it is no more than this router's own count.
func (e *Endpoint) saturation(s *Signals, c *pick.Candidate, now time.Time) (share float64, fresh pick.Freshness) {
	told := s != nil && s.Saturation >= 0
	if told && c.Freshness == pick.Fresh {
		return s.Saturation, pick.Fresh
	}
	if used, ok := e.used(now); ok {
		return used, pick.Fresh
	}
	objective := e.Cluster.class.Load().TTFTObjective.Seconds()
	share = max((c.Waiting+c.Running)/e.slots.load(), waitAt(c)/objective)
	if told && c.Freshness == pick.Stale {
		share = max(share, s.Saturation)
	}
	return share, c.Freshness
}
