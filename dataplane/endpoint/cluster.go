package endpoint

import (
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/prefix"
	"anabranch/dataplane/table"
)

// Cluster is one target of routing as this router knows it from its own evidence: the endpoints
// that it sends to, or, in another region, what became of the requests that it sent that way.
type Cluster struct {
	ID     fleet.ClusterID
	Region fleet.RegionID
	// Remote: requests for it go by way of another region's router.
	Remote bool

	spec      atomic.Pointer[table.Cluster]
	class     atomic.Pointer[table.Class]
	rtt       atomic.Int64 // ns
	endpoints atomic.Pointer[[]*Endpoint]
	windows   perModel[window]
	lookups   lookups
	inFlight  atomic.Int64
	load      atomic.Pointer[loadView]
	ejecting  sync.Mutex // held while an endpoint asks whether it may be ejected
	ejections atomic.Uint64
	random    func() float64
	answers   *answers // of all clusters

	// Of one here.
	unanswered unanswered

	// Of a remote one.
	breaker *breaker
	busy    busy
	told    atomic.Pointer[told]
	rates   perModel[Rates]
	index   *prefix.Index
	holder  *prefix.Holder
}

// Endpoints are those in the table and those found; none for a remote cluster. The slice must not be
// changed.
func (c *Cluster) Endpoints() []*Endpoint {
	if p := c.endpoints.Load(); p != nil {
		return *p
	}
	return nil
}

// Spec is the cluster as the newest table has it.
func (c *Cluster) Spec() *table.Cluster { return c.spec.Load() }

// is says whether a table means this cluster, and none that merely has its name.
func (c *Cluster) is(spec *table.Cluster) bool {
	return c.ID == spec.ID && c.Region == spec.Region && c.Spec().Kind == spec.Kind
}

// InFlight is how many of this router's requests are there now.
func (c *Cluster) InFlight() int64 { return c.inFlight.Load() }

// Ejected says whether the router sends nothing there, and why: a remote cluster is ejected itself,
// of one here each endpoint is, or there is none.
func (c *Cluster) Ejected() (bool, string) {
	if c.Remote {
		return c.breaker.ejected()
	}
	reason := "no endpoint is known"
	for _, e := range c.Endpoints() {
		out, why := e.Ejected()
		if !out {
			return false, ""
		}
		reason = why
	}
	return true, reason
}

// mayEject says whether one more endpoint may be ejected for how requests went, without a canary's
// word, and counts it as such: at most half of them, rounded down, and never the last one in use. A
// request that breaks every server that it comes to must not take the cluster down.
// Of gives the breaker of an endpoint that is meant, its own or that of one model.
func (c *Cluster) mayEject(b *breaker, of func(*Endpoint) *breaker) bool {
	c.ejecting.Lock()
	defer c.ejecting.Unlock()
	list := c.Endpoints()
	byRequests, others := 0, 0
	for _, e := range list {
		its := of(e)
		if its == b || its == nil {
			continue
		}
		if its.byRequests.Load() {
			byRequests++
		} else if dead, _ := its.ejected(); dead {
			continue
		} else if out, _ := e.Ejected(); !out {
			others++
		}
	}
	if byRequests+1 > len(list)/2 || others == 0 {
		return false
	}
	b.byRequests.Store(true)
	return true
}

// Evidence is what the choice among clusters needs to know of one.
type Evidence struct {
	// Ejected: found dead by this router, or without any endpoint; Reason says how.
	Ejected bool
	Reason  string
	// Busy: it has said that it has no room now.
	Busy bool
	// Known: Saturation comes from signals, or from what was told, and not from nothing.
	Known bool
	// Saturation is load over capacity, 1 and above is full; 0 if not known.
	Saturation float64
	// Slots is how many requests the cluster takes at saturation 1, as learned; 0 if not known.
	Slots float64
	// Wait is the predicted time until a request's prompt is begun there, without the way to it; 0 if
	// not known. What the prompt then takes is [Cluster.Prefill].
	Wait time.Duration
}

// Evidence is the router's own sight of the cluster now. Ejection and Busy are as of this moment,
// load at most loadEvery old.
func (c *Cluster) Evidence(now time.Time) Evidence {
	v := c.look(now)
	ev := Evidence{Busy: c.Busy(now), Known: v.known, Saturation: v.saturation, Slots: v.slots, Wait: v.wait}
	ev.Ejected, ev.Reason = c.Ejected()
	return ev
}

// Prefill is the predicted time to compute the part of a prompt that the cluster's caches don't
// hold, at the endpoint that is soonest done with it; 0 if there is none.
func (c *Cluster) Prefill(l *Load, now time.Time) time.Duration {
	if c.Remote {
		return seconds(prefill(c.rates.of(l.Model), l.PromptTokens-l.cached(c.index.Match(c.holder, l.Blocks, now).Blocks)))
	}
	best := 0.0
	for _, e := range c.Endpoints() {
		if out, _ := e.Ejected(); out {
			continue
		}
		if s := prefill(e.rates.of(l.Model), l.PromptTokens-e.held(l, now)); best == 0 || s < best {
			best = s
		}
	}
	return seconds(best)
}

// prefill is the time in seconds until the first token for so many tokens that are not cached.
func prefill(r *Rates, uncached int64) float64 {
	if r == nil {
		return 0
	}
	l := r.Learned()
	return l.Overhead + float64(uncached)/l.Prefill
}

// Predict is the predicted first-token time of a request at the cluster, without the way to it.
func (c *Cluster) Predict(l *Load, now time.Time) time.Duration {
	return c.look(now).wait + c.Prefill(l, now)
}

// Candidates appends the endpoints that may take the request, those ejected, without its model or skipped left out,
// and themselves as values to choose by; the two lists correspond. Those that are busy come only
// where there are no others. Skip nil skips none.
func (c *Cluster) Candidates(l *Load, now time.Time, skip func(*Endpoint) bool, to []*Endpoint, as []pick.Candidate) ([]*Endpoint, []pick.Candidate) {
	had := len(to)
	for _, busy := range [...]bool{false, true} {
		for _, e := range c.Endpoints() {
			if out, _ := e.Ejected(); out || e.Busy(now) != busy || skip != nil && skip(e) {
				continue
			}
			if lacks, _ := e.Lacks(l.Model); lacks {
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
