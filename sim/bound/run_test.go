package bound_test

import (
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/bound"
	"anabranch/sim/rival"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// TestRunsAgainstTheirBound plays policies that know no prices where one region is three times as dear:
// none is below its bound, who stays at home is above it by what the dear region's own work costs more,
// and a tenant's residency raises the bound.
func TestRunsAgainstTheirBound(t *testing.T) {
	spec := &world.Spec{
		Name: "prices", Models: []world.Model{{ID: "llama-3.1-8b"}}, Warmup: 2 * time.Second,
		Tenants: []world.Tenant{{ID: "hospital", Residency: []string{"eu-west-1"}}},
	}
	var from []workload.Origin
	for i, r := range []fleet.RegionID{"us-east-1", "eu-west-1"} {
		spec.Regions = append(spec.Regions, world.Region{ID: r})
		spec.Clusters = append(spec.Clusters, world.Cluster{
			ID: fleet.ClusterID("c-" + r), Region: r, Model: "llama-3.1-8b",
			Pods: []world.Pods{{Class: "h100", Count: 3, PriceMicroUSD: int64(1+2*i) * 2_000_000}},
		})
		from = append(from, workload.Origin{Region: r})
	}
	over := map[string]float64{}
	least := map[bool]int64{}
	for _, resident := range []bool{false, true} {
		load := workload.Uniform{
			Traffic: workload.Traffic{Seed: 1, Arrivals: workload.Arrivals{Rate: 25}, Requests: 1000, Regions: from},
			Prompt:  workload.Lengths{Fixed: 1500}, Output: workload.Lengths{Fixed: 50},
		}
		if resident {
			load.Mix.Tenants = []workload.Share[fleet.TenantID]{{Value: "hospital"}, {Value: "shop"}}
		}
		for _, name := range []string{"random", "spill", "greedy"} {
			policy, err := rival.New(name, rival.Options{})
			if err != nil {
				t.Fatal(err)
			}
			source, err := load.Source()
			if err != nil {
				t.Fatal(err)
			}
			res, err := world.Run(t.Context(), spec, source, policy, world.Options{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			run := bound.FromResult(res, 5*time.Second)
			bill, err := bound.Cost(run.Clusters, run.Intervals)
			if err != nil {
				t.Fatal(err)
			}
			cost := bound.Price(run.Clusters, run.Served)
			if bill.MicroUSD > cost || bill.Unserved != 0 || bill.MicroUSD == 0 {
				t.Errorf("%s: the run cost %d, the bound is %+v", name, cost, bill)
			}
			if !resident {
				over[name] = float64(cost) / float64(bill.MicroUSD)
			}
			least[resident] = bill.MicroUSD
		}
	}
	if over["spill"] < 1.7 || over["spill"] > 2.1 {
		t.Errorf("half of the work at three times the price is %.2f times the bound, want about 2", over["spill"])
	}
	if least[true] <= least[false] {
		t.Errorf("the bound is %d with residency and %d without", least[true], least[false])
	}
}
