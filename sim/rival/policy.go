package rival

import (
	"fmt"
	"time"

	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// rule is what tells one policy from another.
type rule interface {
	// cluster is one of q.clusters, of which there is one at least.
	cluster(q *query) int
	// pod is one of q.pods, of which there is one at least.
	pod(q *query) int
}

// Rules may want to hear more.
type (
	starter interface{ start(*layout) }
	// follower hears of attempts; index is the router's.
	follower interface {
		sent(index int, a *world.Attempt, v *world.View)
		first(index int, a *world.Attempt, v *world.View)
		ended(index int, a *world.Attempt, how world.Outcome, v *world.View)
	}
)

// policy is what all have in common. What routers can't know of each other is apart in routers.
type policy struct {
	name      string
	residency bool
	bound     time.Duration
	rule      rule
	layout    layout
	routers   []*router
	q         query // the one at hand, so that its memory is used again
}

// query is one decision.
type query struct {
	*layout
	r       *workload.Request
	v       *world.View
	at      *router
	index   int // of the router
	cluster int // that a pod is chosen of
	away    int
	// What there is to choose from, in rising order.
	clusters, pods []int
	why            string // wanted if v.Explain
}

// Name is the one it was made by.
func (p *policy) Name() string { return p.name }

// Start looks at the fleet.
func (p *policy) Start(spec *world.Spec) {
	p.layout = newLayout(spec, p.residency)
	p.routers = nil
	if s, ok := p.rule.(starter); ok {
		s.start(&p.layout)
	}
}

// ask prepares the decision.
func (p *policy) ask(r *workload.Request, v *world.View) *query {
	q := &p.q
	q.layout, q.r, q.v, q.index, q.why = &p.layout, r, v, p.layout.router(v), ""
	q.at = p.router(v)
	return q
}

func (p *policy) router(v *world.View) *router {
	i := p.layout.router(v)
	for len(p.routers) <= i {
		p.routers = append(p.routers, &router{places: make([]place, len(p.layout.region))})
	}
	return p.routers[i]
}

// Route implements [world.Policy].
func (p *policy) Route(r *workload.Request, v *world.View) world.Route {
	if v.Attempt > world.MaxAttempts {
		return world.Route{Cluster: -1, Code: "failed", Reason: "it has failed too often"}
	}
	q := p.ask(r, v)
	q.findClusters()
	if len(q.clusters) == 0 {
		return world.Route{Cluster: -1, Code: "no_target", Reason: "no cluster may serve it that has not failed"}
	}
	c := q.clusters[0]
	// Of a local one alone there is nothing to say: the pod is chosen next. One elsewhere is to be noted.
	if len(q.clusters) > 1 || v.Clusters[c].Pods == nil {
		c = p.rule.cluster(q)
	}
	return world.Route{Cluster: c, Reason: q.why}
}

// Pick implements [world.Policy].
func (p *policy) Pick(r *workload.Request, cluster, away int, v *world.View) world.Pick {
	q := p.ask(r, v)
	q.cluster, q.away = cluster, away
	q.findPods()
	if len(q.pods) == 0 {
		return world.Pick{Pod: -1, Reason: "no pod is ready"}
	}
	return world.Pick{Pod: p.rule.pod(q), Bound: p.bound, Reason: q.why}
}

// Sent implements [world.Policy].
func (p *policy) Sent(a *world.Attempt, v *world.View) {
	if f, ok := p.rule.(follower); ok {
		f.sent(p.layout.router(v), a, v)
	}
}

// First implements [world.Policy].
func (p *policy) First(a *world.Attempt, v *world.View) {
	if f, ok := p.rule.(follower); ok {
		f.first(p.layout.router(v), a, v)
	}
}

// Ended implements [world.Policy].
func (p *policy) Ended(a *world.Attempt, how world.Outcome, v *world.View) {
	p.router(v).outcome(&p.layout, a, how, v)
	if f, ok := p.rule.(follower); ok {
		f.ended(p.layout.router(v), a, how, v)
	}
}

// Tick implements [world.Policy].
func (p *policy) Tick(*world.View) {}

// Heard remembers how many own requests there were then: those sent since are not in what was told.
func (p *policy) Heard(h *world.Heard, v *world.View) {
	at := &p.router(v).places[h.Cluster]
	seen := &v.Clusters[h.Cluster]
	if h.Pod < 0 {
		at.own, at.heard, at.ever = seen.InFlight, v.Now, true
		return
	}
	if h.Pod < len(seen.Pods) {
		at.pod(h.Pod).own = seen.Pods[h.Pod].InFlight
	}
}

// say keeps the reason of the choice, if it is wanted.
func (q *query) say(format string, args ...any) {
	if q.v.Explain {
		q.why = fmt.Sprintf(format, args...)
	}
}
