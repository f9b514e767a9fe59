package dataplane

import (
	"net/http"
	"slices"
	"time"

	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/route"
	"anabranch/failover"
)

// Where a retry goes, and whether it may: what the last attempt met says what the next place should
// not share with it.

// wasSilent: nothing came in time.
func wasSilent(last *proxy.Result) bool { return last != nil && last.Outcome == failover.Silence }

// wasBusy: the place, or those of a peer, have no room now.
func wasBusy(last *proxy.Result) bool {
	return last != nil && last.Retryable && (last.Status == http.StatusTooManyRequests ||
		last.Status == http.StatusServiceUnavailable && last.Outcome != failover.ConnectFailure && last.Err.RetryAfter > 0)
}

// wasUnsent: this router lacks the credential of the place, which has not seen the request.
func wasUnsent(last *proxy.Result) bool {
	return last.Retryable && last.Err != nil && last.Err.Code == proxy.CodeUnsigned
}

func retryAfter(last *proxy.Result) time.Duration {
	if last.Err == nil {
		return 0
	}
	return last.Err.RetryAfter
}

// wasUnknown: the place does not know the path, the API or the model.
func wasUnknown(last *proxy.Result) bool {
	return last != nil && last.Retryable && last.Status == http.StatusNotFound && last.Err.Code == "upstream_mismatch"
}

// How much a target promises after what the last attempt met; less is better.
const (
	promising = iota
	second
	poor
	mute // requests go unanswered there
)

// next says which target comes next: the first from where the turn is, or of those after it the
// first that promises more; not one that is shut. -1: none is left, or only such where requests go
// unanswered, and the last place was alive and had no room: waiting for that is better.
func (r *Router) next(x *trip, targets []route.Target, from int, shut []bool) int {
	judge := wasSilent(x.last) || wasBusy(x.last) || wasUnknown(x.last)
	best, least := -1, mute+1
	for k := range targets {
		i := (from + k) % len(targets)
		if shut != nil && shut[i] {
			continue
		}
		promise := promising
		if r.shuns(x, &targets[i]) {
			promise = mute
		} else if judge {
			promise = r.promise(x, &targets[i])
		}
		if promise < least {
			best, least = i, promise
		}
		if least == promising {
			break
		}
	}
	if least == mute && wasBusy(x.last) && !r.unanswered(x, x.at.cluster) {
		return -1
	}
	return best
}

// unanswered: the tenant's requests go unanswered at a cluster.
func (r *Router) unanswered(x *trip, c *endpoint.Cluster) bool {
	return c.Answering(x.tenant.ID, r.now()).Unanswered
}

// shuns says whether a target is left for the end since requests go unanswered there. One that comes to
// it by its draw, as its first place, may be let in to see whether they still do.
func (r *Router) shuns(x *trip, t *route.Target) bool {
	c := r.places.Cluster(t.Cluster.ID)
	if c == nil || !r.unanswered(x, c) {
		return false
	}
	return x.shadow || x.last != nil || t.Reason != route.ByTrial || !c.Try(x.tenant.ID, r.now())
}

// promise judges a target: after silence those with nothing but endpoints in doubt come second; when
// a place was busy another of the region comes before one abroad, and one known to be busy last;
// what one place did not know its siblings won't either.
func (r *Router) promise(x *trip, t *route.Target) int {
	cluster := r.places.Cluster(t.Cluster.ID)
	if cluster == nil || t.Remote && slices.Contains(x.hopped, t.Cluster.ID) {
		return poor
	}
	if dead, _ := cluster.Ejected(); dead {
		return poor
	}
	if wasUnknown(x.last) {
		if x.adapter == "" && cluster == x.at.cluster {
			return second
		}
		return promising
	}
	now := r.now()
	best := poor
	switch {
	case t.Remote && wasBusy(x.last):
		return second
	case t.Remote:
		return promising
	}
	for _, e := range cluster.Endpoints() {
		if dead, _ := e.Ejected(); dead || x.wasTried(e) {
			continue
		}
		switch {
		case wasSilent(x.last) && e.Doubtful(&x.load, now):
			best = second
		case wasBusy(x.last) && e.Busy(now):
			// poor
		default:
			return promising
		}
	}
	return best
}

// skipped are the endpoints that the next attempt should not go to: those tried, and after silence
// those in doubt.
func (x *trip) skipped(now time.Time) func(*endpoint.Endpoint) bool {
	if !wasSilent(x.last) {
		return x.wasTried
	}
	return func(e *endpoint.Endpoint) bool { return x.wasTried(e) || e.Doubtful(&x.load, now) }
}

// siblingOfBusy: the last attempt's place was busy, and this one is another of the same cluster that
// is not known to be. A place that is busy is left alone after its first such answer, which bounds
// what comes of this.
func (x *trip) siblingOfBusy(p *place, now time.Time) bool {
	return wasBusy(x.last) && p.endpoint != nil && x.at.endpoint != nil && p.cluster == x.at.cluster && !p.endpoint.Busy(now)
}

func (x *trip) wasTried(e *endpoint.Endpoint) bool { return slices.Contains(x.tried, e) }

// mayTry counts an attempt against the budget of where it goes. The first always may; a shadow copy
// gets no second one, and is no request that retries could be a share of.
func (r *Router) mayTry(x *trip, p *place) bool {
	if x.shadow {
		x.kind = "shadow"
		return x.last == nil
	}
	now := r.now()
	id := p.target.Cluster.ID
	if x.last == nil {
		r.budget.sent(id, now)
		x.kind = "first"
		return true
	}
	x.kind = "retry"
	// A request that breaks every place it comes to must not go round for free.
	exempt := x.last.Exempt && (x.attempts == 1 || x.last.Outcome == failover.ConnectFailure) ||
		wasUnsent(x.last) || wasUnknown(x.last) || x.deadSince() || x.siblingOfBusy(p, now) || r.leaves(x, p)
	if exempt {
		x.kind = "exempt"
	}
	if r.budget.retry(id, exempt, now) {
		return true
	}
	r.metrics.refused.WithLabelValues(string(id)).Inc()
	x.record.leaveOut(id, budgetSpent)
	return false
}

// deadSince: the place of the last attempt has been ejected by now, so that what fled from it is
// no sign of a storm of retries.
func (x *trip) deadSince() bool {
	dead, _ := x.at.mortal().Ejected()
	return dead
}

// leaves: the last attempt was where requests go unanswered, and this one is where they don't. What comes
// of that is bounded by the row that it took to find out, and the trials since.
func (r *Router) leaves(x *trip, p *place) bool {
	return r.unanswered(x, x.at.cluster) && !r.unanswered(x, p.cluster)
}
