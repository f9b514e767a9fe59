package world

import (
	"fmt"
	"time"

	"anabranch/sim/workload"
)

// arrive lets a request of the workload come to a router of its region.
func (w *world) arrive(given workload.Request) {
	given.At = max(given.At, w.now)
	region, ok := w.regionOf[given.Region]
	switch {
	case given.Region == "":
		region = int(w.chance.bits(forRouters, given.ID, 1<<32) % uint64(len(w.regions)))
		given.Region = w.spec.Regions[region].ID
	case !ok:
		w.err = fmt.Errorf("request %d comes from region %q, which is not in the spec", given.ID, given.Region)
		return
	}
	if given.Model == "" {
		given.Model = w.spec.Models[0].ID
	}
	model, ok := w.modelOf[given.Model]
	if !ok {
		w.err = fmt.Errorf("request %d wants model %q, which is not in the spec", given.ID, given.Model)
		return
	}
	tenant := w.tenant(given.Tenant)
	if l := w.limits[tenant]; l != nil && given.Priority == 0 {
		given.Priority = l.Priority
	}
	r := w.pool.newRequest(given)
	r.region, r.model, r.tenant, r.record = region, model, tenant, -1
	if given.At >= w.spec.Warmup {
		r.record = len(w.result.Records)
		w.result.Records = append(w.result.Records, Record{ID: r.ID, At: r.At})
	}
	r.steps = w.opts.Explain != nil && w.opts.Explain(r.ID)
	w.open++
	*w.deadlines.put(w.now + w.spec.Timeout) = deadline{r.slot, r.gen}
	if w.regions[region].lost {
		w.lose(r)
		return
	}
	r.router = w.choose(region, r)
	if r.steps {
		w.explain(r, "comes to router %d in %s", r.router.number, given.Region)
	}
	w.route(r)
}

// lose lets the client of a request whose router is dead notice.
func (w *world) lose(r *request) {
	r.router, r.attempt, r.leg = nil, nil, 0
	w.timeline.push(event{at: w.now + Unreachable, kind: move, ref: r.slot, gen: r.gen})
	if r.steps {
		w.explain(r, "finds no living router")
	}
}

// move sends a client whose router is dead to the nearest region with living ones.
func (w *world) move(r *request) {
	for _, g := range w.regions[r.region].near {
		if w.regions[g].lost || g != r.region && (w.regions[g].cut || w.regions[r.region].cut) {
			continue
		}
		r.leg = 0
		if g != r.region {
			r.leg = w.regions[r.region].rtt[g] / 2
		}
		r.goes = w.choose(g, r)
		r.attempts, r.tried = 0, r.tried[:0]
		w.timeline.push(event{at: w.now + r.leg, kind: arrive, ref: r.slot, gen: r.gen})
		return
	}
	w.end(r, Failed)
}

// decision is where a request goes from its router.
type decision struct {
	cluster, pod int
	away, wait   bool
	bound        time.Duration
	code         string
}

// decide asks the policy where a request goes. Without a cluster it waits or is refused by the code;
// without a pod in the own region there was no place.
func (w *world) decide(r *request, waited time.Duration) decision {
	v := w.at(r.router)
	v.Attempt, v.Tried, v.Waited, v.Explain = r.attempts+1, r.tried, waited, r.steps
	to := w.policy.Route(&r.Request, v)
	if to.Cluster < 0 {
		if r.steps && (!to.Wait || waited == 0) {
			w.explainRefusal(r, to)
		}
		return decision{cluster: -1, wait: to.Wait, code: to.Code}
	}
	if to.Cluster >= len(w.clusters) || w.clusters[to.Cluster].model != r.model {
		w.err = fmt.Errorf("policy %s routes request %d to cluster %d, which is not there or does not serve %s", w.policy.Name(), r.ID, to.Cluster, r.Model)
		return decision{cluster: -1}
	}
	if w.clusters[to.Cluster].region != r.router.region {
		if r.steps {
			w.explainRoute(r, to)
		}
		return decision{cluster: to.Cluster, pod: -1, away: true}
	}
	p := w.pick(r, to.Cluster, -1, v)
	if r.steps && (p.Pod >= 0 || !p.Wait || waited == 0) {
		w.explainRoute(r, to)
		w.explainPick(r, to.Cluster, p)
	}
	return decision{cluster: to.Cluster, pod: p.Pod, wait: p.Pod < 0 && p.Wait, bound: p.Bound}
}

// pick asks the policy for a pod of a cluster of the router's region.
func (w *world) pick(r *request, cluster, away int, v *View) Pick {
	p := w.policy.Pick(&r.Request, cluster, away, v)
	if p.Pod >= len(w.clusters[cluster].pods) {
		w.err = fmt.Errorf("policy %s picks pod %d of cluster %d for request %d, which is not there", w.policy.Name(), p.Pod, cluster, r.ID)
		p = Pick{Pod: -1}
	}
	p.Pod, p.Bound = max(-1, p.Pod), max(0, p.Bound)
	return p
}

