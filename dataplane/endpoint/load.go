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

// ownLoad sums the endpoints. An ejected one counts neither as load nor as capacity.
func (c *Cluster) ownLoad(now time.Time) *loadView {
	v := &loadView{at: now, ageMs: -1}
	typical := Load{}
	if models := c.Spec().Models; len(models) > 0 {
		typical.Model = models[0]
	}
	usable := 0
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
		usable++
		if cand.Freshness != pick.Absent || e.pageless.Load() || e.pageURL(0) == "" {
			v.ready += e.ready(s)
		}
		v.waiting += cand.Waiting
		v.running += cand.Running
		v.kv += cand.KV
		saturation, known := e.saturation(s, &cand, now)
		v.saturation += saturation
		v.slots += e.slots.load()
		v.known = v.known || known
		if wait := seconds(waitAt(&cand)); usable == 1 || wait < v.wait {
			v.wait = wait
		}
	}
	if usable > 0 {
		v.kv /= float64(usable)
		v.saturation /= float64(usable)
	}
	return v
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
// queue for longer than that. Known: it is more than this router's own count.
func (e *Endpoint) saturation(s *Signals, c *pick.Candidate, now time.Time) (share float64, known bool) {
	if s != nil && s.Saturation >= 0 {
		return s.Saturation, true
	}
	if used, ok := e.used(now); ok {
		return used, true
	}
	objective := e.Cluster.class.Load().TTFTObjective.Seconds()
	return max((c.Waiting+c.Running)/e.slots.load(), waitAt(c)/objective), c.Freshness != pick.Absent
}
