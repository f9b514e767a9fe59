package drill

import (
	"slices"
	"testing"
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
