package drill

import (
	"slices"
	"testing"
	"time"
)

func TestTransitionsAreThoseOfTheStates(t *testing.T) {
	for from, to := range nexts {
		for _, s := range to {
			if !Legal(from, s) || !slices.Contains(Next(from), s) {
				t.Errorf("%s to %s", from, s)
			}
		}
		if from.Leased() && (!Legal(from, RollingBack) || from != Paused && !Legal(from, Paused)) {
			t.Errorf("%s can't be rolled back or paused", from)
		}
	}
	if len(Next(Done)) > 0 || len(Next("x")) > 0 || Legal(Draft, Precheck) || Legal(Verify, RollingBack) {
		t.Error("a transition too many")
	}
	Next(Draft)[0] = "changed"
	if Next(Draft)[0] != Validated {
		t.Error("the table can be changed from outside")
	}
}

// Somebody may approve and start it before the second in which it ends.
func TestPlanOnlyEndsWhoeverApprovedIt(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for _, s := range []State{Validated, Pending, Scheduled} {
		r := Run{State: s, Created: now, Entered: now, Start: now, Until: now.Add(time.Hour)}
		if r, _ = Step(r, Inputs{Plan: Plan{Kind: PlanOnly}}, now); r.State != Done || r.Outcome != Succeeded || !r.NotAfter.IsZero() {
			t.Errorf("%s: became %s %s, leases until %v", s, r.State, r.Outcome, r.NotAfter)
		}
	}
}
