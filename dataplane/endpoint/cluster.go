package endpoint

import (
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/table"
)

// Cluster is one target of routing as this router knows it from its own evidence: the endpoints
// that it sends to, or, in another region, what became of the requests that it sent that way.
type Cluster struct {
	ID     fleet.ClusterID
	Region fleet.RegionID
	// Remote: in another region than the router.
	Remote bool

	spec      atomic.Pointer[table.Cluster]
	class     atomic.Pointer[table.Class]
	rtt       atomic.Int64 // ns
	endpoints atomic.Pointer[[]*Endpoint]
	breaker   *breaker
	windows   map[fleet.ModelID]*window // never changed
	inFlight  atomic.Int64
	load      atomic.Pointer[loadView]
}

// Endpoints are those in the table; none for a cluster of another region. The slice must not be
// changed.
func (c *Cluster) Endpoints() []*Endpoint {
	if p := c.endpoints.Load(); p != nil {
		return *p
	}
	return nil
}

// Spec is the cluster as the newest table has it.
func (c *Cluster) Spec() *table.Cluster { return c.spec.Load() }

// InFlight is how many of this router's requests are there now.
func (c *Cluster) InFlight() int64 { return c.inFlight.Load() }

// Ejected says whether the router sends nothing there, and why: the cluster itself is ejected, or
// each of its endpoints is.
func (c *Cluster) Ejected() (bool, string) {
	if out, why := c.breaker.ejected(); out {
		return true, why
	}
	reason := ""
	for _, e := range c.Endpoints() {
		out, why := e.Ejected()
		if !out {
			return false, ""
		}
		reason = why
	}
	return reason != "", reason
}

// Evidence is what the choice among clusters needs to know of one.
type Evidence struct {
	// Ejected: found dead by this router; Reason says how.
	Ejected bool
	Reason  string
	// Saturation is load over capacity, 1 and above is full; 0 if not known.
	Saturation float64
	// Wait is the predicted time to the first token there, without the way to it; 0 if not known.
	Wait time.Duration
}

// Evidence is the router's own sight of the cluster now. Ejection is as of this moment, load at
// most loadEvery old.
func (c *Cluster) Evidence(now time.Time) Evidence {
	v := c.look(now)
	ev := Evidence{Saturation: v.saturation, Wait: v.wait}
	ev.Ejected, ev.Reason = c.Ejected()
	return ev
}

// Candidates appends the endpoints that may take the request, those ejected or skipped left out,
// and themselves as values to choose by; the two lists correspond. Those that are busy come only
// where there are no others. Skip nil skips none.
func (c *Cluster) Candidates(l *Load, now time.Time, skip func(*Endpoint) bool, to []*Endpoint, as []pick.Candidate) ([]*Endpoint, []pick.Candidate) {
	had := len(to)
	for _, busy := range [...]bool{false, true} {
		for _, e := range c.Endpoints() {
			if out, _ := e.Ejected(); out || e.Busy(now) != busy || skip != nil && skip(e) {
				continue
			}
			to, as = append(to, e), append(as, e.Candidate(l, now))
		}
		if len(to) > had {
			break
		}
	}
	return to, as
}
