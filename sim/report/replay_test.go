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
	sent := FromReplay(requests, Replay{Name: "prefix-hash", Seed: 2})
	if sent.TTFT != simulated.TTFT || sent.Latency != simulated.Latency || sent.InterToken != simulated.InterToken {
		t.Errorf("times differ:\n%+v\n%+v", sent.TTFT, simulated.TTFT)
	}
	if sent.Ends != simulated.Ends || sent.Routing != simulated.Routing || sent.Goodput.Share != simulated.Goodput.Share {
		t.Errorf("%+v\n%+v", sent.Routing, simulated.Routing)
	}
	near(t, "busiest pod", sent.Balance.OverFair, float64(simulated.Balance.OverFair))
	if sent.Clusters[0].Name != "eu-a" || len(sent.Clusters[0].Pods) != 3 || sent.Clusters[1].Pods[0].Name != "pod-0" {
		t.Errorf("clusters and pods stand by their names: %+v", sent.Clusters)
	}
	for _, key := range []string{"cost.fleetMicroUSD", "queue.pods", "weights.churnPerMinute", "preemptions", "recovery.seconds"} {
		unknown(t, key, metric(key).Of(&sent))
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

func TestEndOf(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		code    string
		content bool
		want    world.End
	}{
		{"whole", 200, "", true, world.OK},
		{"whole, of no tokens", 200, "", false, world.OK},
		{"broken off", 200, "broken", true, world.Cut},
		{"late, but begun", 200, "timeout", true, world.Cut},
		{"too late", 0, "timeout", false, world.GaveUp},
		{"stopped", 0, "canceled", false, world.GaveUp},
		{"left", 499, "client_gone", false, world.GaveUp},
		{"over the limit", 429, "rate_limit_exceeded", false, world.Denied},
		{"larger than the limit", 429, "request_exceeds_quota", false, world.Denied},
		{"OpenAI's word", 429, "insufficient_quota", false, world.Denied},
		{"others went before", 429, "shed", false, world.Shed},
		{"no place to wait", 429, "queue_full", false, world.Shed},
		{"no room", 503, "no_capacity", false, world.Shed},
		{"nobody there", 503, "no_target", false, world.Failed},
		{"no connection", 0, "connect", false, world.Failed},
		{"an error of the server", 500, "status_500", false, world.Failed},
		{"no stream", 200, "malformed", false, world.Failed},
	} {
		if got := EndOf(c.status, c.code, c.content); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
