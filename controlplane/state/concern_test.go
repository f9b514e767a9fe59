package state

import (
	"fmt"
	"testing"

	"anabranch/api/fleet"
	"anabranch/controlplane/state/statepb"
)

// heard is all of a view that sessions with routers go by.
func heard(v *View) string {
	ledger, account := v.ledger.proto(), v.account.Proto()
	out := fmt.Sprint(v.ClusterID(), v.Epoch(), v.EpochDue(), v.FeatureLevel(), v.LedgerRevision(), ledger.GetRuns(), account.GetRuns(), v.Drills(), v.OrdersGiven())
	for _, region := range []fleet.RegionID{"us", "eu", "nowhere"} {
		for _, router := range []fleet.RouterID{"r-us", "r-eu", "us-1", "eu-1"} {
			out += fmt.Sprintln(router, v.TableFor(router, region).GetRef())
		}
	}
	return out
}

func TestWhatRoutersAreToldOfConcernsThem(t *testing.T) {
	steps, concerned := 0, 0
	for format := 1; format <= Format; format++ {
		before := Empty()
		for i, cmd := range goldenLog(t, format) {
			v, _, err := Apply(before, uint64(2*i+1), cmd)
			if err != nil {
				t.Fatal(err)
			}
			concerns := v.ConcernsRouters(before)
			if !concerns && heard(v) != heard(before) {
				t.Errorf("format %d, command %d does not concern routers: %v", format, i+1, cmd)
			}
			if steps++; concerns {
				concerned++
			}
			before = v
		}
	}
	if concerned == 0 || concerned > steps*2/3 {
		t.Errorf("%d of %d commands concern routers", concerned, steps)
	}
	if !Empty().ConcernsRouters(nil) {
		t.Error("a first state does not concern them")
	}
}

func TestWhatRoutersNeverHearOfDoesNotConcernThem(t *testing.T) {
	h := start(t)
	for _, step := range []struct {
		name     string
		cmd      *statepb.Command
		concerns bool
	}{
		{"a region that is in no table yet", region("us", `{"zone":"us"}`, 0), false},
		{"a higher level", raise(2), true},
		{"the same level", raise(2), false},
		{"a table", command(&statepb.Publish{Table: table(1)}), true},
		{"the same table", command(&statepb.Publish{Table: table(1)}), false},
	} {
		before := h.View
		h.do(step.cmd)
		if got := h.ConcernsRouters(before); got != step.concerns {
			t.Errorf("%s: %v, want %v", step.name, got, step.concerns)
		}
	}
}
