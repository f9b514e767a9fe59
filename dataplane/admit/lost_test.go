package admit

import (
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/routerpb"
	"anabranch/ratelimit"
)

// A store that has lost its memory believes what routers say of the ledger. The one that asks first may know
// nothing, or nothing newer than of an hour ago: others do, and the budget is open to all as soon as one of them
// has asked.
func TestABudgetIsNotShutByARouterThatKnowsNothing(t *testing.T) {
	for name, uninformed := range map[string]func(k *asker){
		"never told": func(*asker) {},
		"cut off from the control plane": func(k *asker) {
			k.a.informed = func(time.Time) bool { return false }
			k.a.Ledger(true, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const budget, spent = 2000, 1990
				pb := describe(moneyOf(budget, "share"))
				pb.Organisations[0].Young = false // the store has been asked before, and knows nothing of it
				store := ratelimit.NewLending(nil)
				ask := func() *asker {
					k := newStill(t, Options{Stores: Own(&link{Lending: store, used: map[string]int64{}}), Region: "us-east-1"}, build(t, pb))
					k.run()
					t.Cleanup(func() { k.stop() })
					return k
				}
				first, second := ask(), ask()
				uninformed(first)
				second.a.Ledger(true, []*routerpb.Spent{{
					Organisation: "acme", Limit: "money", WindowUnixUs: time.Now().UTC().Truncate(24 * time.Hour).UnixMicro(), Micros: spent,
				}})
				if n := first.admitted(5); n != 0 {
					t.Errorf("%d pass of a budget of which nobody knows what is spent", n)
				}
				n := 0
				for range 40 { // both ask again and again
					n += second.admitted(1) + first.admitted(1)
					pass(50 * time.Millisecond)
				}
				if n != budget-spent {
					t.Errorf("%d pass, and %d are left", n, budget-spent)
				}
			})
		})
	}
}

func TestWhatIsSpentOnlyGrowsWithinAWindow(t *testing.T) {
	day := func(n int64) int64 { return n * 24 * time.Hour.Microseconds() }
	told := func(limit string, window, micros int64) *routerpb.Spent {
		return &routerpb.Spent{Organisation: "acme", Limit: limit, WindowUnixUs: window, Micros: micros}
	}
	a := newStill(t, Options{Stores: Own(newLink())}, tables(t)).a
	want := func(when, limit string, window, micros int64) {
		t.Helper()
		if got := a.ledger.spent("acme", limit, window); got != micros {
			t.Errorf("%s: of %s %d is spent, want %d", when, limit, got, micros)
		}
	}
	want("never told", "d", day(100), -1)
	a.Ledger(false, []*routerpb.Spent{told("d", day(100), 5)})
	want("told of one", "d", day(100), 5)
	want("told of one", "m", day(90), -1)
	a.Ledger(true, []*routerpb.Spent{told("d", day(100), 7), told("m", day(90), 70)})
	want("told of all", "d", day(100), 7)
	want("told of all", "other", day(100), 0)
	a.Ledger(true, []*routerpb.Spent{told("m", day(90), 60), told("d", day(99), 99)}) // from yesterday's backup
	want("restored", "d", day(100), 7)
	want("restored", "m", day(90), 70)
	a.Ledger(false, []*routerpb.Spent{told("m", day(90), 61)})
	want("restored, and spent since", "m", day(90), 70)
	a.Ledger(false, []*routerpb.Spent{told("d", day(101), 1)})
	want("the next day", "d", day(101), 1)
	a.Ledger(true, []*routerpb.Spent{told("d", day(170), 1)})
	if len(a.ledger.known) != 1 {
		t.Errorf("remembered %v", a.ledger.known)
	}
}
