package plan

import (
	"testing"

	"anabranch/failover"
)

func TestARegionGetsItsLeastShare(t *testing.T) {
	for _, tc := range []struct {
		name    string
		regions string
		ask     map[string]float64
		down    string
		least   map[string]float64 // of all traffic
	}{
		{"of all sources together", "[{region: ap, minShare: 0.5}]", map[string]float64{"us": 6000, "eu": 3000, "ap": 1000}, "", map[string]float64{"ap": 0.5}},
		{"its own traffic counts", "[{region: ap, minShare: 0.3}]", map[string]float64{"us": 3000, "eu": 3000, "ap": 4000}, "", map[string]float64{"ap": 0.4}},
		{"two regions", "[{region: eu, minShare: 0.3}, {region: ap, minShare: 0.2}]", map[string]float64{"us": 9000}, "", map[string]float64{"eu": 0.3, "ap": 0.2}},
		{"not at the expense of another's", "[{region: eu, minShare: 0.6}, {region: us, minShare: 0.4}]", map[string]float64{"us": 9000}, "", map[string]float64{"eu": 0.6, "us": 0.4}},
		{"within a limit elsewhere", "[{region: ap, minShare: 0.2}, {region: us, maxShare: 0.5}]", map[string]float64{"us": 9000}, "", map[string]float64{"ap": 0.2, "eu": 0.25}},
		{"not while it is out of use", "[{region: ap, minShare: 0.5}]", map[string]float64{"us": 6000}, "ap", map[string]float64{"us": 0.95}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			b.write("TrafficPolicy", "p", "{regions: "+tc.regions+"}")
			total := 0.0
			for r, work := range tc.ask {
				b.ask(r, work)
				total += work
			}
			b.report()
			if tc.down != "" {
				b.state(tc.down+"-a", failover.Evacuated, 0)
				b.state(tc.down+"-b", failover.Evacuated, 0)
			}
			b.plan()
			for name, want := range tc.least {
				got := 0.0
				for r, work := range tc.ask {
					got += work / total * region(b.shares(r), name)
				}
				if got < want-0.002 {
					t.Errorf("%s gets %.4f of the traffic, want %g at least", name, got, want)
				}
			}
		})
	}
}

// What is cheapest is still taken: no more goes to a region than it is to have, and the way is the shortest.
func TestALeastShareIsNoMoreThanThat(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "{regions: [{region: ap, minShare: 0.3}]}")
	b.ask("us", 9000)
	b.report()
	b.plan()
	shares := b.shares("us")
	if ap := region(shares, "ap"); ap < 0.298 || ap > 0.302 {
		t.Errorf("ap gets %.4f: %v", ap, shares)
	}
	if eu := region(shares, "eu"); eu > 0.02 {
		t.Errorf("eu gets %.4f, nobody asked for that", eu)
	}
}

// A region that is full gets no more than it can do, whatever a policy wants.
func TestALeastShareOverloadsNobody(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "{regions: [{region: ap, minShare: 1}]}")
	b.ask("us", 30_000)
	b.report()
	b.plan()
	if work := 30_000 * region(b.shares("us"), "ap"); work < 0.6*15_000 || work > loadMax*15_000 {
		t.Errorf("ap gets %.0f work/s of the 15,000 that it can do", work)
	}
}

func TestALeastShareIsExplained(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "{regions: [{region: ap, minShare: 0.3}]}")
	b.ask("us", 9000)
	b.report()
	b.plan()
	in := Input{Resources: b.written, Signals: b.signals.Snapshot(b.now), Previous: b.table, Health: b.health, Now: b.now, Warm: true}
	told, err := Explain(in, Ask{Model: "m", Source: "us", Effort: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	bound, lever := false, false
	for _, c := range told.Demands[0].Clusters {
		for _, k := range c.Constraints {
			bound = bound || k.Kind == ConstraintMinShare && c.Region == "us"
		}
		for _, l := range c.Changes {
			lever = lever || l.Of == "TrafficPolicy p spec.regions[].minShare" && l.Gains && l.Share > 0.5
		}
	}
	if !bound || !lever {
		t.Errorf("bound %v, lever %v: %+v", bound, lever, told.Demands[0])
	}
	if why := reasonOf(b, "us", "ap-a"); why != "the policy wants a part of its traffic in ap" {
		t.Errorf("the reason of ap-a is %q", why)
	}
}

func reasonOf(b *bench, source, cluster string) string {
	for _, w := range b.table.GetWeights() {
		for _, c := range w.GetClusters() {
			if w.GetSource() == source && w.GetClass() == "interactive" && c.GetCluster() == cluster {
				return c.GetReason()
			}
		}
	}
	return ""
}
