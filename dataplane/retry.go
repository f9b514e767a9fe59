package dataplane

import (
	"net/http"
	"time"

	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/proxy"
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
		r.budget.Sent(id, now)
		x.kind = "first"
		return true
	}
	x.kind = "retry"
	exempt := x.trail.Exempt(p.cluster, p.endpoint, x.attempts, now)
	if exempt {
		x.kind = "exempt"
	}
	if r.budget.Retry(id, exempt, now) {
		return true
	}
	r.metrics.refused.WithLabelValues(string(id)).Inc()
	x.record.leaveOut(id, budgetSpent)
	return false
}

// met is what the next attempt needs to know of one at a place.
func met(p *place, result *proxy.Result) dispatch.Last {
	return dispatch.Last{
		Cluster: p.cluster, Endpoint: p.endpoint,
		Silent: wasSilent(result), Busy: wasBusy(result), Unknown: wasUnknown(result), Unsent: wasUnsent(result),
		Refused: result.Outcome == failover.ConnectFailure, Exempt: result.Exempt,
	}
}
