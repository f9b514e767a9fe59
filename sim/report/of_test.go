package report

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	"anabranch/sim"
	"anabranch/sim/report/stat"
	"anabranch/sim/world"
)

func near(t *testing.T, what string, got stat.Number, want float64) {
	t.Helper()
	if !got.Known() || math.Abs(float64(got)-want) > 1e-6*max(1, math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func unknown(t *testing.T, what string, got stat.Number) {
	t.Helper()
	if got.Known() {
		t.Errorf("%s: %v, and it can't be known", what, got)
	}
}

// byHand is six requests that end in all six ways, over 10 s after a warm-up of 10 s.
func byHand() *world.Result {
	spec := fixtureSpec()
	spec.Models[0].FirstToken, spec.Models[0].InterToken = time.Second, 50*time.Millisecond
	spec.Models[0].OutputWeight = 2
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return &world.Result{
		Spec: spec, Policy: "ours", Seed: 3, Tenants: nil, Ended: at(20),
		Records: []world.Record{
			// Good: 500 ms to the first token, 10 gaps of 20 ms.
			{ID: 1, At: at(11), First: at(11.5), Last: at(11.7), Prompt: 100, Cached: 50, Output: 11, Attempts: 1, Queued: at(0.1)},
			// Too late: 2 s; in the other region, at the second attempt.
			{ID: 2, At: at(12), First: at(14), Last: at(14.2), Prompt: 300, Output: 11, Attempts: 2, Cluster: 1, Pod: 2, Abroad: true},
			// Too slow: 100 ms between tokens; one gap.
			{ID: 3, At: at(13), First: at(13.4), Last: at(13.5), Prompt: 100, Cached: 50, Output: 2, Attempts: 1},
			{ID: 4, At: at(14), End: world.Shed, Cluster: -1, Pod: -1, Attempts: 1, Prompt: 10},
			{ID: 5, At: at(15), End: world.Denied, Cluster: -1, Pod: -1, Prompt: 10},
			{ID: 6, At: at(16), First: at(17), Last: at(18), End: world.Cut, Prompt: 100, Cached: 20, Output: 3, Attempts: 1},
			{ID: 7, At: at(17), End: world.Failed, Cluster: -1, Pod: -1, Attempts: 3, Prompt: 10},
			{ID: 8, At: at(18), End: world.GaveUp, Cluster: 0, Pod: 1, Attempts: 1, Prompt: 10},
		},
		Pods: [][]world.PodTotal{
			{
				{Class: "h100", Served: 3, Prompt: 300, Cached: 120, Output: 16, Alive: at(10), MicroUSD: 11_000, Preempted: 2},
				{Class: "h100", Served: 1, Alive: at(5), MicroUSD: 5_500},
				{Class: "h100"},
			},
			{{Class: "a100-80", Alive: at(10), MicroUSD: 7_000}, {Class: "a100-80", Alive: at(10), MicroUSD: 7_000}, {
				Class: "a100-80", Served: 1, Prompt: 300, Output: 11, Alive: at(10), MicroUSD: 7_000, Preempted: 1,
			}},
		},
	}
}

func TestFiguresByHand(t *testing.T) {
	f := Of(byHand())
	if f.Policy != "ours" || f.Seed != 3 {
		t.Errorf("%s %d", f.Policy, f.Seed)
	}
	near(t, "seconds", f.Seconds, 10)
	for i, c := range []struct{ got, want stat.Number }{
		{f.Ends.Requests, 8},
		{f.Ends.Answered, 3},
		{f.Ends.Shed, 1},
		{f.Ends.Denied, 1},
		{f.Ends.Failed, 1},
		{f.Ends.Cut, 1},
		{f.Ends.GaveUp, 1},
	} {
		if c.got != c.want {
			t.Errorf("end %d: %v, want %v", i, c.got, c.want)
		}
	}
	near(t, "lost", f.Ends.Lost, 4.0/7)
	near(t, "TTFT P50", f.TTFT.P50, 500) // of 400, 500, 1000, 2000
	near(t, "TTFT P90", f.TTFT.P90, 2000)
	near(t, "TTFT mean", f.TTFT.Mean, 975)
	near(t, "inter-token P50", f.InterToken.P50, 20)
	near(t, "inter-token P99", f.InterToken.P99, 100)
	near(t, "latency P50", f.Latency.P50, 700) // of 500, 700, 2200
	near(t, "goodput", f.Goodput.Share, 1.0/7)
	near(t, "goodput/s", f.Goodput.PerSecond, 0.1)
	near(t, "answers/s", f.Throughput.Requests, 0.3)
	near(t, "output/s", f.Throughput.Output, 2.4)
	near(t, "hits", f.Routing.HitRate, 120.0/600)
	near(t, "cross-region", f.Routing.CrossRegion, 1.0/4)
	near(t, "retries", f.Routing.Retries, 3.0/8)
	near(t, "queue P50", f.Queue.P50, 0)
	near(t, "queue P99", f.Queue.P99, 100)
	near(t, "violations", f.Rules.Violations, 1)
	near(t, "preemptions", f.Preemptions, 3)
	unknown(t, "churn", f.Weights.PerMinute)
	unknown(t, "quota", f.Rules.QuotaOver)
	unknown(t, "recovery", f.Recovery.Seconds)
	if len(f.Curve) != len(CurveAt()) || f.Curve[len(f.Curve)-1] != 2000 || f.Curve[49] != 500 {
		t.Errorf("curve %v", f.Curve)
	}
}

func TestCostsByHand(t *testing.T) {
	r := byHand()
	f := Of(r)
	near(t, "fleet", f.Cost.Fleet, 37_500)
	near(t, "per answer", f.Cost.PerAnswer, 12_500)
	near(t, "per million", f.Cost.PerMillion, 37_500*1e6/524)
	h100, err := sim.Lookup("h100", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	a100, err := sim.Lookup("a100-80", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	// 180 uncached tokens and 16 at twice the work at 1,100 µ$ a second, 300 and 11 at 700 µ$.
	want := (180+2*16)/h100.PrefillRate(100)*1100 + (300+2*11)/a100.PrefillRate(300)*700
	near(t, "work", f.Cost.Work, want)
	near(t, "work per answer", f.Cost.WorkPerAnswer, want/3)
	unknown(t, "bound", f.Cost.OverBound)
	f.Bound(110, 100)
	near(t, "bound", f.Cost.OverBound, 1.1)
}

func TestCostsOfAClassThatIsNotKnown(t *testing.T) {
	r := byHand()
	r.Pods[0][0].Class = "tpu"
	unknown(t, "work", Of(r).Cost.Work)
	own := h100Of(t)
	own.Class = "tpu"
	r.Spec.Clusters[0].Pods[0].Class = "tpu"
	r.Spec.Clusters[0].Pods[0].Options.Profile = own
	near(t, "work by the profile given", Of(r).Cost.Work, float64(Of(byHand()).Cost.Work))
}

func h100Of(t *testing.T) sim.Profile {
	t.Helper()
	p, err := sim.Lookup("h100", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestBalanceByHand(t *testing.T) {
	f := Of(byHand())
	// The second cluster is worst: one pod of three served all. In the first, 3 in 10 s and 1 in 5 s
	// are rates of 0.3 and 0.2; the pod that never lived has no share.
	near(t, "max", f.Balance.Max, 1)
	near(t, "min", f.Balance.Min, 0)
	near(t, "over fair", f.Balance.OverFair, 3)
	near(t, "CV", f.Balance.CV, math.Sqrt2)
	first := f.Clusters[0]
	near(t, "share of the cluster", first.Share, 0.8)
	near(t, "its hits", first.HitRate, 0.4)
	near(t, "pod 0", first.Pods[0].Share, 0.6)
	near(t, "pod 1", first.Pods[1].Share, 0.4)
	unknown(t, "pod 2", first.Pods[2].Share)
	unknown(t, "hits of a pod that served nothing", first.Pods[1].HitRate)
}

// Pods of different classes are no equals: the faster should get more.
func TestBalanceIsAmongEquals(t *testing.T) {
	var f Figures
	f.shares([]Cluster{{Name: "a"}}, [][]pod{{
		{class: "h100", served: 300, alive: time.Minute},
		{class: "l40s", served: 100, alive: time.Minute},
		{class: "h100", served: 300, alive: time.Minute},
		{class: "l40s", served: 100, alive: time.Minute},
	}})
	near(t, "CV", f.Balance.CV, 0)
	near(t, "over fair", f.Balance.OverFair, 1)
	f = Figures{}
	f.shares([]Cluster{{Name: "a"}}, [][]pod{{{class: "h100", served: 3, alive: time.Minute}}})
	unknown(t, "the balance of one pod", f.Balance.CV)
}

// Pods that hardly anything is sent to are uneven by chance, and don't count.
func TestBalanceIsOfPodsInUse(t *testing.T) {
	hardly := []pod{{class: "l40s", served: 1, alive: time.Minute}, {class: "l40s", served: 7, alive: time.Minute}}
	busy := []pod{{class: "h100", served: 90, alive: time.Minute}, {class: "h100", served: 110, alive: time.Minute}}
	var f Figures
	f.shares([]Cluster{{Name: "a"}}, [][]pod{append(busy, hardly...)})
	near(t, "over fair", f.Balance.OverFair, 1.1)
	near(t, "its share is told all the same", f.Clusters[0].Pods[3].Share, 0.875)
	hardly[0].served, hardly[1].served = 3, 10
	f = Figures{}
	f.shares([]Cluster{{Name: "a"}}, [][]pod{append(busy, hardly...)})
	near(t, "over fair, with more than a tenth", f.Balance.OverFair, 20.0/13)
}

func TestRecordsAreNamed(t *testing.T) {
	r := byHand()
	requests := requestsOf(r)
	if q := requests[1]; q.Region != "us-east-1" || q.Served != "eu-west-1" || q.Cluster != "eu-a" || q.Endpoint != "pod-2" ||
		q.Model != "llama-3.1-8b" || !q.Abroad {
		t.Errorf("%+v", q)
	}
	if q := requests[3]; q.Cluster != "" || q.Endpoint != "" || q.Served != "" {
		t.Errorf("nothing answered: %+v", q)
	}
}

func TestObjectivesDefault(t *testing.T) {
	of := objectives(fixtureSpec())
	if of("llama-3.1-8b") != defaultObjective || of("another") != defaultObjective {
		t.Error("without objectives they are 2 s and 100 ms")
	}
}

func TestFiguresOfNothing(t *testing.T) {
	r := byHand()
	r.Records, r.Ended = nil, 0
	f := Of(r)
	near(t, "requests", f.Ends.Requests, 0)
	unknown(t, "TTFT", f.TTFT.P99)
	unknown(t, "goodput", f.Goodput.Share)
	unknown(t, "answers/s", f.Throughput.Requests)
	unknown(t, "cost", f.Cost.PerAnswer)
	if f.Curve != nil || f.Timeline != nil {
		t.Error("a curve of nothing")
	}
}

// The same result gives the same figures, whatever was computed before.
func TestFiguresDoNotChangeTheResult(t *testing.T) {
	r := made(shapes[2], 4)
	a, err := json.Marshal(Of(r))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(Of(r))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("two looks at one result differ")
	}
}

// What was measured in the warm-up doesn't count.
func TestSeriesCountAfterTheWarmup(t *testing.T) {
	r := byHand()
	r.Points = []time.Duration{5 * time.Second, 10 * time.Second, 70 * time.Second}
	r.Series = world.Series{
		Waiting: [][]float32{{100, 1, 3}, {100, 2, 2}}, Running: [][]float32{{50, 4, 6}}, Queue: [][]float32{{9, 0, 1}},
		Ready:   [][]float32{{1, 1, 1}, {1, 1, 1}},
		Weights: [][]float32{{0, 1, 0.5}, {1, 0, 0.5}, {1, 1, 1}, {0, 0, 0}},
	}
	f := Of(r)
	near(t, "waiting", f.Queue.Pods, 4)
	near(t, "running", f.Queue.Running, 5)
	near(t, "in routers", f.Queue.Routers, 0.5)
	near(t, "churn", f.Weights.PerMinute, 0.5) // 1 in one of two regions, in a minute
	if f.Timeline == nil || len(f.Timeline.Seconds) != 3 {
		t.Errorf("the timeline shows the warm-up too: %+v", f.Timeline)
	}
}
