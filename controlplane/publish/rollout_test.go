package publish

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state/statepb"
)

// begin puts a rollout on its way, to router r1 of us first, of a table of its own.
func (r *rig) begin(t *routerpb.Table) uint64 {
	r.t.Helper()
	r.apply(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	for _, put := range []*statepb.Put{
		{Kind: "SafetyRule", Name: "s", Doc: []byte(`{"spec":{"rollout":{}}}`)},
		{Kind: "Region", Name: "us", Doc: []byte(`{"spec":{}}`)},
	} {
		r.apply(&statepb.Command{Op: &statepb.Command_Put{Put: put}})
	}
	t.Ref = nil
	r.apply(&statepb.Command{Op: &statepb.Command_StartRollout{StartRollout: &statepb.StartRollout{
		ConfigRevision: r.View().Config().Revision(), Table: t, Canary: "r1", Region: "us",
	}}})
	return r.View().Rollout().GetId()
}

func (r *rig) steer(s *statepb.SteerChange) {
	r.t.Helper()
	r.apply(&statepb.Command{Op: &statepb.Command_SteerChange{SteerChange: s}})
}

func TestEachRouterGetsTheTableThatItIsToHold(t *testing.T) {
	r := newRig(t, nil)
	r.commit(world(0))
	canary, neighbour, far := r.modern("r1", "us", nil), r.modern("r2", "us", nil), r.modern("r3", "eu", nil)
	at := map[*router]*routerpb.Table{}
	for _, x := range []*router{canary, neighbour, far} {
		at[x] = x.whole("")
	}
	next := func(x *router, want *routerpb.Table, region string) {
		t.Helper()
		at[x] = x.partly(at[x], "")
		if want := Slice(want, "us"); region == "us" && !proto.Equal(at[x], want) {
			t.Errorf("got %v, want %v", at[x].GetRef(), want.GetRef())
		}
		if at[x].GetRef().GetRevision() != want.GetRef().GetRevision() {
			t.Errorf("got %v, want %v", at[x].GetRef(), want.GetRef())
		}
	}
	id := r.begin(shifted("eu-g"))
	next(canary, r.View().FreshTable(), "us")
	moved := world(0) // a failover, on the side of all others
	moved.Clusters[0].HealthCap = 0
	r.commit(moved)
	next(neighbour, r.View().Table(), "us")
	next(far, r.View().Table(), "eu")
	r.steer(&statepb.SteerChange{Act: "advance", Rollout: id, Stage: "canary"})
	next(canary, r.View().FreshTable(), "us")
	next(neighbour, r.View().FreshTable(), "us")

	// One that comes later gets what it is to hold, whoever it is.
	late := r.modern("r4", "us", nil)
	if got := late.whole(""); got.GetRef().GetRevision() != r.View().FreshTable().GetRef().GetRevision() {
		t.Errorf("a router of the region that has just come gets %v", got.GetRef())
	}
	other := r.modern("r5", "eu", nil)
	if got := other.whole(""); got.GetRef().GetRevision() != r.View().Table().GetRef().GetRevision() {
		t.Errorf("a router of another region gets %v", got.GetRef())
	}

	r.steer(&statepb.SteerChange{Act: "return", Rollout: id})
	for _, x := range []*router{canary, neighbour, far} {
		next(x, r.View().Table(), "")
	}
	if !proto.Equal(at[canary].GetClusters()[0], moved.GetClusters()[0]) {
		t.Error("the canary is not back on the table of all others")
	}
}

func TestACanaryThatRefusesIsAskedAgainOnlyWithAnother(t *testing.T) {
	r := newRig(t, nil)
	r.commit(world(0))
	x := r.modern("r1", "us", nil)
	held := x.whole("")
	id := r.begin(shifted("eu-g"))
	x.partly(held, "weights_sum")
	eventually(t, "the refusal", func() bool {
		o, ok := r.observed("r1")
		return ok && o.Ack.GetCode() == "weights_sum"
	})
	r.steer(&statepb.SteerChange{Act: "return", Rollout: id})
	back := x.partly(held, "")
	if back.Ref, held.Ref = nil, nil; !proto.Equal(back, held) {
		t.Error("what comes back is not what it held")
	}
}
