package ours

import (
	"time"

	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/meter"
	"anabranch/failover"
	"anabranch/sim/world"
)

// ended takes in how an attempt went.
func (ro *router) ended(y *try, a *world.Attempt, how world.Outcome) {
	t := y.trip
	outcome, last := y.judge(a, how)
	r := endpoint.Result{Outcome: outcome}
	if a.First > 0 {
		r.FirstToken = a.First - a.Sent
	}
	if how == world.Answered {
		r.Output = int64(a.Output)
		r.Usage = inference.Usage{Prompt: int64(t.request.PromptTokens), Cached: int64(a.Cached), Completion: int64(a.Output)}
	}
	if h := y.hop; h != nil {
		r.Saturation, r.HasSaturation = h.saturation, h.told
		r.Busy = dispatch.Full(last.Busy, h.told, h.saturation)
		if r.Busy {
			r.RetryAfter = retryAfter
		}
		delete(ro.policy.hops, h.key)
	}
	if y.end != nil {
		ro.doubts.Note(y.cluster.ID, outcome, ro.now)
	}
	y.call.Done(r, ro.now)
	y.over = true
	if y.end != nil {
		ro.seat(y.cluster.ID, y.end).count(ro.now, y.end)
	}
	ro.gate.Freed()
	t.reached = t.reached || !last.Refused
	t.trail.Last = last
	if t.asker != nil {
		t.asker.unreachable = last.Refused
	}
	ro.over(t, a, how)
}

// retryAfter is what a router says that has no capacity, as in dataplane.
const retryAfter = time.Second

// over ends the request if its last attempt does. After others the world has it routed again.
func (ro *router) over(t *trip, a *world.Attempt, how world.Outcome) {
	switch how {
	case world.Answered:
		ro.policy.control.answered(t.model.ID, t.request.PromptTokens, a.Cached, a.Output)
		ro.finish(t, meter.Usage{Prompt: int64(t.request.PromptTokens), Cached: int64(a.Cached), Completion: int64(a.Output)}, meter.Completed, false)
	case world.Broken:
		ro.finish(t, meter.Usage{Completion: int64(a.Output)}, meter.Broken, true)
	case world.Left:
		ro.finish(t, meter.Usage{Completion: int64(a.Output)}, meter.Broken, false)
	case world.Unfit:
		ro.finish(t, meter.Usage{}, meter.FailedBeforeContent, false)
	default:
		if t.asker != nil {
			ro.kept, ro.keptAt = t, ro.truth // it may be picked for again at once
			return
		}
		if a.Number >= maxAttempts {
			ro.finish(t, meter.Usage{}, meter.FailedBeforeContent, true)
		}
	}
}

// refusedWithin is how long a refused connection takes at most, in round trips within a region: later
// it is a reset.
const refusedWithin = 3

// judge says what an end means, as dataplane/proxy judges answers and errors.
func (y *try) judge(a *world.Attempt, how world.Outcome) (failover.Outcome, dispatch.Last) {
	last := dispatch.Last{Cluster: y.cluster, Endpoint: y.end}
	away := y.end == nil
	switch how {
	case world.Answered:
		return failover.OK, last
	case world.Refused:
		last.Exempt = true
		if away && a.Pod >= 0 && !y.hop.unreachable { // the peer's place broke the connection
			return failover.ServerFault, last
		}
		if !away && y.router.now.Sub(y.since) > refusedWithin*world.LocalRTT {
			return failover.ServerFault, last
		}
		last.Refused = true
		return failover.ConnectFailure, last
	case world.Silent:
		if away { // it answers 504
			return failover.ServerFault, last
		}
		last.Silent = true
		return failover.Silence, last
	case world.Broken:
		return failover.ServerFault, last
	case world.Full:
		if y.hop != nil && y.hop.dead {
			last.Exempt, last.Refused = true, true
			return failover.ConnectFailure, last
		}
		last.Busy = true
		return failover.Ignored, last
	case world.Left, world.Unfit:
	}
	return failover.Ignored, last
}
