package admit

import (
	"testing"
	"testing/synctest"
	"time"

	"anabranch/ratelimit"
)

func TestSpendingWithoutTheStoreIsChargedBeforeItDecidesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 300, "share", 1)))
		defer k.run()()
		synctest.Wait()
		if got := k.admitted(270); got != 270 {
			t.Fatalf("%d of 270 pass", got)
		}
		l.set(away)
		if got := k.admitted(100); got != 60 {
			t.Fatalf("%d pass without the store, want 60", got)
		}
		l.set(up)
		pass(300 * time.Millisecond)
		if !k.a.StoreOK() {
			t.Fatal("the store is back and not seen within its probe interval")
		}
		// 300 − 270 − 60, and one unit that flowed in.
		if got := l.level(t, "requests"); got != -29 {
			t.Errorf("level %d, want -29", got)
		}
		if got := k.admitted(10); got != 0 {
			t.Errorf("%d pass while the bucket is in debt", got)
		}
	})
}

func TestSettlementsMadeInAnOutageArriveAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("total-tokens", 10_000, "share", 1)))
		defer k.run()()
		synctest.Wait()
		before, _ := k.take(1000, 256)
		l.set(away)
		k.take(0, 0)
		during, d := k.take(1000, 256)
		if !d.Degraded || !d.Allowed {
			t.Fatalf("%+v", d)
		}
		// 356 were used of each reserve of 1,256, and both are settled while the store is away.
		for _, ticket := range []Ticket{before, during} {
			refund := ticket.Path[0]
			refund.Cost = -900
			if err := k.a.Adjust(t.Context(), "acme", []ratelimit.Charge{refund}); err != nil {
				t.Fatal(err)
			}
		}
		l.set(up)
		pass(600 * time.Millisecond)
		// 167 tokens flow in each second.
		if got, want := l.level(t, "total-tokens"), int64(10_000-2*356); got < want || got > want+100 {
			t.Errorf("level %d, want %d and a little that flowed in", got, want)
		}
		if k.a.fallback.owing() != 0 {
			t.Error("something is still owed")
		}
	})
}

func TestInDoubtChargesAreRepeatedAndRefundsAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t))
		limit := ratelimit.Limit{ID: "tpm", Kind: ratelimit.TotalTokens, Amount: 1, PeriodMs: 3_600_000, Burst: 1000}
		settle := func(cost int64) {
			if err := k.a.Adjust(t.Context(), "acme", []ratelimit.Charge{{Limit: limit, Cost: cost}}); err != nil {
				t.Fatal(err)
			}
		}
		settle(500)
		l.set(lossy)
		settle(100)  // carried out, and not known to be
		settle(-200) // the same
		l.set(up)
		k.a.Look(t.Context(), true)
		if got := l.level(t, "tpm"); got != 1000-500-100+200-100 {
			t.Errorf("level %d: want the charge twice and the refund once", got)
		}
	})
}

func TestARefundThatSurelyFailedIsMadeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t))
		limit := ratelimit.Limit{ID: "tpm", Kind: ratelimit.TotalTokens, Amount: 1, PeriodMs: 3_600_000, Burst: 1000}
		for i, s := range []state{away, unfit} {
			l.set(up)
			if err := k.a.Adjust(t.Context(), "acme", []ratelimit.Charge{{Limit: limit, Cost: 500}}); err != nil {
				t.Fatal(err)
			}
			l.set(s)
			if err := k.a.Adjust(t.Context(), "acme", []ratelimit.Charge{{Limit: limit, Cost: -500}}); err != nil {
				t.Fatal(err)
			}
			l.set(up)
			k.a.Look(t.Context(), true)
			if got := l.level(t, "tpm"); got != 1000 {
				t.Errorf("case %d: level %d, want 1000", i, got)
			}
		}
	})
}

func TestARefundDueIsForgoneWhenItsAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t))
		path := func(cost int64) []ratelimit.Charge {
			return []ratelimit.Charge{{
				Limit: ratelimit.Limit{ID: "tpm", Kind: ratelimit.TotalTokens, Amount: 1, PeriodMs: 3_600_000, Burst: 1000}, Cost: cost,
			}}
		}
		if err := k.a.Adjust(t.Context(), "acme", path(500)); err != nil {
			t.Fatal(err)
		}
		outage(t, l, k)
		if err := k.a.Adjust(t.Context(), "acme", path(-200)); err != nil {
			t.Fatal(err)
		}
		l.set(lossy)
		k.a.settle(t.Context())
		l.set(up)
		k.a.Look(t.Context(), false)
		if got := l.level(t, "tpm"); got != 700 {
			t.Errorf("level %d, want 700: the refund once", got)
		}
	})
}

func TestAnAbsenceIsNoticedWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 300, "share", 1)))
		l.set(frozen)
		defer k.run()()
		pass(2500 * time.Millisecond)
		if k.a.StoreOK() {
			t.Fatal("nobody noticed")
		}
		if took := elapsed(func() { k.take(1, 1) }); took != 0 {
			t.Errorf("the first request waited %v", took)
		}
		l.set(up)
		pass(300 * time.Millisecond)
		if !k.a.StoreOK() {
			t.Error("nobody noticed that it is back")
		}
	})
}

func TestAStoreThatForgetsIsNotReliedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 300, "share", 1)))
		l.set(unfit)
		defer k.run()()
		pass(1500 * time.Millisecond)
		if k.a.StoreOK() {
			t.Error("an unfit store is taken to be well")
		}
		if _, d := k.take(1, 1); !d.Allowed || !d.Degraded {
			t.Errorf("%+v", d)
		}
	})
}

func TestTheLastAccountsAreBroughtHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 300, "share", 1)))
		k.admitted(1)
		stop := k.run()
		synctest.Wait()
		l.set(away)
		k.admitted(10)
		l.set(up)
		stop()
		if got := l.level(t, "requests"); got != 289 {
			t.Errorf("level %d, want 289", got)
		}
	})
}

func TestStoppingDoesNotWaitForAFrozenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 300, "share", 1)))
		stop := k.run()
		synctest.Wait()
		l.set(frozen)
		k.admitted(10)
		if took := elapsed(stop); took > 4*DefaultBudget {
			t.Errorf("stopping took %v", took)
		}
	})
}
