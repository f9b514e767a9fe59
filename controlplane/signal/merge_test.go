package signal

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/forward/nodepb"
)

// exchange hands everything that nodes know of their own routers to all the others, late.
func exchange(nodes []*clock, late time.Duration) {
	var sent []*nodepb.RouterObservation
	for i, n := range nodes {
		for _, o := range n.Local(fleet.NodeID(fmt.Sprintf("n%d", i))) {
			sent = append(sent, proto.CloneOf(o))
		}
	}
	for _, n := range nodes {
		n.pass(late)
	}
	for i, n := range nodes {
		own := fmt.Sprintf("n%d", i)
		n.Merge(slices.DeleteFunc(slices.Clone(sent), func(o *nodepb.RouterObservation) bool { return o.GetNodeId() == own }), n.now)
	}
}

// After an exchange every node sees the same fleet, whichever node routers are connected to.
func TestNodesAgreeAfterAnExchange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := []*clock{newClock(), newClock(), newClock()}
		for second := range rapid.IntRange(1, 12).Draw(t, "seconds") {
			for r := range 4 {
				at := rapid.IntRange(0, 2).Draw(t, "node") // routers may move between nodes
				for i, n := range nodes {
					if i != at {
						n.Drop(fleet.NodeID(fmt.Sprintf("n%d", i)), fleet.RouterID(fmt.Sprintf("r%d", r)))
					}
				}
				n := nodes[at]
				n.Put(Observation{
					Node:  fleet.NodeID(fmt.Sprintf("n%d", at)),
					Hello: &routerpb.Hello{RouterId: fmt.Sprintf("r%d", r), Region: fmt.Sprintf("region%d", r%2)},
					Report: &routerpb.Report{
						AtUnixMs: n.now.UnixMilli(), WindowMs: 1000, Requests: uint64(second),
						Demand:   []*routerpb.DemandSignal{{Model: "m", Class: "interactive", WorkPerS: float64(10 * second)}},
						Clusters: []*routerpb.ClusterSignal{{Cluster: "c", Model: "m", Scraped: r == 0, Requests: uint64(r), CapacityWork: 100}},
					},
					Received: n.now, Connected: true,
				})
			}
			exchange(nodes, 20*time.Millisecond)
			for _, n := range nodes {
				n.pass(980 * time.Millisecond)
			}
		}
		want := nodes[0].look()
		if len(want.Routers) != 4 {
			t.Fatalf("%d routers", len(want.Routers))
		}
		for i, n := range nodes[1:] {
			got := n.look()
			for j, o := range got.Routers {
				if o.Node != want.Routers[j].Node || !proto.Equal(o.Report, want.Routers[j].Report) {
					t.Fatalf("node %d has %v of %s, node 0 %v", i+1, o.Report, o.Router(), want.Routers[j].Report)
				}
			}
			for _, region := range []fleet.RegionID{"region0", "region1"} {
				a, b := want.Demand("m", "interactive", region).WorkPerS, got.Demand("m", "interactive", region).WorkPerS
				// An exchange is late by some ms, which an average over 15 s hardly sees.
				if d := a - b; d > 0.06*a+0.1 || -d > 0.06*a+0.1 {
					t.Fatalf("demand of %s is %v on node 0 and %v on node %d", region, a, b, i+1)
				}
			}
			if a, b := want.Capacity("c", "m"), got.Capacity("c", "m"); a != b {
				t.Fatalf("capacity is %v and %v", a, b)
			}
		}
	})
}

func TestAForgedAgeIsTakenForNow(t *testing.T) {
	c := newClock()
	c.Merge([]*nodepb.RouterObservation{{
		Hello: &routerpb.Hello{RouterId: "r", Region: "us"}, Report: &routerpb.Report{AtUnixMs: 1}, AgeMs: -5000, NodeId: "n2",
	}}, c.now)
	if got := c.look().Routers[0].Age(c.now); got != 0 {
		t.Errorf("age is %s", got)
	}
	c.Merge([]*nodepb.RouterObservation{{NodeId: "n2"}, nil}, c.now) // without a hello: nothing
	if got := len(c.look().Routers); got != 1 {
		t.Errorf("%d routers", got)
	}
}

func TestReportsOfOneRouterAreBounded(t *testing.T) {
	c := newClock()
	for range 10 * maxReports {
		c.pass(10 * time.Millisecond)
		c.report("us", func(r *routerpb.Report) { r.Requests = 1 })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := len(c.routers["r-us"].recent); got > maxReports {
		t.Errorf("%d reports are kept", got)
	}
}
