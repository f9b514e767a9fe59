package bound

import (
	"math"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/world"

	"pgregory.net/rapid"
)

func twoRegions() *world.Spec {
	spec := &world.Spec{
		Regions: []world.Region{{ID: "us-east-1", Zone: "us"}, {ID: "eu-west-1", Zone: "eu"}},
		Models:  []world.Model{{ID: "llama-3.1-8b", OutputWeight: 2}},
		Tenants: []world.Tenant{{ID: "hospital", Residency: []string{"eu"}}},
	}
	for i, price := range []int64{3_000_000, 6_000_000} {
		spec.Clusters = append(spec.Clusters, world.Cluster{
			ID: fleet.ClusterID("c" + spec.Regions[i].ID), Region: spec.Regions[i].ID, Model: "llama-3.1-8b",
			Pods: []world.Pods{{Class: "h100", Count: 2, PriceMicroUSD: price}},
		})
	}
	return spec.WithDefaults()
}

func TestWorkOfAResult(t *testing.T) {
	res := &world.Result{
		Spec: twoRegions(), Tenants: []fleet.TenantID{"hospital", "shop"},
		Records: []world.Record{
			{At: time.Minute, Cluster: 1, Prompt: 1000, Cached: 400, Output: 50, Tenant: 0},
			{At: time.Minute, Cluster: 1, Prompt: 100, Output: 10, Tenant: 1},
			{At: time.Minute + time.Second, Cluster: -1, Prompt: 9999, Tenant: 1},
			{At: 3 * time.Minute, Cluster: 0, Prompt: 10, Output: 1, Tenant: 1},
		},
	}
	run := FromResult(res, time.Minute)
	if len(run.Intervals) != 3 || len(run.Intervals[1].Demands) != 0 {
		t.Fatalf("intervals are %+v, want three, the second empty", run.Intervals)
	}
	first := run.Intervals[0].Demands
	if len(first) != 2 || first[0].Work != 700 || first[1].Work != 120 {
		t.Errorf("the first minute's work is %+v, want 600 + 2 × 50 and 100 + 2 × 10", first)
	}
	if len(first[0].May) != 1 || first[0].May[0] != 1 || len(first[1].May) != 2 {
		t.Errorf("the hospital may use %v, the shop %v", first[0].May, first[1].May)
	}
	if run.Served[0] != 12 || run.Served[1] != 820 {
		t.Errorf("served %v, want 12 and 820", run.Served)
	}
	pod := res.Spec.Clusters[0].Pods[0].Options.Profile
	if got, want := run.Clusters[0].Rate, 2*pod.PrefillRate(1); math.Abs(got-want) > 1e-9 {
		t.Errorf("two pods do %v a second, want %v", got, want)
	}
	if run.Clusters[0].MicroUSD != 6_000_000 || run.Clusters[1].MicroUSD != 12_000_000 {
		t.Errorf("prices are %d and %d", run.Clusters[0].MicroUSD, run.Clusters[1].MicroUSD)
	}
	bill, err := Cost(run.Clusters, run.Intervals)
	if err != nil || bill.Served[1] != 700 || bill.Served[0] != 132 {
		t.Errorf("the bound is %+v, %v: want only the hospital's work in the dear region", bill, err)
	}
}

func TestPricesOfTheRun(t *testing.T) {
	res := &world.Result{
		Spec: twoRegions(), Records: []world.Record{{Prompt: 1}},
		Pods: [][]world.PodTotal{{{Alive: time.Hour, MicroUSD: 3_000_000}, {Alive: time.Hour, MicroUSD: 9_000_000}}},
	}
	if got := FromResult(res, time.Minute).Clusters[0].MicroUSD; got != 12_000_000 {
		t.Errorf("two pods of which one cost three times as much: %d an hour, want 12 dollars", got)
	}
}

func TestAnEmptyResult(t *testing.T) {
	for _, every := range []time.Duration{0, time.Minute} {
		run := FromResult(&world.Result{Spec: twoRegions()}, every)
		if len(run.Clusters) != 2 || run.Intervals != nil {
			t.Errorf("%+v", run)
		}
	}
}

// TestNoRunIsBelowItsBound: however much more than its rate a cluster has done, as long as residency was
// kept.
func TestNoRunIsBelowItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		res := &world.Result{Spec: twoRegions(), Tenants: []fleet.TenantID{"hospital", "shop"}}
		at := time.Duration(0)
		for range rapid.IntRange(1, 30).Draw(t, "records") {
			at += time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second
			tenant := rapid.Int32Range(0, 1).Draw(t, "tenant")
			res.Records = append(res.Records, world.Record{
				At: at, Tenant: tenant, Cluster: max(1-tenant, rapid.Int32Range(-1, 1).Draw(t, "cluster")),
				Prompt: rapid.Int32Range(1, 5_000_000).Draw(t, "prompt"), Output: rapid.Int32Range(0, 1000).Draw(t, "output"),
			})
		}
		run := FromResult(res, 30*time.Second)
		bill, err := Cost(run.Clusters, run.Intervals)
		if err != nil {
			t.Fatal(err)
		}
		if cost := Price(run.Clusters, run.Served); bill.MicroUSD > cost || bill.Unserved != 0 {
			t.Fatalf("the run cost %d, the bound is %+v", cost, bill)
		}
	})
}
