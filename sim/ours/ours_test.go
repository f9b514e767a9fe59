package ours

import (
	"testing"

	"anabranch/api/fleet"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// fleetOf is regions with a cluster of pods each, as many as are given.
func fleetOf(pods ...int) *world.Spec {
	s := &world.Spec{Name: "test", Models: []world.Model{{ID: "llama-3.1-8b"}}}
	for i, n := range pods {
		r := []fleet.RegionID{"us", "eu", "ap", "sa"}[i]
		s.Regions = append(s.Regions, world.Region{ID: r})
		s.Clusters = append(s.Clusters, world.Cluster{
			ID: fleet.ClusterID(r + "-a"), Region: r, Model: "llama-3.1-8b",
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

// steady is requests of equal size at a rate.
func steady(t testing.TB, requests int, rate float64) workload.Source {
	t.Helper()
	s, err := workload.Uniform{Traffic: workload.Traffic{
		Seed: 1, Requests: requests, Arrivals: workload.Arrivals{Rate: rate},
	}}.Source()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// count of the requests that ended each way.
func count(r *world.Result) (by [world.GaveUp + 1]int) {
	for i := range r.Records {
		by[r.Records[i].End]++
	}
	return by
}

func TestAllIsAnsweredWhereThereIsRoom(t *testing.T) {
	r := run(t, fleetOf(2, 2, 2), steady(t, 600, 30), New(Options{}), world.Options{Seed: 1})
	if by := count(r); by[world.OK] != 600 {
		t.Errorf("ends %v", by)
	}
}

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		run(b, fleetOf(7, 7, 7), steady(b, 30_000, 240), New(Options{}), world.Options{Seed: 1})
	}
}
