package publish

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// drilling is a state whose table has a drill.
func drilling(t *testing.T, id uint64) *state.View {
	t.Helper()
	r := newReplica(t)
	r.apply(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "us"}}, Clusters: []*routerpb.Cluster{{Id: "us-a", Region: "us"}}, Drill: &routerpb.Drill{Id: id},
	}}}})
	if r.View().Table().GetDrill().GetId() != id {
		t.Fatalf("the table is %v", r.View().Table())
	}
	return r.View()
}

func TestWhatARouterSaysOfADrillHasBounds(t *testing.T) {
	view := drilling(t, 7)
	most := uint64(mostCount)
	sound := func() *routerpb.DrillSignal {
		return &routerpb.DrillSignal{
			Id: 7, Sequence: 3, ShiftedPpm: 10_000, Reverted: true, Scoped: 100, Away: 40, Shifted: 1, StreamsLeft: 2, Streams: 9, EjectedUnixMs: 5,
			ProtectedRequests: 8, ProtectedDenied: 1, PrefixTokens: 1000, CachedTokens: 700,
			Tiers: []*routerpb.TierSignal{{Tier: "top", Total: 10, Retried: 1, Shed: 1, Limited: 1, Lost: 1, Broken: 1, Ttft: []uint64{0, 5}}},
		}
	}
	with := func(change func(*routerpb.DrillSignal)) *routerpb.DrillSignal {
		d := sound()
		change(d)
		return d
	}
	for name, c := range map[string]struct{ says, kept *routerpb.DrillSignal }{
		"what may be":           {sound(), sound()},
		"nothing":               {nil, nil},
		"of another drill":      {with(func(d *routerpb.DrillSignal) { d.Id = 8 }), nil},
		"of no drill":           {with(func(d *routerpb.DrillSignal) { d.Id = 0 }), nil},
		"shifted more than all": {with(func(d *routerpb.DrillSignal) { d.ShiftedPpm = math.MaxUint32 }), with(func(d *routerpb.DrillSignal) { d.ShiftedPpm = drill.Whole })},
		"parts above the whole": {
			with(func(d *routerpb.DrillSignal) {
				d.Away, d.Shifted, d.StreamsLeft, d.ProtectedDenied, d.CachedTokens = 101, 102, 10, 9, 1001
			}),
			with(func(d *routerpb.DrillSignal) {
				d.Away, d.Shifted, d.StreamsLeft, d.ProtectedDenied, d.CachedTokens = 100, 100, 9, 8, 1000
			}),
		},
		"more than can be counted": {
			with(func(d *routerpb.DrillSignal) {
				d.Scoped, d.Streams, d.ProtectedRequests, d.PrefixTokens = math.MaxUint64, math.MaxInt64, math.MaxUint64, math.MaxUint64
			}),
			with(func(d *routerpb.DrillSignal) {
				d.Scoped, d.Streams, d.ProtectedRequests, d.PrefixTokens = most, mostCount, most, most
			}),
		},
		"less than nothing": {
			with(func(d *routerpb.DrillSignal) { d.Streams, d.StreamsLeft = -4, -2 }),
			with(func(d *routerpb.DrillSignal) { d.Streams, d.StreamsLeft = 0, 0 }),
		},
		"a tier that there is not, and one twice": {
			with(func(d *routerpb.DrillSignal) {
				d.Tiers = append(d.Tiers, &routerpb.TierSignal{Tier: "golden", Total: 1}, &routerpb.TierSignal{Tier: "top", Total: 5}, &routerpb.TierSignal{Tier: "batch", Total: 2})
			}),
			with(func(d *routerpb.DrillSignal) {
				d.Tiers = append(d.Tiers, &routerpb.TierSignal{Tier: "batch", Total: 2})
			}),
		},
		"a tier whose parts are more than it": {
			with(func(d *routerpb.DrillSignal) { d.Tiers[0].Lost, d.Tiers[0].Shed = 8, math.MaxUint64 }),
			with(func(d *routerpb.DrillSignal) { d.Tiers[0].Lost, d.Tiers[0].Shed, d.Tiers[0].Retried = 8, 0, 0 }),
		},
		"more buckets than there are": {
			with(func(d *routerpb.DrillSignal) { d.Tiers[0].Ttft = append(make([]uint64, drill.Buckets+9), 1) }),
			with(func(d *routerpb.DrillSignal) { d.Tiers[0].Ttft = make([]uint64, drill.Buckets) }),
		},
	} {
		said := &routerpb.Report{AtUnixMs: 1, Requests: 5, WindowMs: 1000, Drill: c.says, Brownout: 2, ClockUnixMs: 9}
		before, want := proto.CloneOf(said), proto.CloneOf(said)
		want.Drill = c.kept
		kept := rehearsed(said, view)
		if !proto.Equal(kept, want) || !proto.Equal(said, before) {
			t.Errorf("%s: kept %v, want %v", name, kept, want)
		}
		if same := proto.Equal(c.says, c.kept); same != (kept == said) {
			t.Errorf("%s: the report itself: %v", name, kept == said)
		}
	}
	if kept := rehearsed(&routerpb.Report{Drill: sound()}, drilling(t, 9)); kept.GetDrill() != nil {
		t.Errorf("of a drill of long ago it keeps %v", kept)
	}
}

func TestWhatARouterSaysOfOrdersHasBounds(t *testing.T) {
	view := drilling(t, 7)
	held := func(n int, text string) *routerpb.OrderSignal {
		out := &routerpb.OrderSignal{}
		for range n {
			out.Held = append(out.Held, &routerpb.HeldOrder{Id: "o", Kind: "freeze", Actor: text})
		}
		return out
	}
	for name, c := range map[string]struct {
		says, kept *routerpb.OrderSignal
		step, is   uint32
	}{
		"none":               {nil, nil, 0, 0},
		"as many as may be":  {held(mostHeld, "ann"), held(mostHeld, "ann"), 6, 6},
		"more":               {held(mostHeld+5, "ann"), held(mostHeld, "ann"), 1, 1},
		"texts without end":  {held(2, strings.Repeat("a", mostText+1)), held(0, ""), 1, 1},
		"a step beyond them": {held(1, "ann"), held(1, "ann"), 99, 6},
	} {
		said := &routerpb.Report{AtUnixMs: 1, Orders: c.says, Brownout: c.step}
		before := proto.CloneOf(said)
		kept := rehearsed(said, view)
		if !proto.Equal(kept, &routerpb.Report{AtUnixMs: 1, Orders: c.kept, Brownout: c.is}) || !proto.Equal(said, before) {
			t.Errorf("%s: kept %v", name, kept)
		}
	}
}

func TestReportsOfDrillsAreBoundOnTheirWayIn(t *testing.T) {
	r := newRig(t, nil)
	r.spread()
	x := r.join("r1", nil)
	x.say(&routerpb.FromRouter{Body: &routerpb.FromRouter_Report{Report: &routerpb.Report{AtUnixMs: 1, Drill: &routerpb.DrillSignal{Id: 4, Scoped: 9}}}})
	eventually(t, "the report is there", func() bool {
		o, ok := r.observed("r1")
		return ok && o.Report.GetAtUnixMs() == 1
	})
	if o, _ := r.observed("r1"); o.Report.GetDrill() != nil {
		t.Errorf("it is kept: %v", o.Report)
	}
}
