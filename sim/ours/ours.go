// Package ours routes in package world by Anabranch's own decision code, unchanged: the routers'
// (dataplane/admit, route, dispatch, queue, pick, endpoint, prefix and meter, over tables of
// dataplane/table), the control plane's (controlplane/signal and plan, failover) and the quotas'
// (ratelimit). What the simulator says of this policy is therefore what these packages do. Here stands
// only what sockets, clocks and goroutines do elsewhere: measurements that come, reports that travel,
// canaries that are answered. DESIGN.md says what is not as in life.
package ours

import (
	"fmt"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/table"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// Options of the policy. The zero Options are Anabranch's defaults.
type Options struct {
	// Name of the policy. Empty: "ours".
	Name string
	// Resources that an operator has written beside those that follow from the world's spec, with their
	// defaults as [policy.Parse] fills them in. One of the same kind and name replaces one of those. Where
	// a TrafficPolicy speaks of a model, none is made for it from the model's objectives.
	Resources []*policy.Resource
	// Drained are clusters that their operator has drained, whatever the resources say.
	Drained map[fleet.ClusterID]bool
	// Fixed are weights of clusters instead of those of the planner, the same in all regions and only
	// relative to each other, for tests of what is below the planner. A cluster that is not there has 0.
	// Nothing is shed by plan then. Nil: the planner's.
	Fixed map[fleet.ClusterID]float64
}

// Validate says what is wrong with the options for a world, or nil: resources that no router would
// obey.
func (o Options) Validate(spec *world.Spec) error {
	p := newOurs(o)
	p.Start(spec.WithDefaults())
	if p.err != nil {
		return fmt.Errorf("table of %s: %w", spec.Name, p.err)
	}
	return nil
}

// New makes the policy, for one run. It is a [world.Queuer], a [world.Retrier] and a [world.Weigher]. With options that
// are not valid routers have no table and refuse everything, as they do in life.
func New(o Options) world.Policy { return newOurs(o) }

func newOurs(o Options) *ours {
	if o.Name == "" {
		o.Name = "ours"
	}
	return &ours{o: o}
}

// epoch is the wall clock's time at the beginning of a run. All times in it count from there.
var epoch = time.Unix(1_700_000_000, 0).UTC()

// ours is the policy: all routers, and the control plane.
type ours struct {
	o        Options
	spec     *world.Spec
	places   places
	control  *control
	quotas   *store
	routers  []*router
	byRegion [][]*router
	// hops are what routers of different regions tell each other of requests under way.
	hops map[hopKey]*hop
	err  error // of the first table
}

// places are numbers of the spec by name.
type places struct {
	clusters map[fleet.ClusterID]int
	regions  map[fleet.RegionID]int
	region   []int // of each cluster
}

// Name implements [world.Policy].
func (p *ours) Name() string { return p.o.Name }

// Start implements [world.Policy].
func (p *ours) Start(spec *world.Spec) {
	p.spec, p.hops, p.routers, p.byRegion, p.err = spec, map[hopKey]*hop{}, nil, nil, nil
	p.places = places{clusters: map[fleet.ClusterID]int{}, regions: map[fleet.RegionID]int{}}
	for i, r := range spec.Regions {
		p.places.regions[r.ID] = i
	}
	for i, c := range spec.Clusters {
		p.places.clusters[c.ID] = i
		p.places.region = append(p.places.region, p.places.regions[c.Region])
	}
	p.control = newControl(spec, p.o)
	p.quotas = newStore()
	if p.err = p.control.first(); p.err != nil {
		return
	}
	for i, r := range spec.Regions {
		var here []*router
		for range r.Routers {
			here = append(here, newRouter(p, len(p.routers)+len(here), i, 0))
		}
		p.routers, p.byRegion = append(p.routers, here...), append(p.byRegion, here)
	}
}

// at is the router of a view, as of now. A router that has died begins anew when it is back.
func (p *ours) at(v *world.View) *router {
	ro, truth := p.routers[v.Router], v.Now-p.spec.Regions[v.Region].Skew
	if ro.born < p.control.events.back(p.spec.Regions[v.Region].ID, truth) {
		ro = newRouter(p, v.Router, v.Region, truth)
		p.routers[v.Router] = ro
		for i, old := range p.byRegion[v.Region] {
			if old.number == v.Router {
				p.byRegion[v.Region][i] = ro
			}
		}
	}
	ro.see(v, truth)
	return ro
}

// Route implements [world.Policy].
func (p *ours) Route(r *workload.Request, v *world.View) world.Route {
	if p.err != nil {
		return world.Route{Cluster: -1, Code: "no_table", Reason: p.err.Error()}
	}
	return p.at(v).route(r, v)
}

// Pick implements [world.Policy].
func (p *ours) Pick(r *workload.Request, cluster, away int, v *world.View) world.Pick {
	ro := p.at(v)
	if away >= 0 {
		return ro.receive(r, cluster, v)
	}
	return ro.picked(r, v)
}

// Sent implements [world.Policy].
func (p *ours) Sent(a *world.Attempt, v *world.View) { p.at(v).sent(a) }

// First implements [world.Policy].
func (p *ours) First(a *world.Attempt, v *world.View) {
	if y, ok := a.Data.(*try); ok {
		y.seen = true
		now := p.at(v).now
		y.call.FirstToken(now)
		if h := y.hop; h != nil && h.told {
			y.call.Told(h.saturation, now)
		}
	}
}

// Ended implements [world.Policy].
func (p *ours) Ended(a *world.Attempt, how world.Outcome, v *world.View) {
	p.at(v)
	if y, ok := a.Data.(*try); ok {
		y.router.ended(y, a, how)
	}
}

// Tick implements [world.Policy].
func (p *ours) Tick(v *world.View) {
	if p.err != nil {
		return
	}
	ro := p.at(v)
	p.control.step(ro.truth, v.Leader)
	ro.tick(v)
}

// Heard implements [world.Policy]. Of clusters as a whole routers of Anabranch hear by the answers of
// their peers and from the control plane alone.
func (p *ours) Heard(h *world.Heard, v *world.View) {
	if p.err == nil && h.Pod >= 0 {
		p.at(v).heard(h, v)
	}
}

// MaxAttempts implements [world.Retrier].
func (p *ours) MaxAttempts() int { return maxAttempts }

// Picks implements [world.Retrier].
func (p *ours) Picks() int { return dispatch.MaxAttempts }

// Release implements [world.Queuer].
func (p *ours) Release(v *world.View) (id uint64, ok bool) { return p.at(v).release() }

// Gone implements [world.Queuer].
func (p *ours) Gone(r *workload.Request, v *world.View) { p.at(v).gone(r) }

// Weights implements [world.Weigher]: those of the table that the region's first router obeys, in the
// default class, of each cluster among those of its model.
func (p *ours) Weights(region int) []float64 {
	out := make([]float64, len(p.spec.Clusters))
	if p.err != nil {
		return out
	}
	t := p.byRegion[region][0].table
	for i, c := range p.spec.Clusters {
		weights, _ := t.Weights(c.Model, fleet.DefaultClass, p.spec.Regions[region].ID)
		for _, w := range weights {
			if w.Cluster.ID == c.ID {
				out[i] = w.Share
			}
		}
	}
	return out
}

// guest is a tenant that the spec doesn't limit in anything.
func guest(id fleet.TenantID) *table.Tenant {
	if id == "" {
		id = "guest"
	}
	return &table.Tenant{ID: id, Tier: policy.TierTop, Priority: policy.TierPriority(policy.TierTop)}
}
