package ours

import (
	"context"
	"time"

	"anabranch/dataplane/admit"
	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/meter"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/queue"
	"anabranch/dataplane/route"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// maxAttempts bounds a request's attempts in the world, which counts them in a byte. The router itself has
// no bound but the time that a request may wait.
const maxAttempts = 250

// route is the line that a client's request takes, dataplane.Router.serve: from its arrival, from the
// queue or from an attempt that failed to the next place.
func (ro *router) route(r *workload.Request, v *world.View) world.Route {
	t := ro.trips[r.ID]
	switch {
	case t == nil:
		return ro.arrive(r, v)
	case !t.rests.IsZero():
		if ro.now.Before(t.rests) {
			return world.Route{Cluster: -1, Wait: true}
		}
		ro.unwait(t)
		return ro.again(t, v)
	case t.wait != nil:
		pass, refusal := t.wait.Over()
		if pass == nil && refusal == nil {
			return world.Route{Cluster: -1, Wait: true}
		}
		ro.unwait(t)
		return ro.enter(t, pass, refusal, v)
	}
	if t.trail.Enough(t.made - t.before) {
		return ro.giveUp(t, v)
	}
	t.walk.Failed(len(t.choice.Targets))
	return ro.send(t, v)
}

// arrive takes in a new request.
func (ro *router) arrive(r *workload.Request, v *world.View) world.Route {
	t := ro.newTrip(r, nil)
	ro.inFlight++
	ro.trips[r.ID] = t
	if !ro.begin(t, nil) {
		return ro.refuse(t, "model_not_found", true, v)
	}
	reservation, decision := ro.admit.Take(context.Background(), t.table, admit.Request{
		Tenant: t.tenant, Model: t.model, Input: t.prompt, Output: t.output,
	})
	if t.reservation = reservation; !decision.Allowed {
		return ro.refuse(t, world.CodeQuota, false, v)
	}
	ro.places.Asked(t.model.ID, t.class.ID, queue.Counts(t.priority), t.model.Work(t.prompt, ro.places.Answer(t.model.ID, t.output)))
	ro.choose(t)
	if ro.shedByPlan(t) {
		return ro.refuse(t, world.CodeNoCapacity, false, v)
	}
	return ro.queue(t, v)
}

// shedByPlan is dataplane.Router's of the name.
func (ro *router) shedByPlan(t *trip) bool {
	shed := t.table.Shed(t.model.ID, t.class.ID, ro.region)
	if shed.Part == 0 {
		return false
	}
	stale, _ := ro.believes()
	verdict, _ := ro.sight.Sheds(shed, t.priority, t.choice.Targets, !stale, ro.random.Uint64())
	return verdict == dispatch.Shed
}

// queue asks for room.
func (ro *router) queue(t *trip, v *world.View) world.Route {
	lane, slots := ro.sight.Lane(t.model.ID, t.choice.Targets)
	pass, refusal, wait := ro.gate.Offer(queue.Request{
		Lane: lane, Priority: t.priority, Tenant: string(t.tenant.ID), Flow: string(t.tenant.ID),
		Cost: dispatch.Cost(t.prompt, t.output), Bytes: int64(t.load.PromptBytes), Deadline: t.until, Came: t.came, Slots: slots,
	}, func() float64 { return ro.sight.Room(t.choice.Targets, t.tenant.ID) })
	if wait != nil {
		t.wait = wait
		ro.waits = append(ro.waits, t)
		return world.Route{Cluster: -1, Wait: true, Reason: ro.why(v, "waits for room")}
	}
	return ro.enter(t, pass, refusal, v)
}

// enter goes on with a request that the gate has let in, or refused.
func (ro *router) enter(t *trip, pass *queue.Pass, refusal *queue.Refusal, v *world.View) world.Route {
	if refusal != nil {
		return ro.refuse(t, world.CodeNoCapacity, refusal.Status >= 500, v)
	}
	if t.pass = pass; pass.Waited > 0 {
		ro.choose(t)
	}
	t.walk, t.before = dispatch.Walk{}, t.made
	return ro.send(t, v)
}

// send finds the place of the next attempt.
func (ro *router) send(t *trip, v *world.View) world.Route {
	if t.choice.Code != "" {
		code := t.choice.Code
		if code == route.NoCapacity {
			code = "no_living_target" // which the world tells apart from full
		}
		return ro.refuse(t, code, true, v)
	}
	if !ro.walk(t) {
		return ro.giveUp(t, v)
	}
	ro.current = t
	return world.Route{Cluster: ro.policy.places.clusters[t.spot.cluster.ID], Reason: ro.explain(v, t)}
}

// walk finds the next target that can take an attempt. False: none is left.
func (ro *router) walk(t *trip) bool {
	targets := t.choice.Targets
	for {
		i := t.walk.Next(&t.trail, &t.load, targets, ro.places, ro.now)
		if i < 0 {
			return false
		}
		if !ro.find(t, &targets[i]) || !ro.mayTry(t) {
			t.walk.Shut(i, len(targets))
			continue
		}
		t.walk.Taken()
		return true
	}
}

// find finds where in a target to go next: dataplane's place.
func (ro *router) find(t *trip, target *route.Target) bool {
	cluster := ro.places.Cluster(target.Cluster.ID)
	if cluster == nil {
		return false // can't be: clusters don't leave a simulated table
	}
	if dead, _ := cluster.Ejected(); dead {
		return false
	}
	t.spot = spot{target: target, cluster: cluster}
	if target.Remote {
		t.spot.reason.Seconds = (cluster.Predict(&t.load, ro.now) + target.RTT).Seconds()
		return !t.trail.WasIn(target.Cluster.ID)
	}
	f := &ro.field
	f.endpoints, f.candidates = t.trail.Candidates(cluster, &t.load, ro.now, f.endpoints[:0], f.candidates[:0])
	mode, _ := pick.ModeOf(t.class.PickMode)
	rnd := ro.random.Uint64()
	if mode == pick.RoundRobin {
		ro.turn++
		rnd = ro.turn
	}
	request := pick.Request{PromptTokens: t.prompt}
	if mode == pick.PrefixHash {
		request.PrefixKey, request.Concurrency = t.prefix, int64(t.class.Concurrency)
	}
	best, reason := pick.Best(request, f.candidates, mode, rnd)
	if best < 0 {
		return false
	}
	t.spot.endpoint, t.spot.reason, t.spot.among = f.endpoints[best], reason, len(f.endpoints)
	return true
}

// mayTry counts an attempt against the budget of where it goes. The first always may.
func (ro *router) mayTry(t *trip) bool {
	id := t.spot.cluster.ID
	if t.trail.Last.Cluster == nil {
		ro.budget.Sent(id, ro.now)
		return true
	}
	return ro.budget.Retry(id, t.trail.Exempt(t.spot.cluster, t.spot.endpoint, t.made, ro.now), ro.now)
}

// giveUp ends a request where no attempt is left, or lets it wait for room once more.
func (ro *router) giveUp(t *trip, v *world.View) world.Route {
	busy := t.trail.Last.Busy
	if busy && ro.now.Before(t.until) && ro.sight.Stays(t.choice.Targets) {
		t.pass.Begun()
		if t.returns++; !dispatch.Rests(ro.sight.Room(t.choice.Targets, t.tenant.ID)) {
			return ro.again(t, v)
		}
		t.rests = ro.now.Add(min(dispatch.Pause(t.returns, ro.random.Uint64()), t.until.Sub(ro.now)))
		ro.waits, ro.resting = append(ro.waits, t), ro.resting+1
		return world.Route{Cluster: -1, Wait: true, Reason: ro.why(v, "rests before it asks for room again")}
	}
	if busy || t.trail.Last.Cluster == nil {
		return ro.refuse(t, world.CodeNoCapacity, true, v)
	}
	return ro.refuse(t, "upstream_failed", true, v)
}

// refuse answers a request with an error of the router's own. Fault: with a 5xx.
func (ro *router) refuse(t *trip, code string, fault bool, v *world.View) world.Route {
	why := ro.refused(v, t, code)
	fate := meter.NotSent
	if t.reached {
		fate = meter.FailedBeforeContent
	}
	ro.finish(t, meter.Usage{}, fate, fault)
	return world.Route{Cluster: -1, Code: code, Reason: why}
}

// finish ends a request: what it used is settled, and it is counted.
func (ro *router) finish(t *trip, used meter.Usage, fate meter.Fate, fault bool) {
	if t.pass != nil {
		t.pass.Begun()
	}
	if t.asker != nil {
		ro.drop(t)
		return
	}
	if t.reservation != nil {
		meter.Charge(t.reservation, used, fate)
	}
	ro.inFlight--
	ro.answers++
	if fault {
		ro.faults++
	}
	delete(ro.trips, t.request.ID)
	ro.drop(t)
}

// picked is the pod of a request that was routed to a cluster of this region.
func (ro *router) picked(r *workload.Request, v *world.View) world.Pick {
	t := ro.current
	if t == nil || t.request.ID != r.ID || t.spot.endpoint == nil {
		return world.Pick{Pod: -1}
	}
	return ro.pick(t, v)
}

func (ro *router) pick(t *trip, v *world.View) world.Pick {
	e := t.spot.endpoint
	return world.Pick{
		Pod:    podNumber(e.ID),
		Bound:  e.SilenceBound(&t.load, seconds(t.spot.reason.Seconds), t.class, ro.now),
		Reason: ro.explainPick(v, t),
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// try is one attempt at a place.
type try struct {
	router  *router
	trip    *trip
	call    *endpoint.Call
	cluster *endpoint.Cluster
	end     *endpoint.Endpoint // nil: in another region
	hop     *hop               // what the other router tells; nil: none is in between
	since   time.Time
	overdue time.Duration
	told    bool // that it is overdue
	seen    bool // content
	over    bool
}

// sent counts an attempt in.
func (ro *router) sent(a *world.Attempt) {
	t := ro.current
	if ro.current = nil; t == nil || t.request.ID != a.Request.ID {
		return
	}
	t.made++
	y := &try{router: ro, trip: t, cluster: t.spot.cluster, end: t.spot.endpoint, since: ro.now}
	a.Data = y
	if y.end == nil {
		t.trail.Hopped = append(t.trail.Hopped, y.cluster.ID)
		y.call = y.cluster.Hop(t.load, ro.now)
		y.hop = ro.announce(t, a)
	} else {
		t.trail.Tried = append(t.trail.Tried, y.end)
		y.overdue = y.end.Overdue(&t.load, seconds(t.spot.reason.Seconds), t.class)
		y.call = y.end.Begin(t.load, ro.now)
		ro.seat(y.cluster.ID, y.end).count(ro.now, y.end)
		ro.open = append(ro.open, y)
	}
	if t.pass != nil {
		t.pass.Begun()
	}
}
