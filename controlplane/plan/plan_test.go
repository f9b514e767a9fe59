package plan

import (
	"math"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/failover"
)

func near(t *testing.T, what string, got, want, by float64) {
	t.Helper()
	if math.Abs(got-want) > by {
		t.Errorf("%s is %.4f, want %.4f", what, got, want)
	}
}

func TestNoFleetNoTable(t *testing.T) {
	if out := Compute(Input{Resources: shelf{}, Now: noon, Warm: true}); out.Table != nil || out.Changed {
		t.Errorf("got %+v", out)
	}
	b := newBench(t)
	b.remove("Model", "m")
	if out := b.plan(); out.Table != nil {
		t.Errorf("a fleet without models has a table: %v", out.Table)
	}
}

func TestAnIdleFleetStaysLocalByCapacity(t *testing.T) {
	b := newBench(t)
	b.report()
	if !b.plan().Changed {
		t.Fatal("the first table is no change")
	}
	for _, source := range []string{"us", "eu", "ap"} {
		got := b.shares(source)
		near(t, source+" to its larger cluster", got[source+"-a"], 2.0/3, 0.01)
		near(t, source+" to its smaller cluster", got[source+"-b"], 1.0/3, 0.01)
		if len(got) != 6 {
			t.Errorf("%s lists %d clusters, want all 6 that are legal", source, len(got))
		}
	}
}

func TestThePriorServesUntilCapacityIsMeasured(t *testing.T) {
	b := newBench(t)
	b.cluster("us-b", "us", 0, "priorWork: 45000")
	b.plan()
	near(t, "share of the cluster believed larger", b.shares("us")["us-b"], 0.9, 0.01)
	b.capacity["us-a"], b.capacity["eu-b"], b.capacity["ap-b"] = 10_000, 10_000, 10_000
	b.report() // measures twice the prior for all but us-b
	b.plan()
	near(t, "share of the cluster measured", b.shares("us")["us-a"], 10.0/100, 0.01)
}

func TestTrafficStaysLocalWhileLocalHasRoom(t *testing.T) {
	b := newBench(t)
	b.ask("us", 7500) // half of 15,000
	b.report()
	b.plan()
	near(t, "local share at half load", region(b.shares("us"), "us"), 1, 0)
}

func TestTrafficSpillsWhenLocalIsFull(t *testing.T) {
	b := newBench(t)
	b.ask("us", 18_000)
	b.report()
	b.plan()
	got := b.shares("us")
	local := region(got, "us")
	if rho := local * 18_000 / 15_000; rho > rhoMax || rho < 0.6 {
		t.Errorf("local clusters work at %.2f of their capacity, want 0.6 to 0.8", rho)
	}
	if region(got, "eu") <= region(got, "ap") {
		t.Errorf("the nearer region got %.3f, the further %.3f", region(got, "eu"), region(got, "ap"))
	}
	near(t, "share of the larger of two remote clusters", got["eu-a"]/region(got, "eu"), 2.0/3, 0.03)
}

func TestOverloadIsSpreadByCapacity(t *testing.T) {
	b := newBench(t)
	b.ask("us", 200_000) // more than the whole fleet can do
	b.report()
	b.plan()
	for c, w := range b.shares("us") {
		near(t, "share of "+c, w, b.capacity[c]/45_000, 0.02)
	}
}

func TestLoadOfOthersCounts(t *testing.T) {
	b := newBench(t)
	b.ask("us", 18_000)
	b.ask("eu", 9000)
	b.report()
	b.plan()
	got := b.shares("us")
	if region(got, "eu") >= region(got, "ap") {
		t.Errorf("spill goes to the busy eu (%.3f) rather than to the idle ap (%.3f)", region(got, "eu"), region(got, "ap"))
	}
	near(t, "eu's own traffic at home", region(b.shares("eu"), "eu"), 1, 0.05)
}

func TestAdaptersCountAsTheirBaseModel(t *testing.T) {
	b := newBench(t)
	b.demand["us"] = map[string]float64{"m": 9000, "lora": 9000}
	b.report()
	b.plan()
	if got := region(b.shares("us"), "us"); got > 0.8 {
		t.Errorf("18,000 work/s of model and adapter together leave %.2f at home", got)
	}
}

