package plan

import (
	"fmt"
	"testing"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
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
	tests := map[string]struct {
		spec     policy.ClusterSpec
		measured float64
		want     float64
	}{
		"measured":                 {policy.ClusterSpec{PriorWork: 900}, 1234, 1234},
		"the prior":                {policy.ClusterSpec{PriorWork: 900}, 0, 900},
		"no prior":                 {policy.ClusterSpec{Endpoints: make([]policy.EndpointSpec, 3)}, 0, 15_000},
		"nothing at all":           {policy.ClusterSpec{}, 0, 5000},
		"less than anything":       {policy.ClusterSpec{}, 1e-300, leastWork},
		"more than anything":       {policy.ClusterSpec{}, 1e300, mostWork},
		"a prior beyond all bound": {policy.ClusterSpec{PriorWork: 1e300}, 0, mostWork},
	}
	for name, tt := range tests {
		if got := believed(&tt.spec, tt.measured); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
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
	for _, models := range []int{2, 10} {
		b.Run(fmt.Sprintf("models=%d", models), func(b *testing.B) {
			x := newBench(b)
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
