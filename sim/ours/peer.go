package ours

import (
	"anabranch/api/fleet"
	"anabranch/dataplane/queue"
	"anabranch/dataplane/route"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// hopKey names an attempt by way of another region's router.
type hopKey struct {
	request uint64
	number  int
	router  int // that asks
}

// hop is what the routers of two regions tell each other of one request: the headers of
// dataplane/remote.go and peer.go.
type hop struct {
	key hopKey
	// By the one that asks.
	class       fleet.ClassID
	policy, arm string
	priority    int32
	// By the one that is asked: the load of the cluster, that it is dead rather than full, and that its last
	// endpoint could not be reached.
	told        bool
	saturation  float64
	dead        bool
	unreachable bool
}

// announce tells of a request that goes to another region.
func (ro *router) announce(t *trip, a *world.Attempt) *hop {
	h := &hop{key: hopKey{a.Request.ID, a.Number, ro.number}, class: t.class.ID, priority: t.priority}
	if t.rule != nil {
		h.policy = t.rule.Policy
	}
	if t.arm != nil {
		h.arm = t.arm.ID
	}
	ro.policy.hops[h.key] = h
	return h
}

// receive is dataplane.Router.serveHop: a request comes from another region's router.
func (ro *router) receive(r *workload.Request, cluster int, v *world.View) world.Pick {
	h := ro.policy.announced(r.ID, v.Attempt, ro.place)
	if h == nil {
		return world.Pick{Pod: -1} // who asked has died
	}
	wanted := ro.policy.spec.Clusters[cluster].ID
	t := ro.kept
	ro.kept = nil
	var pick world.Pick
	var ok bool
	if t != nil && t.request.ID == r.ID && ro.keptAt == ro.truth {
		pick, ok = ro.another(t, h, wanted, v)
	} else {
		t = ro.newTrip(r, h)
		pick, ok = ro.accept(t, h, wanted, v)
	}
	if !ok {
		ro.drop(t)
		return world.Pick{Pod: -1, Reason: pick.Reason}
	}
	ro.current = t
	return pick
}

// announced finds what is told of a request that comes to a region.
func (p *ours) announced(id uint64, number, region int) *hop {
	for i := range p.routers {
		if p.routers[i].place == region {
			continue
		}
		if h := p.hops[hopKey{id, number, i}]; h != nil {
			return h
		}
	}
	return nil
}

// accept finds an endpoint for a request of a peer. False: there is none, and the peer is told why.
func (ro *router) accept(t *trip, h *hop, wanted fleet.ClusterID, v *world.View) (pick world.Pick, ok bool) {
	if !ro.begin(t, h) {
		return world.Pick{Reason: ro.why(v, "the table has no such rule")}, false
	}
	t.priority = h.priority
	ro.choose(t)
	t.choice.Prefer(wanted)
	h.saturation, h.told = ro.sight.Told(wanted)
	if t.choice.Code != "" {
		if c := ro.places.Cluster(wanted); c != nil && t.choice.Code == route.NoCapacity {
			h.dead, _ = c.Ejected()
		}
		return world.Pick{Reason: ro.refused(v, t, t.choice.Code)}, false
	}
	if ro.sight.Room(t.choice.Targets, t.tenant.ID) >= queue.Ceiling(t.priority) {
		return world.Pick{Reason: ro.why(v, "full")}, false
	}
	return ro.serve(t, h, wanted, v)
}

// another finds a further endpoint for a request of a peer when one has failed it.
func (ro *router) another(t *trip, h *hop, wanted fleet.ClusterID, v *world.View) (pick world.Pick, ok bool) {
	if t.trail.Enough(t.made) {
		return world.Pick{Reason: ro.why(v, "enough attempts")}, false
	}
	t.walk.Failed(len(t.choice.Targets))
	return ro.serve(t, h, wanted, v)
}

// serve goes down the targets of a peer's request.
func (ro *router) serve(t *trip, h *hop, wanted fleet.ClusterID, v *world.View) (pick world.Pick, ok bool) {
	if !ro.walk(t) || t.spot.cluster.ID != wanted { // the world can't be told of another cluster
		h.saturation, h.told = ro.sight.Told(wanted) // which is another now
		return world.Pick{Reason: ro.why(v, "no endpoint is left")}, false
	}
	return ro.pick(t, v), true
}
