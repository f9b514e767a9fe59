package world

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"
	"anabranch/sim/workload"
)

// world is a run under way.
type world struct {
	spec    *Spec
	policy  Policy
	queuer  Queuer  // nil: the policy is none
	weigher Weigher // nil: the policy is none
	most    int     // attempts of a request
	picks   int     // for a request from another region
	opts    Options
	chance  chance
	now     time.Duration
	err     error // of a policy or workload that does what it mustn't

	regions  []*region
	routers  []*router
	clusters []*cluster
	pods     []*pod
	pool     pool
	arrivals arrivals
	open     int // requests that have not ended

	timeline  timeline
	schedule  schedule
	changes   []change // of events, in order
	active    []bool   // events
	scaled    [][]*pod // the pods that events have added or take away
	deadlines lane[deadline]
	scrapes   lane[scrape]
	scraped   lane[scraped]
	tells     lane[tell]
	told      lane[told]
	ticks     lane[*router]
	samples   sampler
	stirred   []*router // where something has ended

	regionOf map[fleet.RegionID]int
	modelOf  map[fleet.ModelID]int
	tenantOf map[fleet.TenantID]int32
	limits   []*Tenant // by tenant; nil: it has none
	counting bool      // the warm-up is over
	feeding  bool      // the feeds have begun
	news     Heard     // kept here, so that telling allocates nothing
	result   *Result
}

// region is a region and its routers.
type region struct {
	skew    time.Duration
	rtt     []time.Duration // to each region
	near    []int           // regions by distance, itself first
	routers []*router
	lost    bool
	cut     bool // from all others
	waiting int  // requests in its routers' queues
}

// router is one router of a region.
type router struct {
	number, region int
	view           View
	queue          queue
	stirred        bool
	polls          bool
}

// cluster is a cluster and its pods, those that have gone too.
type cluster struct {
	region, model int
	pods          []*pod
	hangs, silent bool
	recent        recent
}

// deadline is when a client leaves.
type deadline struct{ slot, gen uint32 }

func newWorld(spec *Spec, source workload.Source, policy Policy, opts Options) *world {
	w := &world{
		spec: spec, policy: policy, opts: opts, chance: chance(Mix(opts.Seed)),
		arrivals: arrivals{source: source, until: never},
		regionOf: map[fleet.RegionID]int{}, modelOf: map[fleet.ModelID]int{}, tenantOf: map[fleet.TenantID]int32{},
		counting: spec.Warmup == 0,
		result:   &Result{Spec: spec, Policy: policy.Name(), Seed: opts.Seed, Explained: map[uint64][]Step{}},
	}
	if spec.Duration > 0 {
		w.arrivals.until = spec.Duration
	}
	w.queuer, _ = policy.(Queuer)
	w.weigher, _ = policy.(Weigher)
	w.most, w.picks = MaxAttempts, 1
	if p, ok := policy.(Retrier); ok {
		w.most, w.picks = p.MaxAttempts(), p.Picks()
	}
	for i, m := range spec.Models {
		w.modelOf[m.ID] = i
	}
	for i := range spec.Tenants {
		w.tenant(spec.Tenants[i].ID)
		w.limits[i] = &spec.Tenants[i]
	}
	w.build()
	w.plan()
	w.begin()
	return w
}

// build makes regions, clusters, pods and routers.
func (w *world) build() {
	for i, r := range w.spec.Regions {
		w.regionOf[r.ID] = i
		g := &region{skew: r.Skew, near: []int{i}}
		for j, other := range w.spec.Regions {
			d := w.spec.Between(r.ID, other.ID)
			g.rtt = append(g.rtt, d)
			if j == i {
				continue
			}
			at := len(g.near)
			for at > 1 && g.rtt[g.near[at-1]] > d {
				at--
			}
			g.near = append(g.near[:at], append([]int{j}, g.near[at:]...)...)
		}
		w.regions = append(w.regions, g)
	}
	for i := range w.spec.Clusters {
		c := &w.spec.Clusters[i]
		w.clusters = append(w.clusters, &cluster{region: w.regionOf[c.Region], model: w.modelOf[c.Model]})
	}
	for i, r := range w.spec.Regions {
		for range r.Routers {
			ro := &router{number: len(w.routers), region: i}
			ro.view = View{
				Router: ro.number, Region: i, RTT: w.regions[i].rtt, Truth: w, Rand: w.chance.stream(ro.number),
				Clusters: make([]ClusterView, len(w.clusters)), Leader: true, QuotaStore: true,
			}
			w.routers = append(w.routers, ro)
			w.regions[i].routers = append(w.regions[i].routers, ro)
		}
	}
	for i := range w.spec.Clusters {
		for j := range w.spec.Clusters[i].Pods {
			kind := &w.spec.Clusters[i].Pods[j]
			for range kind.Count {
				p := w.addPod(i, kind)
				for _, ro := range w.regions[w.clusters[i].region].routers {
					v := &ro.view.Clusters[i]
					v.Pods = append(v.Pods, PodView{Known: true})
				}
				w.serve(p)
			}
		}
	}
}

// tenant is the place of a tenant in Result.Tenants.
func (w *world) tenant(id fleet.TenantID) int32 {
	i, ok := w.tenantOf[id]
	if !ok {
		i = int32(len(w.result.Tenants))
		w.tenantOf[id] = i
		w.result.Tenants = append(w.result.Tenants, id)
		w.limits = append(w.limits, nil)
	}
	return i
}

// at is the router's view of now.
func (w *world) at(ro *router) *View {
	v := &ro.view
	v.Now = w.now + w.regions[ro.region].skew
	v.Attempt, v.Tried, v.Waited, v.Explain = 0, nil, 0, false
	return v
}

// reach says whether messages get from a region to another.
func (w *world) reach(from, to int) bool {
	return from == to || !w.regions[from].lost && !w.regions[to].lost && !w.regions[from].cut && !w.regions[to].cut
}

// choose is a router of a region, for a request that comes to it.
func (w *world) choose(region int, r *request) *router {
	rs := w.regions[region].routers
	return rs[w.chance.bits(forRouters, r.ID, uint64(region))%uint64(len(rs))]
}

// Engine, Pods, Slow, Hangs and Reachable make the world the truth for those that may know it.
func (w *world) Engine(cluster, pod int) *sim.Engine {
	p := w.clusters[cluster].pods[pod]
	if w.catchUp(p); p.state != serving {
		return nil
	}
	return p.engine
}

func (w *world) Pods(cluster int) int { return len(w.clusters[cluster].pods) }

func (w *world) Slow(cluster, pod int) float64 { return w.clusters[cluster].pods[pod].slow }

func (w *world) Hangs(cluster int) bool { return w.clusters[cluster].hangs }

func (w *world) Reachable(region, cluster int) bool {
	return w.reach(region, w.clusters[cluster].region)
}
