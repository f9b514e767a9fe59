package rival

import (
	"context"
	"slices"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// figures are what the tests compare runs by.
type figures struct {
	p50, p99, mean time.Duration // of first tokens
	hits           float64       // share of prompt tokens found in caches
	failed         int           // requests not answered whole
	result         *world.Result
}

// play runs a policy.
func play(t testing.TB, spec *world.Spec, load workload.Spec, name string, o Options) figures {
	t.Helper()
	policy, err := New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	source, err := load.Source()
	if err != nil {
		t.Fatal(err)
	}
	res, err := world.Run(t.Context(), spec, source, policy, world.Options{Seed: 1})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	f := figures{result: res}
	var first []time.Duration
	var prompt, cached int64
	var sum time.Duration
	for _, x := range res.Records {
		if x.End != world.OK {
			f.failed++
			continue
		}
		first = append(first, x.First-x.At)
		sum += x.First - x.At
		prompt += int64(x.Prompt)
		cached += int64(x.Cached)
	}
	slices.Sort(first)
	n := len(first)
	if n == 0 {
		t.Fatalf("%s: none of %d requests was answered", name, len(res.Records))
	}
	f.p50, f.p99, f.mean = first[n/2], first[n*99/100], sum/time.Duration(n)
	f.hits = float64(cached) / float64(prompt)
	t.Logf("%-18s mean %6.1f ms, P50 %6.1f ms, P99 %7.1f ms, hits %4.1f %%, %d of %d failed", name,
		1e3*f.mean.Seconds(), 1e3*f.p50.Seconds(), 1e3*f.p99.Seconds(), 100*f.hits, f.failed, len(res.Records))
	return f
}

// one is a cluster of pods with small KV caches.
func one(pods, kvTokens int) *world.Spec {
	return &world.Spec{
		Name: "one", Regions: []world.Region{{ID: "us-east-1"}}, Models: []world.Model{{ID: model}},
		Clusters: []world.Cluster{{ID: "a", Region: "us-east-1", Model: model, Pods: []world.Pods{{
			Class: "h100", Count: pods, Options: sim.Options{Blocks: kvTokens / sim.BlockSize, MaxSequences: 64},
		}}}},
		Warmup: 5 * time.Second,
	}
}

// three are regions 70 to 210 ms from each other with four, three and two pods.
func three() *world.Spec {
	s := &world.Spec{Name: "three", Models: []world.Model{{ID: model}}, Warmup: 5 * time.Second, RTT: map[[2]fleet.RegionID]time.Duration{
		{"us-east-1", "eu-west-1"}: 70 * time.Millisecond, {"us-east-1", "ap-northeast-1"}: 150 * time.Millisecond,
		{"eu-west-1", "ap-northeast-1"}: 210 * time.Millisecond,
	}}
	for i, r := range []fleet.RegionID{"us-east-1", "eu-west-1", "ap-northeast-1"} {
		s.Regions = append(s.Regions, world.Region{ID: r, Zone: string(r[:2])})
		s.Clusters = append(s.Clusters, world.Cluster{
			ID: fleet.ClusterID("c-" + r), Region: r, Model: model, Pods: []world.Pods{{Class: "h100", Count: 4 - i, PriceMicroUSD: 4_000_000}},
		})
	}
	return s
}

var everywhere = []workload.Origin{{Region: "us-east-1", Weight: 5}, {Region: "eu-west-1", Weight: 3}, {Region: "ap-northeast-1", Weight: 2}}

func uniform(rate float64, requests int, regions ...workload.Origin) workload.Uniform {
	return workload.Uniform{
		Traffic: workload.Traffic{Seed: 1, Arrivals: workload.Arrivals{Rate: rate}, Requests: requests, Regions: regions},
		Prompt:  workload.Lengths{Fixed: 2000}, Output: workload.Lengths{Fixed: 60},
	}
}

func shared(rate float64, requests, prefixes int) workload.SharedPrefix {
	return workload.SharedPrefix{
		Traffic:  workload.Traffic{Seed: 1, Arrivals: workload.Arrivals{Rate: rate}, Requests: requests},
		Prefixes: prefixes, Prefix: workload.Lengths{Fixed: 8000}, Suffix: workload.Lengths{Fixed: 100}, Output: workload.Lengths{Fixed: 40},
	}
}

// mixed are three generations of GPUs in one cluster.
func mixed() *world.Spec {
	s := one(0, 400_000)
	s.Name = "mixed"
	s.Clusters[0].Pods = []world.Pods{{Class: "l40s", Count: 4}, {Class: "a100-80", Count: 2}, {Class: "h100", Count: 2}}
	return s
}

// TestUniformLoad is the sanity of it all: with nothing to gain by prefixes or places, who counts does
// better than who doesn't.
func TestUniformLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	got := map[string]figures{}
	for _, name := range Names() {
		f := play(t, one(4, 400_000), uniform(40, 2000), name, Options{})
		if f.failed > 0 {
			t.Errorf("%s: %d failed", name, f.failed)
		}
		got[name] = f
	}
	for _, c := range []struct{ better, worse string }{
		{"least-outstanding", "random"},
		{"p2c", "random"},
		{"p2c", "least-outstanding"},
		{"bounded-load", "random"},
		{"greedy", "weighted"},
		{"oracle", "p2c"},
	} {
		if got[c.better].p99 > got[c.worse].p99 {
			t.Errorf("P99 of %s is %v, of %s %v", c.better, got[c.better].p99, c.worse, got[c.worse].p99)
		}
	}
	// With one cluster there is nothing to choose but pods, and both pick them as weighted does.
	for _, name := range []string{"aws-gig", "spill"} {
		if got[name].p99 != got["weighted"].p99 || got[name].mean != got["weighted"].mean {
			t.Errorf("%s differs from weighted in one cluster", name)
		}
	}
}

