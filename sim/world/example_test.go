package world_test

import (
	"context"
	"fmt"
	"time"

	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// spread is a policy that sends each request to the pod with the fewest of this router's own.
type spread struct{}

func (spread) Name() string                                             { return "spread" }
func (spread) Start(*world.Spec)                                        {}
func (spread) Route(*workload.Request, *world.View) world.Route         { return world.Route{Cluster: 0} }
func (spread) Sent(*world.Attempt, *world.View)                         {}
func (spread) First(*world.Attempt, *world.View)                        {}
func (spread) Ended(a *world.Attempt, how world.Outcome, v *world.View) {}
func (spread) Tick(*world.View)                                         {}
func (spread) Heard(*world.Heard, *world.View)                          {}

func (spread) Pick(_ *workload.Request, cluster, _ int, v *world.View) world.Pick {
	best := 0
	for i, pod := range v.Clusters[cluster].Pods {
		if !pod.Failing && pod.InFlight < v.Clusters[cluster].Pods[best].InFlight {
			best = i
		}
	}
	return world.Pick{Pod: best}
}

// One pod of four dies for a minute while a thousand requests come.
func ExampleRun() {
	spec := &world.Spec{
		Name:    "a pod dies",
		Regions: []world.Region{{ID: "us-east-1"}},
		Models:  []world.Model{{ID: "llama-3.1-8b"}},
		Clusters: []world.Cluster{{
			ID: "us-1", Region: "us-east-1", Model: "llama-3.1-8b",
			Pods: []world.Pods{{Class: "h100", Count: 4, PriceMicroUSD: 4_000_000}},
		}},
		Events: []world.Event{{Kind: world.PodLoss, Cluster: "us-1", Pod: 2, At: 20 * time.Second, For: time.Minute}},
	}
	source, err := workload.Uniform{Traffic: workload.Traffic{Seed: 1, Requests: 1000, Arrivals: workload.Arrivals{Rate: 10}}}.Source()
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := world.Run(context.Background(), spec, source, spread{}, world.Options{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	ends := map[string]int{}
	for _, r := range result.Records {
		ends[r.End.String()]++
	}
	fmt.Println(ends["ok"]+ends["cut"], "began to be answered; the dead pod was paid for less:",
		result.Pods[0][2].MicroUSD < result.Pods[0][1].MicroUSD)
	// Output: 1000 began to be answered; the dead pod was paid for less: true
}
