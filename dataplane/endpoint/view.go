package endpoint

import (
	"slices"
	"time"

	"anabranch/api/fleet"
)

// What is told of places to people and metrics, and to nobody who chooses.

// Ramp is the share of its usual traffic that the endpoint should get, above 0 and at most 1: less
// than 1 while it has come back or is new among warm ones.
func (e *Endpoint) Ramp(now time.Time) float64 { return e.ramp.share(now) }

// Slots is how many requests its batch takes, or those of its servers, as learned.
func (e *Endpoint) Slots() float64 { return e.slots.load() }

// TellsCached says whether its replies have told of cached tokens.
func (e *Endpoint) TellsCached() bool { return e.caches.Load() }

// OwnFirstToken is how long answers of a model from here alone took to their first token; [Endpoint.FirstToken] fills in
// the cluster's, of which one quantile may contradict another.
func (e *Endpoint) OwnFirstToken(model fleet.ModelID, now time.Time) Times {
	if p := e.paces.of(model); p != nil {
		return p.first.times(now)
	}
	return Times{}
}

// Adapters are those believed loaded, by the server's names of them: what it shows, and what was
// sent here lately.
func (e *Endpoint) Adapters() []string {
	var all []string
	if s := e.signals.Load(); s != nil {
		all = append(all, s.Adapters...)
	}
	if sent := e.loras.Load(); sent != nil {
		all = append(all, *sent...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Ejections is how many times an endpoint of the cluster was ejected, or a remote cluster itself,
// since it came into the table.
func (c *Cluster) Ejections() uint64 { return c.ejections.Load() }
