package admit

import (
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/routerpb"
)

// signal finds one of a limit, or nil.
func (k *asker) signal(limit string) (found *routerpb.QuotaSignal) {
	for _, s := range k.a.Signals(time.Now()) {
		if s.Limit == limit {
			found = s
		}
	}
	return found
}

// known counts the paths that the admitter knows of, by name and by table, and the lanes that the owner
// looks at.
func (k *asker) known() (paths, lanes int) {
	k.a.turn.Lock()
	defer k.a.turn.Unlock()
	k.a.mu.Lock()
	defer k.a.mu.Unlock()
	k.a.byPath.Range(func(any, any) bool { paths++; return true })
	return paths + len(k.a.byID), len(k.a.owner.lanes)
}

func TestReportsTellOfLimitsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 10, "share", 1), shadowed(quota("input-tokens", 4, "share", 1))))
		if all := k.a.Signals(time.Now()); len(all) != 0 {
			t.Errorf("nothing was asked and %v is told", all)
		}
		var open []*Reservation
		for range 12 {
			if r, d := k.take(1, 1); d.Allowed {
				open = append(open, r)
			}
			pass(70 * time.Millisecond) // a refused router asks again meanwhile
		}
		open[0].Settle(1, 1, 1)
		pass(600 * time.Millisecond)
		by := map[string]*routerpb.QuotaSignal{}
		for _, s := range k.a.Signals(time.Now()) {
			by[s.Limit] = s
		}
		if s := by["requests"]; s.GetOrganisation() != "acme" || s.Admitted != 10 || s.Denied != 2 || s.Used != 10 || s.LevelAgeMs < 0 || s.LevelAgeMs > 600 || s.Degraded {
			t.Errorf("requests: %v", s)
		}
		if s := by["input-tokens~"]; s.GetAdmitted() != 4 || s.WouldDeny != 6 || s.Denied != 0 {
			t.Errorf("in shadow: %v", s)
		}
		if s := k.signal("requests"); s.GetAdmitted() != 0 || s.GetDenied() != 0 || s.GetUsed() != 0 {
			t.Errorf("counts are told twice: %v", s)
		}
		outage(l)
		alone, _ := k.take(1, 1)
		open = append(open, alone)
		pass(time.Second)
		if s := k.signal("requests"); !s.GetDegraded() || s.DegradedMs != 1000 || s.Owed != 1 {
			t.Errorf("without the store: %v", s)
		}
		for _, r := range open {
			r.Settle(1, 1, 1)
		}
		l.set(up)
		pass(10 * time.Second)
		k.a.Signals(time.Now())
		pass(10 * time.Second)
		if all := k.a.Signals(time.Now()); len(all) != 0 {
			t.Errorf("when all is over: %v", all)
		}
	})
}

func TestReportsTellOfSlotsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newAsker(t, newLink(), tables(t, slotsOf(20, "share")))
		var open []*Reservation
		for range 9 {
			r, _ := k.take(1, 1)
			open = append(open, r)
		}
		pass(time.Second)
		if s := k.signal("slots"); s.GetInUse() != 9 || s.Held < 9 || s.Used != 0 || s.Admitted != 9 {
			t.Errorf("%v", s)
		}
		for _, r := range open {
			r.Settle(1, 1, 1)
		}
		if s := k.signal("slots"); s.GetInUse() != 0 {
			t.Errorf("when all are over: %v", s)
		}
	})
}

func TestNothingIsLeftOfPathsThatNobodyUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 600, "share", 1)))
		for range 2 {
			r, _ := k.take(1, 1)
			pass(12 * time.Minute)
			if paths, _ := k.known(); paths == 0 {
				t.Fatal("a path with a request under way is forgotten")
			}
			r.Settle(1, 1, 1)
			calls := l.count()
			pass(12 * time.Minute)
			if n := l.count() - calls; n > 40 {
				t.Errorf("%d calls about a path that nobody uses", n)
			}
			if paths, lanes := k.known(); paths+lanes != 0 {
				t.Errorf("%d paths are known, %d looked at", paths, lanes)
			}
		}
		if got := l.charged("requests"); got != 2 {
			t.Errorf("%d charged: a path that comes again is taken for a repetition", got)
		}
	})
}

func TestTablesLeaveLeasesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		limited := func(n int64, revision uint64) *routerpb.Table {
			pb := describe(quota("requests", n, "share", 1))
			pb.Ref.Revision, pb.Organisations[0].Version = revision, int64(revision)
			return pb
		}
		k := newAsker(t, l, build(t, limited(60, 1)))
		if n := k.admitted(61); n != 60 {
			t.Fatalf("%d admitted", n)
		}
		k.apply(build(t, limited(600, 2))) // raised: at its new rate from now on
		pass(2 * time.Second)
		if n := k.admitted(50); n < 15 || n > 22 {
			t.Errorf("%d admitted 2 s after the limit was raised to ten a second", n)
		}
		pass(time.Minute)
		k.apply(build(t, limited(30, 3))) // lowered: clamped with the next call
		pass(2 * time.Second)
		if n := k.admitted(100); n > 32 {
			t.Errorf("%d admitted 2 s after the limit was lowered to thirty", n)
		}
		n := 0
		k.a.byPath.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%d paths of tables that are over are kept", n)
		}
	})
}

func TestYoungOrganisationsAreMadeKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.set(away)
		k := newAsker(t, l, tables(t, quota("requests", 60, "share", 1)))
		pass(time.Second)
		l.set(up)
		pass(time.Second)
		calls := l.count()
		if _, _, known := l.Left("acme", "requests"); !known {
			t.Error("the store has never heard of it")
		}
		pass(10 * time.Second)
		if l.count() != calls {
			t.Errorf("%d more calls", l.count()-calls)
		}
		if n := k.admitted(61); n != 60 {
			t.Errorf("%d admitted, want the whole burst of a young one", n)
		}
	})
}
