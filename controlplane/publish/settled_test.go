package publish

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

func TestRoutersGetTheDrillIfTheyHoldLeases(t *testing.T) {
	s := &Server{o: Options{Now: time.Now}}
	for _, holds := range []bool{true, false} {
		hello := &routerpb.Hello{RouterId: "r", Region: "us", Features: []routerpb.Feature{routerpb.Feature_FEATURE_LEASES}}
		want := organised()
		if holds {
			hello.Features = append(hello.Features, routerpb.Feature_FEATURE_DRILL)
		} else {
			want.Drill = nil
		}
		all := organised()
		if got := newSession(s, hello, nil).form.apply(all); !proto.Equal(got, want) {
			t.Errorf("holds %v: %v", holds, got)
		}
		if !proto.Equal(all, organised()) {
			t.Error("the table was written to")
		}
	}
	if quiet := settled(organised()); settled(quiet) != quiet {
		t.Error("a table without a drill is made again")
	}
}

// A list of the table that a later version adds must not be lost on the way to routers that hold no leases.
func TestSettledTablesLackNothingElse(t *testing.T) {
	all, got := shedding().ProtoReflect(), settled(shedding()).ProtoReflect()
	for i := range all.Descriptor().Fields().Len() {
		if f := all.Descriptor().Fields().Get(i); !all.Has(f) || got.Has(f) == (f.Name() == "drill") {
			t.Errorf("%s is there %v, and then %v", f.Name(), all.Has(f), got.Has(f))
		}
	}
}

// A region gets of a drill what its own requests would take.
func TestASliceHasTheDrillOfItsOwnRequests(t *testing.T) {
	all := world(3)
	all.Drill = &routerpb.Drill{Id: 12, Kind: "soft", Clusters: []string{"eu-g"}, Weights: []*routerpb.Weights{
		{Model: "m", Source: "eu", Clusters: []*routerpb.ClusterWeight{{Cluster: "us-e", Weight: 1}}},
		{Model: "m", Source: "us", Clusters: []*routerpb.ClusterWeight{{Cluster: "us-e", Weight: 1}}},
	}}
	before := proto.CloneOf(all)
	for region, lists := range map[string]int{"us": 1, "eu": 1, "ap": 0} {
		d := Slice(all, fleet.RegionID(region)).GetDrill()
		if len(d.GetWeights()) != lists || d.GetId() != 12 || d.GetClusters()[0] != "eu-g" {
			t.Errorf("%s has %v", region, d)
		}
		if lists == 1 && d.GetWeights()[0].GetSource() != region {
			t.Errorf("%s has the weights of %s", region, d.GetWeights()[0].GetSource())
		}
	}
	if !proto.Equal(all, before) {
		t.Error("the table was written to")
	}
}

// It reaches routers by delta as it begins and ends, and costs nothing while it goes on.
func TestADrillComesByDelta(t *testing.T) {
	r := newRig(t, nil)
	with := func(id uint64, to string) *routerpb.Table {
		w := shifted(to)
		if id > 0 {
			w.Drill = &routerpb.Drill{Id: id, Kind: "soft", Clusters: []string{"us-e"}, BaseSha256: make([]byte, 32), Weights: []*routerpb.Weights{
				{Model: "m", Class: "interactive", Source: "us", Clusters: []*routerpb.ClusterWeight{{Cluster: "eu-g", Weight: 1}}},
			}}
		}
		return w
	}
	r.commit(with(0, "us-e"))
	x, old := r.modern("r1", "us", nil), r.dial()
	m := hello("r2", nil)
	m.GetHello().Region = "us"
	old.say(m)
	held := x.whole("")
	old.whole("")
	for _, step := range []struct {
		id uint64
		to string
	}{{12, "us-e"}, {12, "eu-g"}, {13, "eu-g"}, {0, "eu-g"}} {
		next := r.commit(with(step.id, step.to))
		if held = x.partly(held, ""); !proto.Equal(held, Slice(next, "us")) || held.GetDrill().GetId() != step.id {
			t.Fatalf("drill %d: got %v", step.id, held)
		}
		if got := old.whole(""); got.GetDrill() != nil {
			t.Fatalf("an older router gets drill %v", got.GetDrill())
		}
	}
}
