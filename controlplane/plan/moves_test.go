package plan

import (
	"fmt"
	"testing"

	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
)

// weighing is a table of one model and class, with the shares of clusters by source: "us a=0.5 b=0.5".
func weighing(lists ...map[string]map[string]float64) *routerpb.Table {
	t := &routerpb.Table{}
	for _, list := range lists {
		for source, weights := range list {
			w := &routerpb.Weights{Model: "m", Class: "interactive", Source: source}
			for c, share := range weights {
				w.Clusters = append(w.Clusters, &routerpb.ClusterWeight{Cluster: c, Weight: share})
			}
			t.Weights = append(t.Weights, w)
		}
	}
	return t
}

func TestMovesTellWhatDiffers(t *testing.T) {
	before := weighing(map[string]map[string]float64{"us": {"a": 0.5, "b": 0.5}, "eu": {"b": 1}, "ap": {"c": 2}})
	after := weighing(map[string]map[string]float64{"us": {"a": 0.25, "b": 0.5, "d": 0.25}, "eu": {"b": 1.00001}, "sa": {"a": 1}})
	got := fmt.Sprintf("%+v", Moves(before, after, signal.Snapshot{}))
	want := "[{Model:m Class:interactive Source:ap WorkPerS:0 Clusters:[{Cluster:c From:1 To:0}]}" +
		" {Model:m Class:interactive Source:sa WorkPerS:0 Clusters:[{Cluster:a From:0 To:1}]}" +
		" {Model:m Class:interactive Source:us WorkPerS:0 Clusters:[{Cluster:a From:0.5 To:0.25} {Cluster:d From:0 To:0.25}]}]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if same := Moves(before, before, signal.Snapshot{}); same == nil || len(same) > 0 {
		t.Errorf("a table differs from itself: %+v", same)
	}
	if fresh := Moves(nil, after, signal.Snapshot{}); len(fresh) != 3 {
		t.Errorf("of a first table: %+v", fresh)
	}
	if none := Moves(nil, nil, signal.Snapshot{}); none == nil || len(none) > 0 {
		t.Errorf("of none: %+v", none)
	}
}

func TestTotalsGoByTraffic(t *testing.T) {
	b := newBench(t)
	b.demand["us"] = map[string]float64{"m": 3000}
	b.demand["eu"] = map[string]float64{"m": 1000}
	before := weighing(map[string]map[string]float64{"us": {"us-a": 1}, "eu": {"eu-a": 1}})
	after := weighing(map[string]map[string]float64{"us": {"us-a": 1}, "eu": {"eu-a": 0.5, "us-a": 0.5}})
	if got := fmt.Sprint(Totals(before, after, signal.Snapshot{})); got != "[{eu-a 0.5 0.25} {us-a 0.5 0.75}]" {
		t.Errorf("without reports all sources count alike: %s", got)
	}
	b.report()
	signals := b.signals.Snapshot(b.now)
	if got := fmt.Sprint(Totals(before, after, signals)); got != "[{eu-a 0.25 0.125} {us-a 0.75 0.875}]" {
		t.Errorf("by traffic: %s", got)
	}
	moves := Moves(before, after, signals)
	if len(moves) != 1 || moves[0].Source != "eu" || moves[0].WorkPerS < 999 || moves[0].WorkPerS > 1001 {
		t.Errorf("moves %+v", moves)
	}
	if got := Totals(nil, nil, signals); got == nil || len(got) > 0 {
		t.Errorf("of none: %v", got)
	}
}

// What is told of a real plan is what the two tables say.
func TestADrainMovesEverythingAway(t *testing.T) {
	b := newBench(t)
	b.demand["us"] = map[string]float64{"m": 9000}
	b.report()
	in := func() Input {
		return Input{Resources: b.written, Signals: b.signals.Snapshot(b.now), Previous: b.table, Now: b.now, Warm: true}
	}
	b.table = Compute(in()).Table
	b.table.Ref = &routerpb.TableRef{Revision: 7}
	before := b.table
	b.cluster("us-a", "us", b.capacity["us-a"], "drained: true")
	after := Compute(in()).Table
	moved := false
	for _, c := range Totals(before, after, b.signals.Snapshot(b.now)) {
		if c.Cluster == "us-a" {
			moved = c.From > 0.3 && c.To == 0
		}
	}
	if !moved {
		t.Errorf("totals %+v", Totals(before, after, b.signals.Snapshot(b.now)))
	}
}
