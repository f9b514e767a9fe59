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
	saturation       float64
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

// remoteLoad knows of another region only how long first tokens took there lately.
func (c *Cluster) remoteLoad(now time.Time) *loadView {
	v := &loadView{at: now, ageMs: -1}
	for _, w := range c.windows {
		if median := w.ttft.quantiles(now, 0.5)[0]; median > 0 {
			v.wait = max(v.wait, median-time.Duration(c.rtt.Load()))
		}
	}
	return v
}

// ownLoad sums the endpoints. An ejected one counts neither as load nor as capacity.
func (c *Cluster) ownLoad(now time.Time) *loadView {
	v := &loadView{at: now, ageMs: -1}
	typical := Load{}
	if models := c.spec.Load().Models; len(models) > 0 {
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
		if cand.Freshness != pick.Absent || e.metricsURL() == "" {
			v.ready += e.ready(s)
		}
		v.waiting += cand.Waiting
		v.running += cand.Running
		v.kv += cand.KV
		v.saturation += e.saturation(s, &cand)
		wait := time.Duration(pick.Predict(e.typical(typical), &cand) * float64(time.Second))
		if usable == 1 || wait < v.wait {
			v.wait = wait
		}
	}
	if usable > 0 {
		v.kv /= float64(usable)
		v.saturation /= float64(usable)
	}
	return v
}

// typical is a request of the mean size seen.
func (e *Endpoint) typical(l Load) pick.Request {
	if r := e.rates[l.Model]; r != nil {
		return pick.Request{PromptTokens: int64(r.Learned().Uncached)}
	}
	return pick.Request{PromptTokens: believedPrompt}
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

// saturation is load over capacity: what the gateway calls so, or else the larger of two shares,
// of requests there in those the batch takes, and of the wait in line in the wanted first-token
// time. A batch that has room is still full when prompts queue for longer than that.
func (e *Endpoint) saturation(s *Signals, c *pick.Candidate) float64 {
	if s != nil && s.Saturation >= 0 {
		return s.Saturation
	}
	servers := float64(e.ready(s))
	room := e.slots.load() * max(servers, 1)
	objective := e.Cluster.class.Load().TTFTObjective.Seconds()
	prefill := c.Prefill
	if prefill <= 0 {
		prefill = believedPrefill
	}
	wait := max(c.Backlog/prefill, c.Waiting*c.Turn)
	return max((c.Waiting+c.Running)/room, wait/objective)
}

// Slots of an endpoint: how many requests its batch takes.
const (
	believedSlots = 256 // vLLM's usual max_num_seqs
	// slotsSeen is how many scrapes in a row must show a queue before the batch beside it is
	// taken for full; a single one catches requests on their way in.
	slotsSeen = 3
)

// slots learns how many requests the batch takes: as many as run while others queue and the KV
// cache isn't why, or as the KV cache has room for.
type slots struct {
	limit  float64
	queued int // scrapes in a row with a queue
}

func (s *slots) learn(waiting, running, kv float64) float64 {
	if s.limit == 0 {
		s.limit = believedSlots
	}
	if waiting >= 2 && running >= 1 {
		s.queued++
	} else {
		s.queued = 0
	}
	switch {
	case running > s.limit:
		s.limit = running
	case s.queued >= slotsSeen:
		s.limit += (running - s.limit) / 2
	}
	limit := max(s.limit, 1)
	if kv > 0.2 && running >= 4 {
		limit = min(limit, running/kv)
	}
	return limit
}
