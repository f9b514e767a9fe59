package plan

import (
	"fmt"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/costmodel"
)

func TestDistanceIsWhatEitherSideSays(t *testing.T) {
	b := newBench(t)
	b.write("Region", "sa", "zone: sa")
	w := survey(Input{Resources: b.written})
	for pair, want := range map[[2]fleet.RegionID]float64{
		{"us", "us"}: 0, {"us", "eu"}: 80, {"eu", "us"}: 80, {"ap", "us"}: 160, {"ap", "eu"}: 120, {"sa", "us"}: policy.DefaultRTTMs,
	} {
		if got := w.rtt(pair[0], pair[1]); got != want {
			t.Errorf("%s to %s takes %v ms, want %v", pair[0], pair[1], got, want)
		}
	}
}

func TestWhatCapacityIsBelieved(t *testing.T) {
	spec := func(work float64, endpoints int) *policy.ClusterSpec {
		return &policy.ClusterSpec{PriorWork: work, Endpoints: make([]policy.EndpointSpec, endpoints)}
	}
	type given struct {
		spec     *policy.ClusterSpec
		measured float64
	}
	tests := map[string]struct {
		sites []given
		want  []float64
	}{
		"priors while nothing is measured": {
			[]given{{spec(900, 1), 0}, {spec(0, 3), 0}, {spec(0, 0), 0}}, []float64{900, 15_000, 5000},
		},
		"what is measured": {
			[]given{{spec(900, 1), 1234}}, []float64{1234},
		},
		"priors scaled as those that were measured": {
			[]given{{spec(1000, 1), 3000}, {spec(1000, 1), 0}, {spec(500, 1), 0}}, []float64{3000, 3000, 1500},
		},
		"by the middle of several": {
			[]given{{spec(1000, 1), 100}, {spec(1000, 1), 2000}, {spec(1000, 1), 90_000}, {spec(1000, 1), 0}},
			[]float64{100, 2000, 8000, 2000},
		},
		"the largest and the least of numbers": {
			[]given{{spec(1e300, 1), 1e300}, {spec(1, 1), 1e-300}}, []float64{mostWork, leastWork},
		},
		"within bounds": {
			[]given{{spec(1, 1), 1e300}, {spec(1e300, 1), 1e-300}, {spec(10, 1), 0}}, []float64{leastWork, leastWork, leastWork},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := &world{}
			for _, g := range tt.sites {
				w.sites = append(w.sites, &site{
					spec: g.spec, capacity: map[fleet.ModelID]float64{},
					ability: map[fleet.ModelID]signal.Ability{"m": {Capacity: g.measured, Since: time.Hour}},
				})
			}
			w.believe()
			for i, s := range w.sites {
				if got := s.capacity["m"]; got != tt.want[i] {
					t.Errorf("site %d: %v, want %v", i, got, tt.want[i])
				}
			}
		})
	}
}

func TestClustersOfAMissingRegionAreLeftOut(t *testing.T) {
	b := newBench(t)
	b.cluster("xx-a", "xx", 100)
	b.plan()
	for _, c := range b.table.Clusters {
		if c.Id == "xx-a" {
			t.Error("a cluster without a region is in the table")
		}
	}
}

func TestMarginalPricesOfClusters(t *testing.T) {
	b := newBench(t)
	b.cluster("us-a", "us", 1000, "gpus: [{class: h100, count: 2}, {class: h100, count: 6, purchase: reserved}]")
	b.write("RateCard", "a", "gpus: [{class: h100, region: us, usdPerHour: 3.6}]")
	b.write("RateCard", "b", "gpus: [{class: h100, region: us, usdPerHour: 99}]")
	b.report()
	w := survey(Input{Resources: b.written, Signals: b.signals.Snapshot(b.now)})
	for _, s := range w.sites {
		want := costmodel.Micros(0)
		if s.id == "us-a" {
			want = 2 * costmodel.Dollar // 7.2 dollars an hour over 3.6 million units
		}
		if got := w.marginal(s, "m"); got != want {
			t.Errorf("a million units on %s cost %s, want %s", s.id, got, want)
		}
	}
}

