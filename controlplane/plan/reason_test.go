package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/controlplane/policy"
	"anabranch/failover"
)

// told are the reasons in force for model m from a region, by cluster.
func (b *bench) told(source string) map[string]string {
	out := map[string]string{}
	for _, w := range b.table.GetWeights() {
		if w.GetSource() == source {
			for _, c := range w.GetClusters() {
				out[c.GetCluster()] = c.GetReason()
			}
		}
	}
	return out
}

func TestReasonsOfARampEndWithIt(t *testing.T) {
	b := newBench(t)
	b.report()
	b.plan()
	for _, share := range []float64{0.01, 0.05, 0.5} {
		b.state("us-a", failover.Ramping, share)
		b.after(1)
		want := "RAMPING at " + map[float64]string{0.01: "1", 0.05: "5", 0.5: "50"}[share] + " % of its share"
		for _, source := range []string{"us", "eu", "ap"} { // also those that send nothing there
			if got := b.told(source)["us-a"]; got != want {
				t.Errorf("from %s: %q, want %q", source, got, want)
			}
		}
	}
	b.state("us-a", failover.Healthy, 1)
	b.after(1)
	for source, want := range map[string]string{"us": local, "eu": notNeeded, "ap": notNeeded} {
		if got := b.told(source)["us-a"]; got != want {
			t.Errorf("healthy, from %s: %q, want %q", source, got, want)
		}
		if why := b.reasons["m/interactive/"+source]; strings.Contains(why, "RAMPING") {
			t.Errorf("healthy, and the list says %q", why)
		}
	}
}

func TestReasonsOfAPolicyEndWithIt(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "regions: [{region: ap, weight: 0.5}, {region: eu, weight: 0}]")
	b.report()
	b.plan()
	if got := b.told("us"); got["ap-a"] != "the policy gives ap weight 0.5" || got["eu-a"] != "the policy sends nothing to eu" {
		t.Fatalf("got %v", got)
	}
	before := b.shares("us")
	b.remove("TrafficPolicy", "p")
	b.now = b.now.Add(time.Second)
	if !b.plan().Changed {
		t.Fatal("the policy is gone, and nothing has changed")
	}
	if got := b.told("us"); got["ap-a"] != notNeeded || got["eu-a"] != notNeeded {
		t.Errorf("got %v", got)
	}
	for c, x := range b.shares("us") {
		near(t, "share of "+c, x, before[c], 0)
	}
	if again := b.plan(); again.Changed {
		t.Error("it changed twice")
	}
}

// What the text of a whole list counts is no reason to publish a table.
func TestFiguresAloneChangeNothing(t *testing.T) {
	b := newBench(t)
	b.ask("us", 18_000)
	b.report()
	b.plan()
	b.ask("us", 18_150)
	for range 30 {
		b.now = b.now.Add(time.Second)
		for _, region := range []string{"us", "eu", "ap"} {
			b.reportFrom(region)
		}
		before := b.reasons["m/interactive/us"]
		if b.plan().Changed {
			t.Fatal("changed")
		}
		if b.reasons["m/interactive/us"] == before {
			t.Fatalf("%q tells no figure that follows the load", before)
		}
		if b.now.Sub(noon) > 105*time.Second {
			return
		}
	}
}

// Load that makes now this constraint bind, now that, publishes no table while weights stay.
func TestReasonsDoNotFlutterWithLoad(t *testing.T) {
	for name, spec := range map[string]string{
		"limit":  "regions: [{region: us, maxShare: 0.5}]",
		"weight": "regions: [{region: eu, weight: 0.5}]",
		"none":   "spill: allowed",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("TrafficPolicy", "p", spec)
			b.ask("us", 10_000)
			b.ask("eu", 10_000)
			b.report()
			b.plan()
			b.after(60)
			changes := 0
			for i := range 120 {
				b.ask("us", 10_000+300*float64(i%3-1))
				b.now = b.now.Add(time.Second)
				for _, region := range []string{"us", "eu", "ap"} {
					b.reportFrom(region)
				}
				before := b.table
				if out := b.plan(); out.Changed {
					changes++
					t.Logf("%d: %s", i, difference(before, out.Table))
				}
			}
			if changes > 0 {
				t.Errorf("%d tables in two minutes of three percent more or less load", changes)
			}
		})
	}
}

