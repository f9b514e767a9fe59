package dataplane

import (
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/pick"
)

// maxSkipped is how many endpoints that were no candidates an attempt's record names.
const maxSkipped = 16

// expected is what a prediction consists of, for the record.
func expected(e *endpoint.Endpoint, c *pick.Candidate, reason *pick.Reason, now time.Time) *Expected {
	x := &Expected{
		WaitMs: reason.Times.Wait * 1e3, PrefillMs: reason.Times.Prefill * 1e3, AdapterMs: reason.Times.Adapter * 1e3, KVMs: reason.Times.KV * 1e3,
		CachedTokens: c.Cached, Waiting: c.Waiting, Running: c.Running, SignalAgeMs: signalAge(e, now),
	}
	if reason.Adapter != pick.NoAdapter {
		x.Adapter = reason.Adapter.String()
	}
	return x
}

// signalAge is how old an endpoint's newest measurement is, in ms; -1: there is none.
func signalAge(e *endpoint.Endpoint, now time.Time) int64 {
	s := e.Signals()
	if s == nil || s.At.IsZero() {
		return -1
	}
	return max(now.Sub(s.At).Milliseconds(), 0)
}

// signalAge is that of the newest measurement of a cluster's endpoints.
func (r *Router) signalAge(id fleet.ClusterID) int64 {
	if c := r.places.Cluster(id); c != nil {
		return c.SignalAge(r.now())
	}
	return -1
}

func lacks(e *endpoint.Endpoint, model fleet.ModelID) bool {
	out, _ := e.Lacks(model)
	return out
}

// passedOver says why endpoints of a cluster are not among those that the next attempt may go to.
func (x *trip) passedOver(all, among []*endpoint.Endpoint, now time.Time) []Skip {
	var skips []Skip
	for _, e := range all {
		if len(skips) == maxSkipped {
			break
		}
		if slices.Contains(among, e) {
			continue
		}
		reason := "in doubt"
		switch dead, why := e.Ejected(); {
		case dead:
			reason = "ejected: " + why
		case x.trail.Was(e):
			reason = "tried"
		case lacks(e, x.load.Model):
			reason = "does not answer for the model"
		case e.Busy(now):
			reason = "busy"
		}
		skips = append(skips, Skip{e.ID, reason})
	}
	return skips
}