func TestPricesHoldForATimeAndAPlace(t *testing.T) {
	b := newBench(t)
	b.cluster("us-a", "us", 1000, "gpus: [{class: h100, count: 2, availabilityZone: us-a, instance: big}]")
	b.cluster("us-b", "us", 1000, "gpus: [{class: h100, count: 2}]")
	b.write("RateCard", "a", `gpus: [{class: h100, region: us, usdPerHour: 3.6}, {class: h100, region: us, instance: big, usdPerHour: 1.8, until: "2027-01-01T00:00:00Z"}, `+
		`{class: h100, region: us, instance: big, availabilityZone: us-a, usdPerHour: 5.4, from: "2026-12-31T00:00:00Z"}, {class: h100, region: us, usdPerHour: 7.2, from: "2027-01-02T00:00:00Z"}]`)
	b.report()
	for at, want := range map[string][2]costmodel.Micros{
		"2026-12-30T23:59:59Z": {costmodel.Dollar, 2 * costmodel.Dollar},
		"2026-12-31T00:00:00Z": {3 * costmodel.Dollar, 2 * costmodel.Dollar},
		"2027-01-01T23:59:59Z": {3 * costmodel.Dollar, 2 * costmodel.Dollar},
		"2027-01-02T00:00:00Z": {3 * costmodel.Dollar, 4 * costmodel.Dollar},
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		got := map[fleet.ClusterID]costmodel.Micros{}
		w := survey(Input{Resources: b.written, Signals: b.signals.Snapshot(b.now), Now: now})
		for _, s := range w.sites {
			got[s.id] = w.marginal(s, "m")
		}
		if got["us-a"] != want[0] || got["us-b"] != want[1] {
			t.Errorf("at %s a million units cost %s and %s, want %v", at, got["us-a"], got["us-b"], want)
		}
	}
}

func TestOnePolicySpeaksForAModel(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "general", "{}")
	b.write("TrafficPolicy", "zz-general", "{}")
	b.write("TrafficPolicy", "named", "models: [m]")
	b.write("TrafficPolicy", "other-class", "class: offline\n  models: [m]")
	w := survey(Input{Resources: b.written})
	for at, want := range map[[2]string]string{
		{"interactive", "m"}: "named", {"interactive", "n"}: "general", {"offline", "m"}: "other-class", {"offline", "n"}: "", {"else", "m"}: "",
	} {
		got := ""
		if r := w.governing(fleet.ClassID(at[0]), fleet.ModelID(at[1])); r != nil {
			got = r.Metadata.Name
		}
		if got != want {
			t.Errorf("%s of class %s is governed by %q, want %q", at[1], at[0], got, want)
		}
	}
	if got := w.classIDs(); len(got) != 2 || got[0] != "interactive" || got[1] != "offline" {
		t.Errorf("classes %v", got)
	}
}

func BenchmarkCompute(b *testing.B) {
	for _, size := range [][2]int{{2, 0}, {10, 0}, {10, 20}, {10, 100}} {
		models, rules := size[0], size[1]
		b.Run(fmt.Sprintf("models=%d/rules=%d", models, rules), func(b *testing.B) {
			x := newBench(b)
			for i := range rules {
				x.write("TrafficPolicy", fmt.Sprintf("p%d", i), fmt.Sprintf("match: [{headers: [{name: x-team, value: team-%d}]}]", i))
			}
			names := []string{"m"}
			for i := 1; i < models; i++ {
				names = append(names, fmt.Sprintf("m%d", i))
				x.write("Model", names[i], "{}")
			}
			for _, c := range x.written.List(policy.KindCluster) {
				c.Spec.(*policy.ClusterSpec).Models = names
			}
			for _, region := range []string{"us", "eu", "ap"} {
				x.demand[region] = map[string]float64{}
				for i, m := range names {
					x.demand[region][m] = float64(3000*(i%3+1)) / float64(models)
				}
			}
			x.report()
			in := Input{Resources: x.written, Signals: x.signals.Snapshot(x.now), Now: x.now, Warm: true}
			b.ReportAllocs()
			for b.Loop() {
				Compute(in)
			}
		})
	}
}
