package plan

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/failover"
)

// Whatever the policy, a region that heals gets its share back in the steps of its ramp, from every
// source.
func TestARampIsInStepsUnderAnyPolicy(t *testing.T) {
	tests := map[string]struct {
		policy string
		ask    float64
		whole  map[string]float64 // share of us, by source, once it is healthy
	}{
		"no policy":         {"costPreference: 0", 0, map[string]float64{"us": 1, "eu": 0, "ap": 0}},
		"home is preferred": {"regions: [{region: us, weight: 2}]", 0, map[string]float64{"us": 1, "eu": 0.5, "ap": 0.5}},
		"all to one, one barred": {
			"regions: [{region: us, weight: 100}, {region: eu, weight: 0}]", 0, map[string]float64{"us": 1, "eu": 1, "ap": 0.99},
		},
		"all but one barred":                   {"regions: [{region: us, weight: 1}, {region: eu, weight: 0}]", 0, map[string]float64{"us": 1, "eu": 1, "ap": 0}},
		"home weighs less":                     {"regions: [{region: us, weight: 0.5}]", 0, map[string]float64{"us": 0.5, "eu": 0, "ap": 0}},
		"three weights":                        {"regions: [{region: us, weight: 4}, {region: eu, weight: 2}, {region: ap, weight: 1}]", 0, map[string]float64{"us": 1, "eu": 0.5, "ap": 0.75}},
		"a limit on the region":                {"regions: [{region: us, maxShare: 0.2}]", 0, map[string]float64{"us": 0.6, "eu": 0, "ap": 0}},
		"a limit and a weight":                 {"regions: [{region: us, weight: 2, maxShare: 0.2}]", 0, map[string]float64{"us": 0.3, "eu": 0.15, "ap": 0.15}},
		"traffic stays":                        {"spill: never", 0, map[string]float64{"us": 1, "eu": 0, "ap": 0}},
		"traffic stays, more than home can do": {"spill: never", 40_000, map[string]float64{"us": 1, "eu": 0, "ap": 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("TrafficPolicy", "p", tt.policy)
			b.ask("us", tt.ask)
			b.report()
			b.plan()
			for _, share := range []float64{0, 0.01, 0.05, 0.1, 0.25, 0.5, 1} {
				state := failover.Ramping
				if share == 0 {
					state = failover.Evacuated
				}
				b.state("us-a", state, share)
				b.state("us-b", state, share)
				b.now = b.now.Add(time.Second)
				b.plan()
				for source, whole := range tt.whole {
					near(t, "share of us for "+source, region(b.shares(source), "us"), share*whole, 0.011*share+2*quantum)
				}
			}
		})
	}
}

// What a ramping region may not have goes by the weights of the others, and never to one of weight
// 0.
func TestWhatARampGivesUpGoesByWeight(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "regions: [{region: us, weight: 100}, {region: eu, weight: 0}]")
	b.report()
	b.plan()
	b.state("us-a", failover.Ramping, 0.05)
	b.state("us-b", failover.Ramping, 0.05)
	b.plan()
	near(t, "the region of weight 0", region(b.shares("us"), "eu"), 0, 0)
	near(t, "the other one", region(b.shares("us"), "ap"), 0.95, 0.001)

	b.write("TrafficPolicy", "p", "regions: [{region: us, weight: 100}, {region: eu, weight: 1}, {region: ap, weight: 4}]")
	b.plan()
	near(t, "the nearer region, a quarter of what it would get", region(b.shares("us"), "eu"), 0.95/4, 0.005)
	near(t, "the region that is preferred to it", region(b.shares("us"), "ap"), 0.95*3/4, 0.005)
}

func TestARegionOfWeightZeroIsTheLastResort(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "regions: [{region: eu, weight: 0}, {region: ap, weight: 1, maxShare: 0}]")
	b.report()
	b.plan()
	b.state("us-a", failover.Evacuated, 0)
	b.state("us-b", failover.Ramping, 0.01)
	b.plan()
	near(t, "the only one alive that has weight", b.shares("us")["us-b"], 1, 0)
	b.state("us-b", failover.Evacuated, 0)
	b.plan()
	near(t, "the one without weight", region(b.shares("us"), "eu"), 1, 0)
	near(t, "the one that may have no share", region(b.shares("us"), "ap"), 0, 0)
	b.state("us-b", failover.Healthy, 1)
	b.plan()
	near(t, "the one without weight when there is another", region(b.shares("us"), "eu"), 0, 0)
}

