package workload_test

import (
	"fmt"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/workload"
)

// Two clients ask, get answers after two seconds, think for one and ask again.
func ExampleSource() {
	spec := workload.SharedPrefix{
		Traffic: workload.Traffic{
			Seed:     1,
			Arrivals: workload.Arrivals{Clients: 2, Think: workload.Delays{Fixed: time.Second}},
			Requests: 4,
		},
		Prefix: workload.Lengths{Fixed: 800}, Suffix: workload.Lengths{Fixed: 50},
	}
	source, err := spec.Source()
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		r, ok := source.Next()
		if !ok {
			break
		}
		fmt.Printf("request %d at %v, %d tokens, %d of them shareable\n", r.ID, r.At, r.PromptTokens, 16*len(r.Blocks))
		source.Done(r.ID, r.At+2*time.Second, true)
	}
	fmt.Println("over:", source.Ended())
	// Output:
	// request 1 at 0s, 850 tokens, 800 of them shareable
	// request 2 at 0s, 850 tokens, 800 of them shareable
	// request 3 at 3s, 850 tokens, 800 of them shareable
	// request 4 at 3s, 850 tokens, 800 of them shareable
	// over: true
}

// A trace is read along the way; what is wrong with it comes at the end.
func ExampleMooncake() {
	trace, err := workload.Mooncake(strings.NewReader(`{"timestamp": 0, "input_length": 1024, "output_length": 20, "hash_ids": [0, 1]}
{"timestamp": 2000, "input_length": 1600, "output_length": 20, "hash_ids": [0, 1, 2, 3]}
{"timestamp": 1000, "input_length": 600, "output_length": 20, "hash_ids": [0, 4]}
`), workload.TraceOptions{Speedup: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	stats, err := workload.Measure(trace, 1000, 0)
	fmt.Printf("%d requests in %v, %.0f %% could come from a cache\n", stats.Requests, stats.Span, 100*stats.Hit)
	fmt.Println(err)
	// Output:
	// 2 requests in 1s, 39 % could come from a cache
	// Mooncake trace, line 3: timestamp 1000 is before that of the line above, 2000
}

// Several kinds of traffic go side by side.
func ExampleMerge() {
	chat := workload.Sessions{Traffic: workload.Traffic{Seed: 1, Arrivals: workload.Arrivals{Rate: 2}, Duration: time.Hour}}
	jobs := workload.Batch{
		Traffic: workload.Traffic{Seed: 2, Arrivals: workload.Arrivals{Rate: 0.01}, Duration: time.Hour},
		Mix:     workload.Mix{Tenants: []workload.Share[fleet.TenantID]{{Value: "initech"}}, Priorities: []workload.Share[int32]{{Value: -10}}},
	}
	var sources []workload.Source
	for _, spec := range []workload.Spec{chat, jobs} {
		s, err := spec.Source()
		if err != nil {
			fmt.Println(err)
			return
		}
		sources = append(sources, s)
	}
	stats, err := workload.Measure(workload.Merge(sources...), 1e6, time.Second)
	for _, part := range stats.Tenants {
		fmt.Printf("%q has a request in %v\n", part.Name, part.Requests > 0)
	}
	fmt.Println(stats.Sessions > 6000, err)
	// Output:
	// "" has a request in true
	// "initech" has a request in true
	// true <nil>
}
