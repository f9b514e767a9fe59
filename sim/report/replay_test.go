package report

import (
	"slices"
	"testing"
	"time"

	"anabranch/sim/world"
)

// A replay of what a simulation saw gives the figures that clients see, to the last digit.
func TestReplayCountsAsASimulationDoes(t *testing.T) {
	result := made(shapes[1], 2)
	simulated := Of(result)
	requests := requestsOf(result)
	slices.Reverse(requests) // in the order in which answers came, or any
	real := FromReplay(requests, Replay{Name: "prefix-hash", Seed: 2})
	if real.TTFT != simulated.TTFT || real.Latency != simulated.Latency || real.InterToken != simulated.InterToken {
		t.Errorf("times differ:\n%+v\n%+v", real.TTFT, simulated.TTFT)
	}
	if real.Ends != simulated.Ends || real.Routing != simulated.Routing || real.Goodput.Share != simulated.Goodput.Share {
		t.Errorf("%+v\n%+v", real.Routing, simulated.Routing)
	}
	near(t, "busiest pod", real.Balance.OverFair, float64(simulated.Balance.OverFair))
	if real.Clusters[0].Name != "eu-a" || len(real.Clusters[0].Pods) != 3 || real.Clusters[1].Pods[0].Name != "pod-0" {
		t.Errorf("clusters and pods stand by their names: %+v", real.Clusters)
	}
	for _, key := range []string{"cost.fleetMicroUSD", "queue.pods", "weights.churnPerMinute", "preemptions", "recovery.seconds"} {
		unknown(t, key, metric(key).Of(&real))
	}
}

func TestReplayWithAPrice(t *testing.T) {
	requests := []Request{
		{At: 0, First: time.Second, Last: 36 * time.Second, Prompt: 700, Output: 300, Model: "m"},
		{At: time.Second, First: 4 * time.Second, Last: 5 * time.Second, Prompt: 10, Output: 11, End: world.Cut, Model: "m"},
	}
	f := FromReplay(requests, Replay{
		MicroUSDPerHour: 10_000_000,
		Objectives:      map[string]Objective{"m": {FirstToken: 10 * time.Second, InterToken: time.Second}},
		Quotas:          []world.Quota{{Tenant: "acme", Tokens: 1}},
	})
	near(t, "seconds", f.Seconds, 36)
	near(t, "fleet", f.Cost.Fleet, 100_000)
	near(t, "per answer", f.Cost.PerAnswer, 100_000)
	near(t, "per million", f.Cost.PerMillion, 1e8)
	near(t, "goodput", f.Goodput.Share, 0.5)
	if len(f.Tenants) != 1 {
		t.Errorf("tenants %+v", f.Tenants)
	}
	if n := len(f.Timeline.Seconds); n != 37 {
		t.Errorf("%d stretches of 36 s, want one a second at most", n)
	}
}

func TestReplayOfNothing(t *testing.T) {
	f := FromReplay(nil, Replay{Name: "none"})
	near(t, "requests", f.Ends.Requests, 0)
	unknown(t, "TTFT", f.TTFT.P50)
	unknown(t, "cross-region", f.Routing.CrossRegion)
	if f.Timeline != nil || len(f.Clusters) != 0 {
		t.Error("a timeline of nothing")
	}
}

// A server that doesn't say where it is, is nowhere else.
func TestReplayWithoutPlaces(t *testing.T) {
	f := FromReplay([]Request{{At: 0, First: 1, Last: 2, Region: "us"}, {At: 1, First: 2, Last: 3, Served: "eu"}}, Replay{})
	unknown(t, "cross-region", f.Routing.CrossRegion)
	unknown(t, "balance", f.Balance.CV)
}
