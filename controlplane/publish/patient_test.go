package publish

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

// shedding is a table with all of its lists that sheds something.
func shedding() *routerpb.Table {
	t := organised()
	t.Weights = []*routerpb.Weights{
		{Model: "m", Class: "i", Source: "us", Clusters: []*routerpb.ClusterWeight{{Cluster: "u", Weight: 1}}, Shed: []*routerpb.Shed{{Priority: -10, Part: 0.5}}},
		{Model: "m", Class: "i", Source: "eu", Clusters: []*routerpb.ClusterWeight{{Cluster: "u", Weight: 1}}},
	}
	return t
}

func TestRoutersGetWhatIsShedIfTheyShed(t *testing.T) {
	s := &Server{o: Options{Now: time.Now}}
	for _, sheds := range []bool{true, false} {
		hello := &routerpb.Hello{RouterId: "r", Region: "us", Features: []routerpb.Feature{routerpb.Feature_FEATURE_LEASES, routerpb.Feature_FEATURE_DRILL}}
		want := shedding()
		if sheds {
			hello.Features = append(hello.Features, routerpb.Feature_FEATURE_SHED)
		} else {
			want.Weights[0].Shed = nil
		}
		full := shedding()
		if got := newSession(s, hello, nil).form.apply(full); !proto.Equal(got, want) {
			t.Errorf("sheds %v: %v", sheds, got)
		}
		if !proto.Equal(full, shedding()) {
			t.Error("the table was written to")
		}
	}
	for _, calm := range []*routerpb.Table{organised(), patient(shedding())} {
		if patient(calm) != calm {
			t.Error("a table that sheds nothing is made again")
		}
	}
}

// A list of the table that a later version adds must not be lost on the way to routers that don't shed.
func TestPatientTablesLackNothingElse(t *testing.T) {
	full, got := shedding().ProtoReflect(), patient(shedding()).ProtoReflect()
	for i := range full.Descriptor().Fields().Len() {
		f := full.Descriptor().Fields().Get(i)
		if !full.Has(f) || !got.Has(f) {
			t.Errorf("%s is there %v, and then %v", f.Name(), full.Has(f), got.Has(f))
		}
	}
	w := &routerpb.Weights{Model: "m", Class: "i", Source: "us", Clusters: []*routerpb.ClusterWeight{{Cluster: "u"}}, Shed: []*routerpb.Shed{{Part: 1}}}
	left := patient(&routerpb.Table{Weights: []*routerpb.Weights{w}}).GetWeights()[0].ProtoReflect()
	for i := range left.Descriptor().Fields().Len() {
		if f := left.Descriptor().Fields().Get(i); left.Has(f) == (f.Name() == "shed") {
			t.Errorf("weights have %s: %v", f.Name(), left.Has(f))
		}
	}
}

// What is shed reaches routers by delta, and is taken back by one.
func TestWhatIsShedComesByDelta(t *testing.T) {
	r := newRig(t, nil)
	with := func(part float64) *routerpb.Table {
		w := world(0)
		if part > 0 {
			for _, list := range w.Weights {
				list.Shed = []*routerpb.Shed{{Priority: -10, Part: part}}
			}
		}
		return w
	}
	r.commit(with(0))
	x := r.modern("r1", "us", nil)
	held := x.whole("")
	for _, part := range []float64{0.4, 1, 0} {
		next := r.commit(with(part))
		if held = x.partly(held, ""); !proto.Equal(held, Slice(next, "us")) || (len(held.GetWeights()[0].GetShed()) > 0) != (part > 0) {
			t.Fatalf("part %v: got %v", part, held)
		}
	}
}