func TestWhyTrafficLeavesHome(t *testing.T) {
	tests := map[string]struct {
		policy  string
		ask     float64
		prepare func(b *bench)
		cluster string
		want    string
	}{
		"home is full": {"spill: allowed", 18_000, nil, "eu-a", spill},
		"the policy prefers another region": {
			"regions: [{region: eu, weight: 2}]", 0, nil, "eu-a", "the policy gives eu weight 2",
		},
		"the policy reduces home": {
			"regions: [{region: us, weight: 0.5}]", 0, nil, "eu-a", "the policy gives eu weight 1",
		},
		"the policy sends nothing home": {"regions: [{region: us, weight: 0}]", 0, nil, "eu-a", "the policy sends nothing to us"},
		"the policy limits home":        {"regions: [{region: us, maxShare: 0.2}]", 0, nil, "eu-a", "the policy limits us to a part of its traffic"},
		"weights that are alike, and home is full": {
			"regions: [{region: us, weight: 2}, {region: eu, weight: 2}, {region: ap, weight: 2}]", 18_000, nil, "eu-a", spill,
		},
		"elsewhere is cheaper":     {"costPreference: 1", 0, func(b *bench) { b.charge(4) }, "eu-a", cheaper},
		"and so home is left":      {"costPreference: 1", 0, func(b *bench) { b.charge(4) }, "us-a", dearer},
		"price counts for nothing": {"costPreference: 0", 18_000, func(b *bench) { b.charge(4) }, "eu-a", spill},
		"home is out of use": {"spill: allowed", 0, func(b *bench) {
			b.state("us-a", failover.Evacuated, 0)
			b.cluster("us-b", "us", 5000, "drained: true")
		}, "eu-a", "us is out of use"},
		"home has nothing": {"spill: allowed", 0, func(b *bench) {
			b.remove("Cluster", "us-a")
			b.remove("Cluster", "us-b")
		}, "eu-a", "no cluster in us serves the model"},
		"nothing wanted is alive": {"regions: [{region: eu, weight: 0}, {region: ap, weight: 0}]", 0, func(b *bench) {
			b.state("us-a", failover.Evacuated, 0)
			b.state("us-b", failover.Evacuated, 0)
		}, "eu-a", "nothing is alive that the policy gives weight"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("TrafficPolicy", "p", tt.policy)
			b.ask("us", tt.ask)
			if tt.prepare != nil {
				tt.prepare(b)
			}
			b.report()
			b.plan()
			if got := b.told("us")[tt.cluster]; got != tt.want {
				t.Errorf("%s: %q, want %q", tt.cluster, got, tt.want)
			}
		})
	}
}

// charge makes GPUs in us cost usd an hour, those of eu 1, and those of ap 9.
func (b *bench) charge(usd float64) {
	for _, region := range []string{"us", "eu", "ap"} {
		b.cluster(region+"-a", region, 10_000, "gpus: [{class: h100, count: 8}]")
		b.cluster(region+"-b", region, 5_000, "gpus: [{class: h100, count: 4}]")
	}
	b.reprice(usd)
}

func (b *bench) reprice(usd float64) {
	b.t.Helper()
	b.write("RateCard", "list", "gpus: [{class: h100, region: us, usdPerHour: "+
		fmt.Sprint(usd)+"}, {class: h100, region: eu, usdPerHour: 1}, {class: h100, region: ap, usdPerHour: 9}]")
}

// Whatever changes: no reason speaks of a state of health that a cluster is not in, or of a policy
// that there is none of.
func TestReasonsAreOfTheirTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, g := draw(t), draw(t)
		before := published(Compute(f.input(nil, true)))
		after := Compute(g.input(before, true))
		speaks := len(g.written.List(policy.KindTrafficPolicy)) > 0
		for _, list := range after.Table.GetWeights() {
			for _, c := range list.GetClusters() {
				if strings.Contains(c.GetReason(), "the policy") && !speaks {
					t.Fatalf("without a policy: %v", c)
				}
				for _, s := range states {
					named := strings.HasPrefix(c.GetReason(), string(s)+" ") || strings.HasPrefix(c.GetReason(), string(s)+":")
					if named && s != g.of(c.GetCluster(), list).State {
						t.Fatalf("%v is %s", c, g.of(c.GetCluster(), list).State)
					}
				}
			}
		}
		if after.Table == nil {
			return
		}
		if again := Compute(g.input(published(after), false)); !proto.Equal(again.Table, after.Table) {
			t.Fatalf("reasons or weights moved by themselves: %s", difference(after.Table, again.Table))
		}
	})
}
