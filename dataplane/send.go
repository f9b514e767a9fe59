package dataplane

import (
	"context"
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/route"
)

// place is where an attempt goes: an endpoint of this region, or a cluster of another.
type place struct {
	target   *route.Target
	cluster  *endpoint.Cluster
	endpoint *endpoint.Endpoint // nil: in another region
	among    int
	reason   pick.Reason
	expected *Expected // nil: in another region
	runnerUp fleet.EndpointID
	skipped  []Skip
}

// mortal is what may be found dead of it.
func (p *place) mortal() mortal {
	if p.endpoint != nil {
		return p.endpoint
	}
	return p.cluster
}

// send tries the targets until one answers, none is left, or no retry is allowed. Before a time, it
// leaves the request unanswered if all that was wrong is that no place had room, and says so. Zero: never.
func (r *Router) send(ctx context.Context, x *trip, until time.Time) (again bool) {
	if x.choice.Code != "" {
		x.refuse(r.unroutable(x, &x.choice))
		return false
	}
	before := x.attempts
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, x.class.RequestTimeout)
	defer cancel()
	targets := x.choice.Targets
	var walk dispatch.Walk
	for {
		i := walk.Next(&x.trail, &x.load, targets, r.places, r.now())
		if i < 0 {
			break
		}
		p := r.place(x, &targets[i])
		if p == nil || !r.mayTry(x, p) {
			walk.Shut(i, len(targets))
			continue
		}
		walk.Taken()
		r.attempt(ctx, x, p)
		if !x.last.Retryable {
			x.finish()
			return false
		}
		if x.trail.Enough(x.attempts - before) {
			break
		}
		walk.Failed(len(targets))
	}
	if wasBusy(x.last) && r.now().Before(until) && r.sight.Stays(targets) {
		return true
	}
	if r.lift(x) {
		r.anew(x)
		return r.send(whole, x, until)
	}
	r.giveUp(x)
	return false
}

// giveUp answers where no attempt is left. What no place knows, a path or an API, is the client's
// mistake.
func (r *Router) giveUp(x *trip) {
	if x.hop {
		r.tellLoad(x, fleet.ClusterID(x.q.Header.Get(proxy.HeaderClusterHint))) // which is another now
	}
	switch {
	case x.last == nil:
		x.refuse(noCapacity())
	case wasBusy(x.last):
		x.noRoom = true
		x.refuse(exhausted(x.last.Err, x.trail.Last.Dead()))
	case wasUnknown(x.last):
		x.refuse(notServed(x.q.Method, x.q.URL.Path, x.last.Err.Origin))
	default:
		x.refuse(exhausted(x.last.Err, x.trail.Last.Dead()))
	}
}

// finish answers where the last attempt neither answered nor leaves another to be made.
func (x *trip) finish() {
	if !x.last.Committed && x.last.Err != nil {
		x.refuse(x.last.Err)
	}
}

// field is what a choice of an endpoint is made from; fields are used again, since a cluster may have
// a thousand endpoints.
type field struct {
	endpoints  []*endpoint.Endpoint
	candidates []pick.Candidate
}

// leave leaves out the endpoints that are out.
func (f *field) leave(out func(*endpoint.Endpoint) bool) {
	n := 0
	for i, e := range f.endpoints {
		if !out(e) {
			f.endpoints[n], f.candidates[n] = e, f.candidates[i]
			n++
		}
	}
	f.endpoints, f.candidates = f.endpoints[:n], f.candidates[:n]
}

var fields = sync.Pool{New: func() any { return new(field) }}

// place finds where in a target to go next: the best endpoint that was not tried, or by way of
// another region's router, once. Nil: there is none, or it has been found dead since.
func (r *Router) place(x *trip, target *route.Target) *place {
	cluster := r.places.Of(target.Cluster, r.now())
	if cluster == nil {
		return nil
	}
	if dead, _ := cluster.Ejected(); dead {
		return nil
	}
	rehearsal := r.dead(x)
	if dead, _ := rehearsal.Ejected(cluster); dead {
		return nil
	}
	p := &place{target: target, cluster: cluster}
	if target.Remote {
		p.reason.Seconds = (cluster.Predict(&x.load, r.now()) + target.RTT).Seconds()
		if x.trail.WasIn(target.Cluster.ID) {
			return nil
		}
		return p
	}
	now := r.now()
	from := fields.Get().(*field)
	defer fields.Put(from)
	from.endpoints, from.candidates = x.trail.Candidates(cluster, &x.load, now, from.endpoints[:0], from.candidates[:0])
	if rehearsal != nil {
		from.leave(rehearsal.EndpointEjected)
	}
	mode, _ := pick.ModeOf(x.class.PickMode) // the table holds none but the known
	rnd := r.random()
	if mode == pick.RoundRobin {
		rnd = r.turn.Add(1)
	}
	best, reason := pick.Best(x.picking(mode), from.candidates, mode, rnd)
	if best < 0 {
		return nil
	}
	p.endpoint, p.among, p.reason = from.endpoints[best], len(from.endpoints), reason
	p.expected = expected(p.endpoint, &from.candidates[best], &reason, now)
	if reason.RunnerUp >= 0 && reason.RunnerUp < len(from.endpoints) {
		p.runnerUp = from.endpoints[reason.RunnerUp].ID
	}
	if all := cluster.Endpoints(); len(all) > len(from.endpoints) {
		p.skipped = x.passedOver(all, from.endpoints, now)
	}
	return p
}
