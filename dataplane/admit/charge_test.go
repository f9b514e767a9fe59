package admit

import (
	"testing"
	"testing/synctest"
	"time"
)

// acme is a request of a tenant for a model.
func (k *asker) acme(q Request) Request {
	k.t.Helper()
	var ok bool
	if q.Tenant, ok = k.table.Tenant("acme"); !ok {
		k.t.Fatal("no acme in the table")
	}
	q.Model, _, _ = k.table.Model("llama-3.1-8b")
	return q
}

func TestWhatWasUsedUnaskedIsChargedThoughItIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 60, "share", 1), quota("total-tokens", 1000, "share", 1),
			shadowed(quota("input-tokens", 5000, "share", 1)), slotsOf(3, "share"), moneyOf(1_000_000, "share")))
		k.a.Charge(k.table, k.acme(Request{Input: 1100, Output: 300}))
		pass(time.Second)
		if _, d := k.take(1, 1); d.Allowed || d.Limit.ID != "total-tokens" {
			t.Errorf("the debt is not seen: %+v", d)
		}
		k.stop()
		// 1,100 × 50,000 + 300 × 80,000 millionths.
		for limit, want := range map[string]int64{"requests": 1, "total-tokens": 1400, "money": 79, "input-tokens~": 1100} {
			if got := l.charged(limit); got != want {
				t.Errorf("%s: %d charged, want %d", limit, got, want)
			}
		}
		if level, held, ok := l.Left("acme", "slots"); ok && (level != 3 || held != 0) {
			t.Errorf("%d slots are free and %d held", level, held)
		}
	})
}

func TestWhatWasUsedWhileTheStoreIsAwayIsChargedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("total-tokens", 1000, "share", 1)))
		k.take(10, 0)
		pass(time.Second)
		l.set(away)
		pass(3 * time.Second)
		k.a.Charge(k.table, k.acme(Request{Input: 300}))
		if k.take(900, 0); k.admitted(1) != 1 {
			t.Error("the router's own share is gone")
		}
		l.set(up)
		pass(3 * time.Second)
		k.stop()
		if got := l.charged("total-tokens"); got != 10+300+2 && got != 10+300+900+2 {
			t.Errorf("%d charged", got)
		}
	})
}

func TestARequestMayCountAsSeveralOrNone(t *testing.T) {
	for requests, want := range map[int64]int64{0: 1, 1: 1, 5: 5, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			l := newLink()
			k := newAsker(t, l, tables(t, quota("requests", 60, "share", 1), quota("input-tokens", 1000, "share", 1)))
			r, d := k.a.Take(t.Context(), k.table, k.acme(Request{Requests: requests, Input: 7}))
			if !d.Allowed {
				t.Fatalf("%+v", d)
			}
			r.Settle(want, 7, 0)
			k.a.Charge(k.table, k.acme(Request{Requests: requests, Input: 3}))
			k.stop()
			if got, tokens := l.charged("requests"), l.charged("input-tokens"); got != 2*want || tokens != 10 {
				t.Errorf("as %d: %d requests and %d tokens charged, want %d and 10", requests, got, tokens, 2*want)
			}
		})
	}
}

func TestARequestMayHaveLessPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.set(frozen)
		k := newAsker(t, l, tables(t, quota("requests", 60, "share", 1)))
		for _, budget := range []time.Duration{12 * time.Millisecond, 1} {
			took := elapsed(func() {
				if _, d := k.a.Take(t.Context(), k.table, k.acme(Request{Budget: budget})); !d.Allowed || !d.Degraded {
					t.Errorf("%+v", d)
				}
			})
			if took != budget {
				t.Errorf("waited %v, want %v", took, budget)
			}
		}
	})
}

func TestWhatIsOnlyToldWhileTheStoreIsAwayIsCharged(t *testing.T) {
	for _, before := range []bool{false, true} { // there was an absence before
		synctest.Test(t, func(t *testing.T) {
			l := newLink()
			k := newAsker(t, l, tables(t, quota("total-tokens", 1000, "share", 1)))
			want := int64(10 + 300)
			k.take(10, 0)
			if before {
				outage(l)
				k.take(20, 0)
				l.set(up)
				pass(3 * time.Second)
				want += 20
			}
			pass(time.Second)
			outage(l)
			k.a.Charge(k.table, k.acme(Request{Input: 300}))
			l.set(up)
			pass(3 * time.Second)
			k.stop()
			if got := l.charged("total-tokens"); got != want {
				t.Errorf("%d charged, want %d (absent before: %v)", got, want, before)
			}
		})
	}
}
