package report

import (
	"bytes"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/rival"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// played is a run of a small fleet that loses a cluster for a while.
func played(t *testing.T, policy string, seed uint64) *world.Result {
	t.Helper()
	const us, eu fleet.RegionID = "us-east-1", "eu-west-1"
	spec := fixtureSpec()
	spec.Warmup = 5 * time.Second
	spec.Events = []world.Event{{At: 20 * time.Second, For: 10 * time.Second, Kind: world.Lost, Cluster: "us-a"}}
	spec.Tenants = []world.Tenant{{ID: "initech", Residency: []string{string(eu)}}}
	source, err := workload.SharedPrefix{
		Traffic: workload.Traffic{
			Seed: seed, Arrivals: workload.Arrivals{Rate: 20}, Requests: 800,
			Regions: []workload.Origin{{Region: us, Weight: 2}, {Region: eu, Weight: 1}},
		},
		Prefixes: 40,
	}.Source()
	if err != nil {
		t.Fatal(err)
	}
	p, err := rival.New(policy, rival.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := world.Run(t.Context(), spec, source, p, world.Options{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A real run from end to end: the figures hang together, and the same seed gives the same bytes.
func TestARealRun(t *testing.T) {
	var first []byte
	for range 2 {
		var runs []Figures
		for _, policy := range []string{"round-robin", "prefix-hash"} {
			for seed := range uint64(2) {
				runs = append(runs, Of(played(t, policy, seed)))
			}
		}
		var b bytes.Buffer
		r := New("a cluster is lost", runs)
		r.Ours = "prefix-hash"
		for _, err := range []error{r.WriteJSON(&b), r.HTML(&b, Options{}), r.Text(&b, Options{})} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if first == nil {
			first = bytes.Clone(b.Bytes())
		} else if !bytes.Equal(first, b.Bytes()) {
			t.Error("the same seeds gave other bytes")
		}
	}
}

func TestARealRunsFiguresHangTogether(t *testing.T) {
	result := played(t, "round-robin", 3)
	f := Of(result)
	if f.Ends.Requests < 600 || f.Ends.Answered < 0.9*f.Ends.Requests {
		t.Fatalf("%v requests, %v answered", f.Ends.Requests, f.Ends.Answered)
	}
	if f.TTFT.P50 <= 0 || f.TTFT.P50 > f.TTFT.P99 || f.Latency.P50 < f.TTFT.P50 || f.InterToken.P50 <= 0 {
		t.Errorf("TTFT %+v, latency %+v, inter-token %+v", f.TTFT, f.Latency, f.InterToken)
	}
	// Little's law: as many run as come in a second times the seconds that each takes, within a fifth:
	// the series are taken once a second, and also of requests that came in the warm-up.
	inside := float64(f.Queue.Running + f.Queue.Pods)
	if little := float64(f.Throughput.Requests*f.Latency.Mean) / 1000; inside < 0.8*little || inside > 1.2*little {
		t.Errorf("%v requests in pods, by Little's law %v", inside, little)
	}
	if f.Recovery.Lost < 1 || !f.Recovery.Seconds.Known() {
		t.Errorf("a cluster died with what it had: %+v", f.Recovery)
	}
	served := 0
	for _, c := range f.Clusters {
		for _, p := range c.Pods {
			served += p.Served
		}
	}
	near(t, "served by pods", f.Ends.Answered, float64(served))
	// Work at full use can't cost more than the fleet did.
	if f.Cost.Work <= 0 || f.Cost.Work >= f.Cost.Fleet {
		t.Errorf("work %v of a fleet of %v", f.Cost.Work, f.Cost.Fleet)
	}
	if f.Timeline == nil || len(f.Timeline.Seconds) == 0 || len(f.Timeline.Price) != len(f.Timeline.Seconds) {
		t.Errorf("timeline %+v", f.Timeline)
	}
	if f.Routing.CrossRegion < 0.2 {
		t.Errorf("round-robin over two regions served %v elsewhere", f.Routing.CrossRegion)
	}
}

func TestPrefixHashingFindsMoreThanRoundRobin(t *testing.T) {
	var runs []Figures
	for _, policy := range []string{"round-robin", "prefix-hash"} {
		for seed := range uint64(3) {
			runs = append(runs, Of(played(t, policy, seed)))
		}
	}
	r := New("", runs)
	m := metric("routing.hitRate")
	if c := Changed(m, r.Of("round-robin"), r.Of("prefix-hash")); c.Mean < 0.05 || c.N != 3 {
		t.Errorf("hits %s", m.ShowChange(c))
	}
}
