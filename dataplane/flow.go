package dataplane

import (
	"context"
	"net/http"
	"time"

	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/queue"
	"anabranch/dataplane/route"
)

// Flow control: what happens to a request when every place that may serve it is full.

// deliver waits for room, sends, and does so again after a pause if no place had room after all, for as
// long as the request may wait.
func (r *Router) deliver(ctx context.Context, x *trip) {
	came := r.now()
	until := x.waitUntil(ctx, came)
	for returns := 1; ; returns++ {
		q := r.queued(x, came, until)
		r.hold(x, &q)
		pass, refusal := r.gate.Enter(ctx, q, r.room(x))
		x.letIn(refusal == nil, refusal != nil && refusal.Cause != queue.ClientGone && refusal.Cause != queue.Ordered || pass != nil && pass.Waited > 0)
		if refusal != nil {
			x.waited(refusal.Waited)
			if refusal.Cause != queue.Closed && refusal.Cause != queue.ClientGone && r.lift(x) {
				r.anew(x)
				continue
			}
			x.shed(refusal)
			return
		}
		if pass.Waited > 0 {
			x.waited(pass.Waited)
			x.choice = route.Choice{} // the gate may still be reading the old one
			r.choose(x)
		}
		x.pass = pass
		again := r.send(ctx, x, until)
		pass.Begun()
		if !again {
			return
		}
		if dispatch.Rests(r.room(x)()) {
			r.rest(ctx, x, min(dispatch.Pause(returns, r.random()), until.Sub(r.now())))
		}
		x.again()
		x.choice = route.Choice{}
		r.choose(x)
	}
}

// rest pauses a request, or until its client leaves.
func (r *Router) rest(ctx context.Context, x *trip, pause time.Duration) {
	began := r.now()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	x.waited(r.now().Sub(began))
}

// waitUntil is how long the request may wait for room: from now on as long as its class allows.
func (x *trip) waitUntil(ctx context.Context, now time.Time) time.Time {
	until := now.Add(x.class.Queue)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until = d
	}
	return until
}

// queued is the request as the queue sees it.
func (r *Router) queued(x *trip, came, until time.Time) queue.Request {
	lane, slots := r.sight.Lane(x.model.ID, x.choice.Targets)
	return queue.Request{
		Lane: lane, Priority: x.priority, Tenant: string(x.tenant.ID), Flow: x.fairness,
		Cost: dispatch.Cost(x.prompt, x.output), Bytes: int64(len(x.body)), Deadline: until, Came: came, Slots: slots,
	}
}

// room tells how full the least full target is. The gate calls it from a goroutine of its own while the
// request waits.
func (r *Router) room(x *trip) func() float64 {
	targets, tenant := x.choice.Targets, x.tenant.ID
	return func() float64 { return r.sight.Room(targets, tenant) }
}

// ceiling is the saturation from which on a place is full for the request.
func (x *trip) ceiling() float64 { return queue.Ceiling(x.priority) }

func (x *trip) waited(d time.Duration) {
	x.record.QueuedMs += milliseconds(d)
	x.span.Queued(x.record.QueuedMs / 1e3)
}

// shed answers a request that was not let in. The headers say that no tier should send it again in
// the client's name; SDKs of OpenAI heed the second.
func (x *trip) shed(f *queue.Refusal) {
	x.noRoom = true
	if f.Final() {
		h := x.w.Header()
		h[queue.HeaderDropped] = []string{f.Dropped()}
		h["X-Should-Retry"] = []string{"false"}
	}
	kind := proxy.TypeServer
	if f.Status == http.StatusTooManyRequests {
		kind = proxy.TypeRateLimit
	}
	x.refuse(&proxy.Error{
		Status: f.Status, Type: kind, Code: f.Code, Origin: proxy.FromRouter, Message: f.Reason, RetryAfter: f.RetryAfter,
	})
}

// again forgets what was tried: those places were busy then.
func (x *trip) again() {
	x.trail.Again()
	x.last = nil
}

// counted says that the request now counts as load at its place.
func (x *trip) counted(call *endpoint.Call) *endpoint.Call {
	if x.pass != nil {
		x.pass.Begun()
	}
	return call
}

// full answers a peer whose request finds no room in this region: it may have other regions.
func (r *Router) full(x *trip) bool {
	if below, sheds := r.o.Orders().ShedBelow(); sheds && x.priority < below {
		return true
	}
	return len(x.choice.Targets) > 0 && r.sight.Room(x.choice.Targets, x.tenant.ID) >= x.ceiling() // not so if it is not a number
}

// waitingNow is how many requests wait for room.
func (r *Router) waitingNow() int {
	n := 0
	for _, d := range r.gate.Depths() {
		n += int(d.Requests)
	}
	return n
}
