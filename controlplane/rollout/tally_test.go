package rollout

import (
	"testing"
	"time"

	"anabranch/api/fleet"
)

func all(fleet.RouterID) bool { return true }

func TestATallyCountsEachReportOnce(t *testing.T) {
	var tally Tally
	for second := range 30 {
		now := start.Add(time.Duration(second) * time.Second)
		for _, router := range []fleet.RouterID{"a", "b"} {
			for range 2 { // it is seen by two looks
				tally.Hear(router, now.UnixMilli(), Count{10, 1}, now)
			}
		}
	}
	if got := tally.Sum(all, start, start.Add(time.Hour)); got != (Count{600, 60}) {
		t.Errorf("all %v", got)
	}
	if got := tally.Sum(func(id fleet.RouterID) bool { return id == "a" }, start, start.Add(10*time.Second)); got != (Count{100, 10}) {
		t.Errorf("a in the first ten seconds %v", got)
	}
	if (Count{}).Share() != 0 || (Count{10, 1}).Share() != 0.1 {
		t.Error("shares")
	}
}

func TestACutTellsBeforeFromAfter(t *testing.T) {
	var tally Tally
	tally.Hear("a", 1, Count{5, 5}, start)
	tally.Cut(start.Add(time.Second))
	tally.Hear("a", 2, Count{7, 0}, start.Add(2*time.Second))
	if got := tally.Sum(all, start.Add(time.Second), start.Add(time.Hour)); got != (Count{7, 0}) {
		t.Errorf("after %v", got)
	}
	if got := tally.Sum(all, start, start.Add(time.Second)); got != (Count{5, 5}) {
		t.Errorf("before %v", got)
	}
}

func TestATallyIsBounded(t *testing.T) {
	var tally Tally
	for second := range 3600 {
		tally.Hear("a", int64(second+1), Count{1, 0}, start.Add(time.Duration(second)*time.Second))
	}
	end := start.Add(time.Hour)
	if n := len(tally.routers["a"].slots); n > int(TallyReach/TallyGrain)+1 {
		t.Errorf("%d slots", n)
	}
	tally.Forget(end)
	if len(tally.routers) != 1 {
		t.Error("forgot a router that reports")
	}
	tally.Forget(end.Add(TallyReach + TallyGrain))
	if len(tally.routers) != 0 {
		t.Error("remembers a router that has gone")
	}
}
