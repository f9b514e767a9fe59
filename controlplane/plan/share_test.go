package plan

import (
	"math"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
)

// list is the weights of model m from a region, of clusters a and b.
func list(source string, a, b float64) *routerpb.Weights {
	return &routerpb.Weights{Model: "m", Class: "interactive", Source: source, Clusters: []*routerpb.ClusterWeight{{Cluster: "a", Weight: a}, {Cluster: "b", Weight: b}}}
}

func TestThePartOfTrafficThatMoves(t *testing.T) {
	now := time.UnixMilli(1e12)
	asked := signal.New(func() time.Time { return now })
	for region, work := range map[string]float64{"us": 900, "eu": 100} {
		asked.Put(signal.Observation{
			Node: "n", Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region}, Received: now, Connected: true,
			Report: &routerpb.Report{AtUnixMs: 1, Demand: []*routerpb.DemandSignal{{Model: "m", Class: "interactive", WorkPerS: work}}},
		})
	}
	loaded := asked.Snapshot(now)
	table := func(lists ...*routerpb.Weights) *routerpb.Table { return &routerpb.Table{Weights: lists} }
	us, eu := list("us", 1, 0), list("eu", 0.5, 0.5)
	for name, tt := range map[string]struct {
		before, after *routerpb.Table
		signals       signal.Snapshot
		want          float64
	}{
		"nothing":                      {table(us, eu), table(us, eu), loaded, 0},
		"from no table":                {nil, table(us, eu), loaded, 0},
		"to no table":                  {table(us, eu), nil, loaded, 1},
		"the small region":             {table(us, eu), table(us, list("eu", 0, 1)), loaded, 0.05},
		"the large region":             {table(us, eu), table(list("us", 0, 1), eu), loaded, 0.9},
		"a part of the large one":      {table(us, eu), table(list("us", 0.75, 0.25), eu), loaded, 0.225},
		"all alike while idle":         {table(us, eu), table(list("us", 0, 1), eu), signal.Snapshot{}, 0.5},
		"a demand that is gone":        {table(us, eu), table(us), loaded, 0.1},
		"a demand that is new":         {table(us), table(us, eu), loaded, 0},
		"an answer to nobody any more": {table(us), table(&routerpb.Weights{Model: "m", Class: "interactive", Source: "us"}), loaded, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := MovedShare(tt.before, tt.after, tt.signals); math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