func TestModelsShareTheirClusters(t *testing.T) {
	b := newBench(t)
	b.write("Model", "n", "{}")
	for _, c := range b.written.List(policy.KindCluster) {
		c.Spec.(*policy.ClusterSpec).Models = []string{"m", "n"}
	}
	b.demand["us"] = map[string]float64{"m": 9000, "n": 9000}
	b.report()
	b.plan()
	local := 9000 * (region(sharesOf(b.table, "m", "us"), "us") + region(sharesOf(b.table, "n", "us"), "us"))
	if local > rhoMax*15_000 {
		t.Errorf("two models put %.0f work/s on 15,000", local)
	}
}

func TestPolicyWishes(t *testing.T) {
	tests := map[string]struct {
		policy string
		ask    float64
		check  func(t *testing.T, got map[string]float64)
	}{
		"a region of weight 0 gets nothing": {"regions: [{region: us, weight: 0}]", 0, func(t *testing.T, got map[string]float64) {
			near(t, "us", region(got, "us"), 0, 0)
			near(t, "the nearest other", region(got, "eu"), 1, 0.01)
		}},
		"half weight halves what it would get": {"regions: [{region: us, weight: 0.5}]", 0, func(t *testing.T, got map[string]float64) {
			near(t, "us", region(got, "us"), 0.5, 0.001)
		}},
		"equal weights mean nothing": {"regions: [{region: us, weight: 3}, {region: eu, weight: 3}, {region: ap, weight: 3}]", 0, func(t *testing.T, got map[string]float64) {
			near(t, "us", region(got, "us"), 1, 0)
		}},
		"a share limit holds": {"regions: [{region: us, maxShare: 0.2}]", 0, func(t *testing.T, got map[string]float64) {
			// us asks for as much as the two others: of all traffic it may have a fifth.
			near(t, "us", region(got, "us"), 0.6, 0.01)
		}},
		"never spilling stays, full or not": {"spill: never", 200_000, func(t *testing.T, got map[string]float64) {
			near(t, "us", region(got, "us"), 1, 0)
		}},
		"a policy that names the model beats one that names none": {"models: [m]\n  regions: [{region: us, weight: 0}]", 0, func(t *testing.T, got map[string]float64) {
			near(t, "us", region(got, "us"), 0, 0)
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("TrafficPolicy", "p", tt.policy)
			b.write("TrafficPolicy", "q", "spill: allowed")
			if strings.Contains(tt.policy, "models") {
				b.remove("TrafficPolicy", "p")
				b.write("TrafficPolicy", "zz", tt.policy)
			}
			b.ask("us", tt.ask)
			b.report()
			b.plan()
			tt.check(t, b.shares("us"))
		})
	}
}

func TestAShareLimitCountsAllOfAPolicysTraffic(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "regions: [{region: us, maxShare: 0.25}]")
	b.ask("us", 3000)
	b.ask("eu", 3000)
	b.ask("ap", 3000)
	b.report()
	b.plan()
	sum := 0.0
	for _, source := range []string{"us", "eu", "ap"} {
		sum += region(b.shares(source), "us") / 3
	}
	near(t, "us of all traffic", sum, 0.25, 0.001)
	near(t, "us of its own", region(b.shares("us"), "us"), 0.75, 0.01)
}

func TestLimitsThatLeaveNoRoomGiveWay(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "regions: [{region: us, maxShare: 0.1}, {region: eu, maxShare: 0.1}, {region: ap, maxShare: 0.1}]")
	b.report()
	b.plan() // check: sums to 1
	if got := b.shares("us"); region(got, "us")+region(got, "eu")+region(got, "ap") < 0.999 {
		t.Errorf("got %v", got)
	}
}

func TestMoneyMattersAsMuchAsThePolicySays(t *testing.T) {
	for preference, cheaper := range map[string]bool{"0": false, "0.01": false, "1": true} {
		b := newBench(t)
		b.cluster("us-a", "us", 10_000, "gpus: [{class: h100, count: 8}]")
		b.cluster("us-b", "us", 5_000, "gpus: [{class: h100, count: 8}]")
		b.cluster("eu-a", "eu", 10_000, "gpus: [{class: h100, count: 8, purchase: owned}]")
		b.write("RateCard", "list", "gpus: [{class: h100, region: us, usdPerHour: 4}]")
		b.write("TrafficPolicy", "p", "costPreference: "+preference)
		b.report()
		b.plan()
		if got := region(b.shares("us"), "eu"); (got > 0.5) != cheaper {
			t.Errorf("preference %s sends %.2f to the idle GPUs that are paid for", preference, got)
		}
	}
}

