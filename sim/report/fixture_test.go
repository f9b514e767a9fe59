package report

import (
	"math/rand/v2"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/world"
)

// shape is how a policy does in the runs that fixtures make up.
type shape struct {
	policy string
	ttft   float64 // median of first-token times in seconds
	hits   float64 // share of prompts cached
	skew   float64 // how much more the first pod of a cluster gets
	away   float64 // share served in the other region
	lost   float64 // share that fails
	weigh  bool
	abroad bool
}

// shapes of the golden report: ours is good, the oracle better.
var shapes = []shape{
	{policy: "round-robin", ttft: 1.1, hits: 0.25, away: 0},
	{policy: "prefix-hash", ttft: 0.5, hits: 0.8, skew: 0.8, lost: 0.01},
	{policy: "ours", ttft: 0.3, hits: 0.82, skew: 0.1, away: 0.08, weigh: true},
	{policy: "oracle", ttft: 0.27, hits: 0.84, skew: 0.05, away: 0.05},
}

func fixtureSpec() *world.Spec {
	const us, eu fleet.RegionID = "us-east-1", "eu-west-1"
	return &world.Spec{
		Name:    "two regions",
		Regions: []world.Region{{ID: us}, {ID: eu}},
		Clusters: []world.Cluster{
			{ID: "us-a", Region: us, Model: "llama-3.1-8b", Pods: []world.Pods{{Class: "h100", Count: 3, PriceMicroUSD: 4_000_000}}},
			{ID: "eu-a", Region: eu, Model: "llama-3.1-8b", Pods: []world.Pods{{Class: "a100-80", Count: 3, PriceMicroUSD: 2_500_000}}},
		},
		Models: []world.Model{{ID: "llama-3.1-8b"}},
		Warmup: 10 * time.Second,
	}
}

// made is a run of 600 requests over two minutes. The same seed gives all shapes the same arrivals.
func made(s shape, seed uint64) *world.Result {
	arrivals, rng := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	spec := fixtureSpec()
	r := &world.Result{Spec: spec, Policy: s.policy, Seed: seed, Tenants: []fleet.TenantID{"acme"}}
	r.Pods = [][]world.PodTotal{make([]world.PodTotal, 3), make([]world.PodTotal, 3)}
	at := spec.Warmup
	for id := range uint64(600) {
		at += time.Duration(arrivals.ExpFloat64() * float64(200*time.Millisecond))
		region, size := arrivals.IntN(2), 500+arrivals.IntN(3000)
		c := world.Record{
			ID: id, At: at, Region: int32(region), Cluster: int32(region), Prompt: int32(size),
			Output: int32(20 + arrivals.IntN(200)), Attempts: 1,
		}
		if rng.Float64() < s.away {
			c.Cluster, c.Attempts, c.Abroad = 1-c.Cluster, 2, s.abroad
		}
		if rng.Float64() < s.lost {
			c.End, c.Cluster, c.Pod, c.Output = world.Failed, -1, -1, 0
			r.Records = append(r.Records, c)
			continue
		}
		c.Pod = int32(rng.IntN(3))
		if rng.Float64() < s.skew/3 {
			c.Pod = 0
		}
		c.Cached = int32(float64(size) * min(s.hits*(0.9+0.2*rng.Float64()), 1))
		c.First = at + time.Duration(s.ttft*(0.3+rng.ExpFloat64())*float64(time.Second))
		c.Last = c.First + time.Duration(c.Output)*12*time.Millisecond
		c.Queued = time.Duration(rng.IntN(4)) * time.Millisecond
		r.Ended = max(r.Ended, c.Last)
		r.Records = append(r.Records, c)
		p := &r.Pods[c.Cluster][c.Pod]
		p.Served++
		p.Prompt, p.Cached, p.Output = p.Prompt+int64(size), p.Cached+int64(c.Cached), p.Output+int64(c.Output)
	}
	for i, c := range spec.Clusters {
		for j := range r.Pods[i] {
			p := &r.Pods[i][j]
			p.Class, p.Alive = c.Pods[0].Class, r.Ended-spec.Warmup
			p.MicroUSD = int64(p.Alive.Hours() * float64(c.Pods[0].PriceMicroUSD))
		}
	}
	makeSeries(r, s, rng)
	return r
}

func makeSeries(r *world.Result, s shape, rng *rand.Rand) {
	row := func(f func(i int) float64) []float32 {
		out := make([]float32, len(r.Points))
		for i := range out {
			out[i] = float32(f(i))
		}
		return out
	}
	for t := time.Second; t <= r.Ended; t += time.Second {
		r.Points = append(r.Points, t)
	}
	for c := range r.Spec.Clusters {
		w := 0.9
		r.Series.Running = append(r.Series.Running, row(func(int) float64 { return 4 + 3*s.ttft*rng.Float64() }))
		r.Series.Waiting = append(r.Series.Waiting, row(func(i int) float64 { return s.ttft * rng.Float64() * float64(i%40) / 5 }))
		r.Series.Ready = append(r.Series.Ready, row(func(int) float64 { return 3 }))
		r.Series.Price = append(r.Series.Price, row(func(int) float64 { return 12 - 4.5*float64(c) }))
		r.Series.Queue = append(r.Series.Queue, row(func(int) float64 { return s.ttft * rng.Float64() }))
		if s.weigh {
			walk := row(func(int) float64 { w = min(max(w+0.02*(rng.Float64()-0.5), 0.6), 1); return w })
			other := row(func(i int) float64 { return 1 - float64(walk[i]) })
			if c == 0 {
				r.Series.Weights = append(r.Series.Weights, walk, other)
			} else {
				r.Series.Weights = append(r.Series.Weights, other, walk)
			}
		}
	}
}

// golden is the report of the golden files: five seeds of each shape.
func golden() *Report {
	var runs []Figures
	for _, s := range shapes {
		for seed := range uint64(5) {
			f := Of(made(s, seed+1))
			f.Bound(float64(f.Cost.Work), 0.9*float64(f.Cost.Work))
			runs = append(runs, f)
		}
	}
	r := New("Two regions, made up", runs)
	r.About = []string{"Six pods in two regions, 600 requests a run. The figures are made up by a test."}
	r.Command = "anabranch sim run two-regions --seeds 5"
	return r
}
