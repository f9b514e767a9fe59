package ours

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/sim/rival"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

const model = "llama-3.1-8b"

// fleetOf is regions with a cluster of pods each, as many as are given.
func fleetOf(pods ...int) *world.Spec {
	s := &world.Spec{Name: "test", Models: []world.Model{{ID: model}}}
	for i, n := range pods {
		r := []fleet.RegionID{"us", "eu", "ap", "sa"}[i]
		s.Regions = append(s.Regions, world.Region{ID: r})
		s.Clusters = append(s.Clusters, world.Cluster{
			ID: fleet.ClusterID(r + "-a"), Region: r, Model: model,
			Pods: []world.Pods{{Class: "a100-80", Count: n, PriceMicroUSD: 4e6}},
		})
	}
	return s
}

// run plays a workload.
func run(t testing.TB, spec *world.Spec, source workload.Source, p world.Policy, o world.Options) *world.Result {
	t.Helper()
	r, err := world.Run(t.Context(), spec, source, p, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// steady is requests of equal size at a rate, for so long, from regions by weight, of one tenant; any if
// they are empty.
func steady(t testing.TB, rate float64, last time.Duration, tenant fleet.TenantID, priority int32, from ...workload.Origin) workload.Source {
	t.Helper()
	mix := workload.Mix{Priorities: []workload.Share[int32]{{Value: priority}}}
	if tenant != "" {
		mix.Tenants = []workload.Share[fleet.TenantID]{{Value: tenant}}
	}
	s, err := workload.Uniform{
		Traffic: workload.Traffic{Seed: 1, Duration: last, Arrivals: workload.Arrivals{Rate: rate}, Regions: from}, Mix: mix,
	}.Source()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// count of the requests that came within a time and ended each way.
func count(r *world.Result, from, to time.Duration) (by [world.GaveUp + 1]int) {
	for i := range r.Records {
		if at := r.Records[i].At; at >= from && at < to {
			by[r.Records[i].End]++
		}
	}
	return by
}

const forever = time.Duration(1 << 62)

// share of the requests that came within a time and were answered by a cluster.
func share(r *world.Result, cluster int32, from, to time.Duration) float64 {
	n, all := 0.0, 0.0
	for i := range r.Records {
		if rec := &r.Records[i]; rec.At >= from && rec.At < to && rec.End == world.OK {
			all++
			if rec.Cluster == cluster {
				n++
			}
		}
	}
	return n / max(all, 1)
}

// median time to the first token.
func median(r *world.Result) time.Duration {
	var all []time.Duration
	for i := range r.Records {
		if rec := &r.Records[i]; rec.End == world.OK {
			all = append(all, rec.First-rec.At)
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// hits is the part of prompt tokens that were cached.
func hits(r *world.Result) float64 {
	cached, prompt := 0.0, 0.0
	for i := range r.Records {
		if rec := &r.Records[i]; rec.End == world.OK {
			cached, prompt = cached+float64(rec.Cached), prompt+float64(rec.Prompt)
		}
	}
	return cached / prompt
}

// quick is the default class with failovers that take a twentieth of their time.
func quick(change func(*policy.TrafficPolicySpec)) []*policy.Resource {
	spec := &policy.TrafficPolicySpec{Failover: &policy.FailoverSpec{TimeScale: 0.05}}
	if change != nil {
		change(spec)
	}
	return []*policy.Resource{written(policy.KindTrafficPolicy, "quick", 1, spec)}
}

func TestAllIsAnsweredWhereThereIsRoom(t *testing.T) {
	r := run(t, fleetOf(2, 2, 2), steady(t, 30, 20*time.Second, "", 50), New(Options{}), world.Options{Seed: 1})
	if by := count(r, 0, forever); by[world.OK] != len(r.Records) || len(r.Records) < 500 {
		t.Errorf("of %d requests ends %v", len(r.Records), by)
	}
}

func TestPromptsAreFoundAgainWhereTheyAre(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	spec := fleetOf(4)
	spec.Clusters[0].Pods[0].Options.Blocks = 40 * 4096 / 16
	load := func() workload.Source {
		s, err := workload.SharedPrefix{
			Traffic:  workload.Traffic{Seed: 1, Requests: 1500, Arrivals: workload.Arrivals{Clients: 10}},
			Prefixes: 100, Prefix: workload.Lengths{Fixed: 4000}, Suffix: workload.Lengths{Fixed: 100}, Output: workload.Lengths{Fixed: 50},
		}.Source()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	chance, err := rival.New("random", rival.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ours, random := run(t, spec, load(), New(Options{}), world.Options{Seed: 1}), run(t, spec, load(), chance, world.Options{Seed: 1})
	if a, b := hits(ours), hits(random); a < 2*b || a < 0.7 {
		t.Errorf("hits %.2f, by chance %.2f", a, b)
	}
	if a, b := median(ours), median(random); a > b/2 {
		t.Errorf("median first token after %v, by chance %v", a, b)
	}
}

func TestEqualSeedsGiveEqualResults(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	play := func(seed uint64) []byte {
		spec := fleetOf(2, 2, 2)
		spec.Regions[0].Routers, spec.Jitter, spec.Scrape.Loss, spec.Tell.Loss = 2, 0.2, 0.05, 0.1
		spec.Tenants = []world.Tenant{{ID: "acme"}, {ID: "globex", Residency: []string{"eu", "ap"}}}
		spec.Quotas = []world.Quota{{Tenant: "acme", Tokens: 400_000}}
		spec.Events = []world.Event{
			{At: 8 * time.Second, For: 10 * time.Second, Kind: world.Lost, Cluster: "eu-a"},
			{At: 12 * time.Second, For: 5 * time.Second, Kind: world.Lost, Region: "ap"},
			{At: 20 * time.Second, Kind: world.PodLoss, Cluster: "us-a", Pod: 1},
			{At: 5 * time.Second, Kind: world.ScaleOut, Cluster: "us-a", Count: 2},
			{At: 15 * time.Second, For: 5 * time.Second, Kind: world.NoQuotas},
			{At: 15 * time.Second, For: 3 * time.Second, Kind: world.NoLeader},
		}
		s, err := workload.Sessions{
			Traffic: workload.Traffic{Seed: 3, Duration: 40 * time.Second, Arrivals: workload.Arrivals{Rate: 12}}, Systems: 5,
			Mix:   workload.Mix{Tenants: []workload.Share[fleet.TenantID]{{Value: "acme"}, {Value: "globex"}, {Value: "other"}}},
			Think: workload.Delays{Mean: 2 * time.Second, P99: 10 * time.Second},
		}.Source()
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, spec, s, New(Options{Resources: quick(nil)}), world.Options{Seed: seed, Explain: func(id uint64) bool { return id%50 == 0 }})
		out, err := json.Marshal([]any{r.Records, r.Series, r.Pods, r.Explained, r.Ended, r.Events})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := play(1)
	for range 3 {
		if !bytes.Equal(play(1), first) {
			t.Fatal("the same seed gives another result")
		}
	}
	if bytes.Equal(play(2), first) {
		t.Error("another seed gives the same result")
	}
}

func TestFixedWeightsAreKeptTo(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	spec := fleetOf(4, 4)
	p := New(Options{Fixed: map[fleet.ClusterID]float64{"us-a": 1, "eu-a": 3}})
	r := run(t, spec, steady(t, 40, 50*time.Second, "", 50, workload.Origin{Region: "us"}), p, world.Options{Seed: 1})
	if got := share(r, 1, 0, forever); got < 0.70 || got > 0.80 {
		t.Errorf("%.2f went to the one of weight 3 in 4", got)
	}
	w, ok := p.(world.Weigher)
	if !ok || !slices.Equal(w.Weights(0), []float64{0.25, 0.75}) {
		t.Error("it tells other weights")
	}
	for _, row := range r.Series.Weights {
		for _, v := range row {
			if v != 0.25 && v != 0.75 {
				t.Fatalf("weights over time %v", row)
			}
		}
	}
}

func TestTrafficStaysAtHomeWhereThereIsRoom(t *testing.T) {
	r := run(t, fleetOf(4, 4), steady(t, 10, 30*time.Second, "", 50, workload.Origin{Region: "us"}), New(Options{}), world.Options{Seed: 1})
	if got := share(r, 0, 0, forever); got < 0.95 {
		t.Errorf("%.2f is answered at home", got)
	}
	if got := median(r); got > 90*time.Millisecond { // a way to another region and back takes 100 ms
		t.Errorf("first token after %v", got)
	}
}

func TestOverloadSpills(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	spec := fleetOf(1, 6)
	r := run(t, spec, steady(t, 40, time.Minute, "", 50, workload.Origin{Region: "us"}), New(Options{}), world.Options{Seed: 1})
	if by := count(r, 0, forever); by[world.OK] < len(r.Records)*99/100 {
		t.Errorf("ends %v", by)
	}
	if got := share(r, 1, 30*time.Second, forever); got < 0.5 {
		t.Errorf("%.2f went abroad, and home takes a third at most", got)
	}
}

// Where all is full the lowest waits in vain, and the highest does not.
func TestHigherPrioritiesGoFirst(t *testing.T) {
	spec := fleetOf(1)
	spec.Clusters[0].Pods[0].Options.MaxSequences = 8
	s, err := workload.Uniform{
		Traffic: workload.Traffic{Seed: 1, Duration: 90 * time.Second, Arrivals: workload.Arrivals{Rate: 12}},
		Mix:     workload.Mix{Priorities: []workload.Share[int32]{{Value: 100}, {Value: -10, Weight: 3}}},
	}.Source()
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, spec, s, New(Options{}), world.Options{Seed: 1})
	served, all := map[int32]float64{}, map[int32]float64{}
	var queued time.Duration
	for i := range r.Records {
		rec := &r.Records[i]
		all[rec.Priority]++
		queued = max(queued, rec.Queued)
		if rec.End == world.OK {
			served[rec.Priority]++
		}
	}
	if top := served[100] / all[100]; top < 0.97 {
		t.Errorf("%.2f of the highest are answered", top)
	}
	if low := served[-10] / all[-10]; low > 0.8 || queued < 9*time.Second {
		t.Errorf("%.2f of the lowest are answered, and the longest wait was %v", low, queued)
	}
	if by := count(r, 0, forever); by[world.Shed] == 0 || by[world.OK]+by[world.Shed] != len(r.Records) {
		t.Errorf("ends %v", by)
	}
}

func TestMoneyCountsWhereThePolicySays(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	far := func(cost float64, events ...world.Event) float64 {
		spec := fleetOf(4, 4)
		spec.RTT = map[[2]fleet.RegionID]time.Duration{{"us", "eu"}: 80 * time.Millisecond}
		spec.Clusters[0].Pods[0].PriceMicroUSD, spec.Clusters[1].Pods[0].PriceMicroUSD = 2e6, 1e6
		spec.Events = events
		o := Options{Resources: quick(func(s *policy.TrafficPolicySpec) { s.CostPreference = cost })}
		r := run(t, spec, steady(t, 10, 4*time.Minute, "", 50, workload.Origin{Region: "us"}), New(o), world.Options{Seed: 1})
		return share(r, 1, 3*time.Minute, forever)
	}
	if got := far(0); got > 0.1 {
		t.Errorf("%.2f goes to the cheaper where money doesn't count", got)
	}
	if got := far(1); got < 0.9 {
		t.Errorf("%.2f goes to the cheaper where money counts", got)
	}
	if got := far(1, world.Event{At: 20 * time.Second, Kind: world.Price, Cluster: "eu-a", Factor: 10}); got > 0.7 {
		t.Errorf("%.2f goes to what was the cheaper until its price rose", got)
	}
}

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		run(b, fleetOf(7, 7, 7), steady(b, 240, 125*time.Second, "", 50), New(Options{}), world.Options{Seed: 1})
	}
}