// route sends a request on from its router, queues it there, or ends it.
func (w *world) route(r *request) {
	for {
		d := w.decide(r, 0)
		if d.wait {
			w.enqueue(r.router, &waiting{request: r})
			return
		}
		if w.follow(r, d) {
			return
		}
	}
}

// follow carries out a decision that isn't to wait; false: there was no place, and it is routed again.
func (w *world) follow(r *request, d decision) bool {
	switch {
	case d.cluster < 0 && d.code == CodeNoCapacity:
		w.end(r, Shed)
	case d.cluster < 0 && d.code == CodeQuota:
		w.end(r, Denied)
	case d.cluster < 0:
		w.end(r, Failed)
	case d.away:
		w.sendOver(r, d)
	case d.pod < 0:
		r.attempts++
		r.tries++
		return !w.again(r, Place{d.cluster, -1}, Full)
	default:
		w.sendIn(r, d)
	}
	return true
}

// again notes that a try has failed, and says whether there is another; else it ends the request.
func (w *world) again(r *request, at Place, how Outcome) bool {
	r.tried = append(r.tried, at)
	switch {
	case r.started:
		w.end(r, Cut)
	case how == Unfit:
		w.end(r, Failed)
	case r.attempts < w.most:
		return true
	case how == Full:
		w.end(r, Shed)
	default:
		w.end(r, Failed)
	}
	return false
}

// try opens an attempt at the router of a request.
func (w *world) try(r *request, cluster, pod int, away bool) *attempt {
	a := w.pool.newAttempt(r)
	r.attempts++
	r.tries++
	r.attempt = a
	v := w.at(r.router)
	a.home = Attempt{Request: &r.Request, Number: r.attempts, Router: r.router.number, Cluster: cluster, Pod: pod, Away: away, Sent: v.Now}
	a.away, a.homeOpen, a.sent = away, true, w.now
	a.refs++
	v.Clusters[cluster].InFlight++
	if !away {
		v.Clusters[cluster].Pods[pod].InFlight++
	}
	w.policy.Sent(&a.home, v)
	return a
}

// sendIn sends a request to a pod of its router's region.
func (w *world) sendIn(r *request, d decision) {
	a := w.try(r, d.cluster, d.pod, false)
	w.dispatch(a, d.bound)
}

// dispatch sends an attempt from the router that picked to its pod.
func (w *world) dispatch(a *attempt, bound time.Duration) {
	w.send(a, submit, w.way(a, wayIn, local), Answered)
	a.bound = bound
	if bound > 0 {
		w.timeline.push(event{at: w.now + bound, kind: overdue, ref: a.slot, gen: a.gen})
	}
}

// sendOver sends a request to a router of another region.
func (w *world) sendOver(r *request, d decision) {
	a := w.try(r, d.cluster, -1, true)
	to := w.clusters[d.cluster].region
	a.there.Router = w.choose(to, r).number
	if !w.reach(r.router.region, to) {
		a.severed = true
		w.send(a, unreachable, w.now+Unreachable, Refused)
		return
	}
	w.send(a, forward, w.way(a, wayOver, w.across(a)), Answered)
}

// come lets a request from another region arrive at a router of the cluster's. It may have waited there.
func (w *world) come(a *attempt, waited time.Duration) (waits bool) {
	r, ro := a.request, w.routers[a.there.Router]
	v := w.at(ro)
	v.Attempt, v.Tried, v.Waited, v.Explain = a.home.Number, r.tried, waited, r.steps
	from := w.routers[a.home.Router].region
	p := w.pick(r, a.home.Cluster, from, v)
	if r.steps && !r.done && (p.Pod >= 0 || !p.Wait || waited == 0) {
		w.explainPick(r, a.home.Cluster, p)
	}
	switch {
	case p.Pod < 0 && p.Wait:
		return true
	case p.Pod < 0:
		w.send(a, failureHome, w.way(a, wayBack, w.across(a)), Full)
		return false
	}
	w.forward(a, p)
	return false
}

// forward sends a request from another region on to the pod that was picked.
func (w *world) forward(a *attempt, p Pick) {
	v := w.at(w.routers[a.there.Router])
	a.there = Attempt{Request: &a.request.Request, Number: a.home.Number, Router: a.there.Router, Cluster: a.home.Cluster, Pod: p.Pod, Sent: v.Now}
	a.thereOpen, a.sent = true, w.now
	a.picks++
	a.refs++
	v.Clusters[a.home.Cluster].InFlight++
	v.Clusters[a.home.Cluster].Pods[p.Pod].InFlight++
	w.policy.Sent(&a.there, v)
	w.dispatch(a, p.Bound)
}
