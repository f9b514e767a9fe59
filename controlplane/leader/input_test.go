package leader

import (
	"testing"
	"testing/synctest"
	"time"

	"anabranch/controlplane/plan"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
)

// What any node explains is what the leader does: planned from the same, nothing moves.
func TestOthersPlanFromWhatTheLeaderDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.lead()
		r.pass(20 * time.Second)
		in := Input(r.View(), r.signals.Snapshot(time.Now()))
		out := plan.Compute(in)
		if in.Previous == nil || !in.Warm || in.Frozen || out.Table == nil || out.Changed {
			t.Errorf("changed %v, %+v", out.Changed, plan.Moves(in.Previous, out.Table, signal.Snapshot{}))
		}
		for _, model := range in.Resources.List("Model") {
			if model.Metadata.Revision == 0 {
				t.Errorf("%s has no revision", model.Metadata.Name)
			}
		}
	})
	if in := Input(state.Empty(), signal.Snapshot{}); plan.Compute(in).Table != nil {
		t.Error("planned a table of nothing")
	}
}

// A leader that has not heard enough says that this is what holds the weights.
func TestALeaderThatIsNotWarmSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		input := func() plan.Input { return r.leader.Input(r.View(), r.signals.Snapshot(time.Now())) }
		if !input().Warm {
			t.Error("a node that does not lead has to take it that enough was heard")
		}
		r.lead()
		r.pass(20 * time.Second)
		r.end()
		synctest.Wait()
		for _, region := range []string{"ap", "eu", "us"} {
			r.mute[region] = true
		}
		r.pass(time.Minute)
		if !input().Warm {
			t.Error("not warm after its term")
		}
		r.lead()
		r.pass(3 * time.Second)
		if input().Warm {
			t.Error("warm at once")
		}
		r.pass(10 * time.Second) // that long it waits at most
		if !input().Warm {
			t.Error("not warm after 13 s")
		}
	})
}