// Where limits leave no room, a limit gives way before a cap or what must not grow does.
func TestWhereBoundsLeaveNoRoom(t *testing.T) {
	tests := map[string]struct {
		change func(us, eu, ap *route)
		want   []float64
	}{
		"what is in full use takes it": {
			func(us, _, ap *route) { us.elastic, ap.elastic = false, false }, []float64{0.1, 0.7, 0.2},
		},
		"by weight and size": {
			func(us, eu, ap *route) { us.elastic, eu.wish, ap.wish, ap.size = false, 3, 1, 2.0/3 }, []float64{0.1, 0.2 + 0.5*3/5, 0.2 + 0.5*2/5},
		},
		"not where a limit binds while another may take it": {
			func(us, eu, _ *route) { us.elastic, eu.limited = false, true }, []float64{0.1, 0.2, 0.7},
		},
		"limits give way by what they allow": {
			func(us, eu, ap *route) { us.elastic, eu.limited, ap.limited, ap.bound = false, true, true, 0.4 }, []float64{0.1, 0.3, 0.6},
		},
		"what must not grow takes it rather than what ramps": {
			func(us, eu, ap *route) { us.elastic, eu.elastic, ap.stuck = false, false, true }, []float64{0.1, 0.2, 0.7},
		},
		"all ramp": {
			func(us, eu, ap *route) { us.elastic, eu.elastic, ap.elastic = false, false, false }, []float64{0.2, 0.4, 0.4},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := three(0, 0, 0)
			d.load = 100
			w := &world{}
			for i, bound := range []float64{0.1, 0.2, 0.2} {
				r := d.routes[i]
				r.elastic, r.bound, r.use, r.site.curve = true, bound, 0.1, newCurve(64)
				r.site.index, r.site.capacity = i, map[fleet.ModelID]float64{"m": 1000}
				w.sites = append(w.sites, r.site)
			}
			tt.change(d.routes[0], d.routes[1], d.routes[2])
			w.sweep([]*demand{d})
			for i, r := range d.routes {
				near(t, string(r.site.id), r.share, tt.want[i], 1e-9)
			}
		})
	}
}

// Not even where nothing else is served at all does a reduced site get more than its part, be that none.
func TestWhatIsNotServedDoesNotGoToReducedSites(t *testing.T) {
	d := three(0, 0, 0)
	us, eu, ap := d.routes[0], d.routes[1], d.routes[2]
	us.reduced, us.part, us.bound, us.fits = true, 0.5, 0.5, 0.5
	eu.elastic, eu.limited, eu.bound = true, true, 1e-10
	ap.reduced, ap.fits = true, 4e-13 // a floor that rounding left
	for _, r := range d.routes {
		r.size = 1.0 / 3
	}
	d.spread(0.5)
	for i, want := range []float64{0.5, 0.5, 0} {
		near(t, string(d.routes[i].site.id), d.routes[i].share, want, 1e-6)
	}
}

// A site that must not grow is not what load is put on when the policy bounds all others.
func TestWhatMustNotGrowIsNotScaledUpByLoad(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "regions: [{region: us, weight: 2}]")
	b.ask("us", 30_000)
	b.report()
	b.plan()
	before := b.shares("us")
	b.state("us-a", failover.Degraded, 0)
	b.state("us-b", failover.Degraded, 0)
	b.ask("us", 3000)
	b.after(90)
	if after := b.shares("us"); region(after, "us") > region(before, "us")+2*quantum {
		t.Errorf("us grew from %.4f to %.4f", region(before, "us"), region(after, "us"))
	}
}

// alternative says whether traffic of a list could go to a site in full use that an operator gives
// weight, other than the one named.
func (f drawnFleet) alternative(list *routerpb.Weights, but string) bool {
	w := &world{resources: f.written, policies: f.written.List(policy.KindTrafficPolicy)}
	spec := policySpec(w.governing(fleet.ClassID(list.GetClass()), fleet.ModelID(list.GetModel())))
	unwanted := map[string]bool{}
	for _, wish := range spec.Regions {
		unwanted[wish.Region] = *wish.Weight == 0 || *wish.MaxShare == 0
	}
	listed := map[string]bool{}
	for _, c := range list.GetClusters() {
		listed[c.GetCluster()] = c.GetCluster() != but
	}
	return slices.ContainsFunc(f.written.List(policy.KindCluster), func(r *policy.Resource) bool {
		c := r.Spec.(*policy.ClusterSpec)
		return listed[r.Metadata.Name] && !c.Drained && f.of(r.Metadata.Name, list).Cap() == 1 && !unwanted[c.Region]
	})
}

// of is the health of a list's model on a cluster.
func (f drawnFleet) of(cluster string, list *routerpb.Weights) failover.Cluster {
	return failover.Of(f.health, failover.Place{Cluster: fleet.ClusterID(cluster), Model: fleet.ModelID(list.GetModel())})
}

// Whatever fleet, policy and health: a site in a ramp or a failover in steps gets no more than its
// part of what it would get if all such were in full use, as long as there is another that may
// take the rest.
func TestACapIsHard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := draw(t)
		whole := f
		whole.health = maps.Clone(f.health)
		for id, c := range f.health {
			if c.Cap() > 0 && c.Cap() < 1 {
				whole.health[id] = failover.Cluster{State: failover.Healthy}
			}
		}
		got, ideal := Compute(f.input(nil, true)), Compute(whole.input(nil, true))
		check(t, f.written, f.health, got)
		for i, list := range got.Table.GetWeights() {
			for j, c := range list.GetClusters() {
				share := f.of(c.GetCluster(), list).Cap()
				if share == 1 || !f.alternative(list, c.GetCluster()) {
					continue
				}
				most := share*ideal.Table.GetWeights()[i].GetClusters()[j].GetWeight() + float64(len(list.GetClusters())+1)*quantum
				if c.GetWeight() > most {
					t.Fatalf("%s at a cap of %g has %g, more than %g, in\n%v\nof\n%v", c.GetCluster(), share, c.GetWeight(), most,
						list, ideal.Table.GetWeights()[i])
				}
			}
		}
	})
}