// TestOracleIsNoWorse: what knows everything loses to none on the worlds that it should be a reference
// for, but for what chance may do.
func TestOracleIsNoWorse(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	t.Parallel()
	for _, c := range []struct {
		name string
		spec func() *world.Spec
		load workload.Spec
	}{
		{"uniform", func() *world.Spec { return one(4, 400_000) }, uniform(40, 1500)},
		{"mixed GPUs", mixed, uniform(34, 2000)},
		{"shared prefixes that fit", func() *world.Spec { return one(4, 200_000) }, shared(24, 1200, 60)},
		{"shared prefixes that do not", func() *world.Spec { return one(4, 200_000) }, shared(16, 1200, 150)},
		{"three regions", three, uniform(80, 1800, everywhere...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			known := play(t, c.spec(), c.load, "oracle", Options{})
			for _, name := range blind() {
				other := play(t, c.spec(), c.load, name, Options{})
				if known.mean > other.mean*105/100 || known.p99 > other.p99*105/100 {
					t.Errorf("mean %v and P99 %v, of %s %v and %v", known.mean, known.p99, name, other.mean, other.p99)
				}
			}
		})
	}
}

func TestPrefixPoliciesFindPrompts(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	none := play(t, one(4, 200_000), shared(12, 1200, 60), "random", Options{}).hits
	for _, name := range []string{"prefix-hash", "weighted", "aws-gig", "spill", "greedy", "oracle"} {
		if got := play(t, one(4, 200_000), shared(12, 1200, 60), name, Options{}).hits; got < 0.9 || none > 0.6 {
			t.Errorf("%s finds %.0f %% of prompts in caches, random %.0f %%", name, 100*got, 100*none)
		}
	}
}

// TestResidencyInARun: nobody is served abroad, unless asked for.
func TestResidencyInARun(t *testing.T) {
	spec := three()
	spec.Tenants = []world.Tenant{{ID: "hospital", Residency: []string{"eu"}}}
	load := uniform(30, 600, everywhere...)
	load.Mix.Tenants = []workload.Share[fleet.TenantID]{{Value: "hospital"}, {Value: "shop"}}
	for _, name := range Names() {
		for _, anywhere := range []bool{false, true} {
			f := play(t, spec, load, name, Options{NoResidency: anywhere})
			abroad := 0
			for _, x := range f.result.Records {
				if x.Abroad {
					abroad++
				}
			}
			if f.failed > 0 || (abroad > 0) != anywhere {
				t.Errorf("%s, no residency %v: %d served abroad, %d failed", name, anywhere, abroad, f.failed)
			}
		}
	}
}

// TestRegionLost: what was under way there is lost, and after that all goes elsewhere.
func TestRegionLost(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	spec := three()
	spec.Warmup = 0
	spec.Events = []world.Event{{At: 20 * time.Second, Kind: world.Lost, Region: "ap-northeast-1"}}
	for _, name := range Names() {
		f := play(t, spec, uniform(25, 1000, everywhere...), name, Options{})
		late := 0
		for _, x := range f.result.Records {
			if x.At > 30*time.Second && x.End != world.OK {
				late++
			}
		}
		if late > 0 || f.failed > 40 {
			t.Errorf("%s: %d failed, %d of them ten seconds later", name, f.failed, late)
		}
	}
}

func TestSameSeedSameRun(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, name := range Names() {
		a := play(t, three(), uniform(60, 700, everywhere...), name, Options{})
		b := play(t, three(), uniform(60, 700, everywhere...), name, Options{})
		if !slices.Equal(a.result.Records, b.result.Records) {
			t.Errorf("%s: two runs with the same seed differ", name)
		}
	}
}

// TestSearchHelps: on a fleet where distance decides, the weights that are found beat the even ones, and the guard the usual.
func TestSearchHelps(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	load := uniform(75, 900, everywhere...)
	score := func(f figures) float64 { return f.mean.Seconds() }
	best, trials, err := Search(t.Context(), "aws-gig", Options{}, 25, func(_ context.Context, o Options) (float64, error) {
		return score(play(t, three(), load, "aws-gig", o)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if best.Score > trials[0].Score*0.97 {
		t.Errorf("the best of %d scores %v, the defaults %v", len(trials), best.Score, trials[0].Score)
	}
	if again := score(play(t, three(), load, "aws-gig", Options{Values: best.Values})); again != best.Score {
		t.Errorf("what scored %v scores %v", best.Score, again)
	}
}
