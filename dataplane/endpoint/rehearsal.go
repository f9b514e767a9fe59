package endpoint

import (
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/failover"
)

// RehearsalPause is how often [Rehearsal.Step] should be called: as often as canaries go to a place in doubt.
const RehearsalPause = CanaryPause

// rehearsed begins the reason of every ejection that is not real.
const rehearsed = "drill: "

// Rehearsal is the judgement of places that a drill has some requests find dead while they are alive. It is made by the
// breakers, with the same numbers, that judge places for all requests, but apart from these: what is rehearsed says
// nothing to others, and is gone with the rehearsal. Nothing is sent: requests are refused where they would be
// sent, canaries fail as soon as they would go, and a look at metrics that has been taken meanwhile would have failed.
// It is safe for concurrent use. Nil rehearses nothing.
type Rehearsal struct {
	clusters []fleet.ClusterID
	began    time.Time
	places   sync.Map // *Endpoint or *Cluster → *breaker

	mu      sync.Mutex // guards ejected
	ejected map[fleet.ClusterID]time.Time
}

// NewRehearsal begins one of clusters.
func NewRehearsal(clusters []fleet.ClusterID, now time.Time) *Rehearsal {
	return &Rehearsal{clusters: clusters, began: now, ejected: make(map[fleet.ClusterID]time.Time)}
}

// of is the breaker of a place that has another for all requests.
func (r *Rehearsal) of(place any, usual *breaker) *breaker {
	if b, ok := r.places.Load(place); ok {
		return b.(*breaker)
	}
	usual.mu.Lock()
	cfg := usual.cfg
	usual.mu.Unlock()
	b, _ := r.places.LoadOrStore(place, newBreaker(cfg))
	return b.(*breaker)
}

// Refused notes that a request was refused at a cluster, and there at an endpoint; nil: by way of another region's
// router. First says that the cluster is ejected by it.
func (r *Rehearsal) Refused(c *Cluster, e *Endpoint, now time.Time) (first bool) {
	if e != nil {
		r.of(e, e.breaker).record(failover.ConnectFailure, now)
	} else {
		r.of(c, c.breaker).record(failover.ConnectFailure, now)
	}
	return r.note(c, now)
}

// Step does what canaries and looks at metrics would have done by now at the places of a registry, and names the
// clusters that are ejected by it.
func (r *Rehearsal) Step(places *Registry, now time.Time) (ejected []fleet.ClusterID) {
	for _, id := range r.clusters {
		c := places.Cluster(id)
		if c == nil {
			continue
		}
		if c.Remote {
			fail(r.of(c, c.breaker), now)
		}
		for _, e := range c.Endpoints() {
			b := r.of(e, e.breaker)
			if s := e.signals.Load(); s != nil && s.At.After(r.began) {
				b.doubt()
			}
			fail(b, now)
		}
		if r.note(c, now) {
			ejected = append(ejected, id)
		}
	}
	return ejected
}

// fail has the canary fail that a place in doubt is due.
func fail(b *breaker, now time.Time) {
	if out, _ := b.ejected(); !out && !b.idle() {
		b.probed(failover.ConnectFailure, "refused, as the drill has it", now)
	}
}

// note takes down when a cluster is ejected first.
func (r *Rehearsal) note(c *Cluster, now time.Time) (first bool) {
	if out, _ := r.Ejected(c); !out {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.ejected[c.ID]; known {
		return false
	}
	r.ejected[c.ID] = now
	return true
}

// Ejected says whether a cluster is found dead by those who rehearse, and why: one here when each of its endpoints is.
func (r *Rehearsal) Ejected(c *Cluster) (out bool, reason string) {
	if r == nil || c == nil {
		return false, ""
	}
	if c.Remote {
		return r.found(c)
	}
	for _, e := range c.Endpoints() {
		if out, reason = r.found(e); !out {
			return false, ""
		}
	}
	return out, reason
}

// EndpointEjected says so of an endpoint.
func (r *Rehearsal) EndpointEjected(e *Endpoint) bool {
	if r == nil {
		return false
	}
	out, _ := r.found(e)
	return out
}

func (r *Rehearsal) found(place any) (out bool, reason string) {
	b, ok := r.places.Load(place)
	if !ok {
		return false, ""
	}
	out, reason = b.(*breaker).ejected()
	return out, rehearsed + reason
}

// First is when the first cluster was ejected; zero: none was.
func (r *Rehearsal) First() (first time.Time) {
	if r == nil {
		return first
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.ejected {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}
