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

// maxRounds is how many times one request may come back to the queue because the places that looked
// as if they had room said that they have none.
const maxRounds = 4

// deliver waits for room, sends, and does so again if no place had room after all.
func (r *Router) deliver(ctx context.Context, x *trip) {
	until := x.waitUntil(ctx, r.now())
	for round := 1; ; round++ {
		pass, refusal := r.gate.Enter(ctx, r.queued(x, until), r.room(x))
		if refusal != nil {
			x.waited(refusal.Waited)
			x.shed(refusal)
			return
		}
		if pass.Waited > 0 {
			x.waited(pass.Waited)
			x.choice = route.Choice{} // the gate may still be reading the old one
			r.choose(x)
		}
		x.pass = pass
		again := r.send(ctx, x, round < maxRounds && r.now().Before(until))
		pass.Begun()
		if !again {
			return
		}
		x.again()
		x.choice = route.Choice{}
		r.choose(x)
	}
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
func (r *Router) queued(x *trip, until time.Time) queue.Request {
	lane, slots := r.sight.Lane(x.model.ID, x.choice.Targets)
	return queue.Request{
		Lane: lane, Priority: x.priority, Tenant: string(x.tenant.ID), Flow: x.fairness,
		Cost: dispatch.Cost(x.prompt, x.output), Bytes: int64(len(x.body)), Deadline: until, Slots: slots,
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