func TestARegionWithoutADoorIsNotEntered(t *testing.T) {
	b := newBench(t)
	b.write("Region", "eu", "rttMs: {us: 80}")
	b.report()
	b.plan()
	if got := b.shares("us"); len(got) != 4 {
		t.Errorf("us lists %v", got)
	}
	if got := b.shares("eu"); len(got) != 6 {
		t.Errorf("eu lists %v", got)
	}
}

func TestADrainedClusterGetsNothing(t *testing.T) {
	b := newBench(t)
	b.report()
	b.plan()
	b.cluster("us-a", "us", 10_000, "drained: true")
	b.plan()
	near(t, "the other local cluster", b.shares("us")["us-b"], 1, 0.01)
	for _, region := range []string{"us", "eu", "ap"} {
		for _, x := range []string{"-a", "-b"} {
			b.cluster(region+x, region, 5000, "drained: true")
		}
	}
	b.plan()
	if got := b.shares("us"); len(got) != 0 {
		t.Errorf("everything is drained, yet there are weights: %v", got)
	}
	if why := b.reasons["m/interactive/us"]; !strings.Contains(why, "every cluster is barred") {
		t.Errorf("the reason is %q", why)
	}
}

func TestAnEvacuatedRegionIsLeftAtOnce(t *testing.T) {
	b := newBench(t)
	b.ask("us", 6000)
	b.report()
	b.plan()
	b.state("us-a", failover.Evacuated, 0)
	b.state("us-b", failover.FailingOver, 0)
	b.now = b.now.Add(time.Second)
	b.plan()
	near(t, "the nearest region", region(b.shares("us"), "eu"), 1, 0.05)
	if why := b.reasons["m/interactive/us"]; !strings.Contains(why, "moved at once") {
		t.Errorf("the reason is %q", why)
	}
}

func TestARampGivesAPartOfWhatItWillGet(t *testing.T) {
	b := newBench(t)
	b.report()
	b.plan()
	for _, share := range []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1} {
		b.state("us-a", failover.Ramping, share)
		b.state("us-b", failover.Ramping, share)
		b.now = b.now.Add(time.Second)
		if !b.plan().Changed {
			t.Fatalf("the step to %g changed nothing", share)
		}
		near(t, "the region's share", region(b.shares("us"), "us"), share, 0.001)
	}
}

func TestWithoutAHealthyClusterTheLastGoodWeightsStay(t *testing.T) {
	b := newBench(t)
	b.ask("us", 18_000)
	b.report()
	b.plan()
	before := b.shares("us")
	for _, c := range b.written.List(policy.KindCluster) {
		b.state(c.Metadata.Name, failover.Evacuated, 0)
	}
	b.now = b.now.Add(time.Second)
	b.plan()
	for c, w := range b.shares("us") {
		near(t, "share of "+c, w, before[c], 0)
	}
	b.table = nil
	b.plan()
	near(t, "share by capacity where there was none", b.shares("us")["us-a"], 10.0/45, 0.001)
}

func TestAllRegionsRampingShareByStep(t *testing.T) {
	b := newBench(t)
	b.report()
	b.plan()
	for _, c := range b.written.List(policy.KindCluster) {
		b.state(c.Metadata.Name, failover.Ramping, 0.01)
	}
	b.plan() // check: sums to 1
}

func TestNeverSpillingLeavesWhenHomeIsGone(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "spill: never")
	b.report()
	b.plan()
	b.state("us-a", failover.Evacuated, 0)
	b.plan()
	near(t, "the cluster that is left at home", b.shares("us")["us-b"], 1, 0)
	b.state("us-b", failover.Evacuated, 0)
	b.plan()
	near(t, "elsewhere", region(b.shares("us"), "eu"), 1, 0.01)
	b.state("us-a", failover.Ramping, 0.05)
	b.plan()
	near(t, "home in its ramp", region(b.shares("us"), "us"), 0.05*2/3, 0.02)
}
