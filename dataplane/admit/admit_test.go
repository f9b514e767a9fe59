package admit

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/ratelimit"
)

func TestARequestIsChargedToEachKindOfLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t,
			quota("requests", 60, "share", 1), quota("input-tokens", 10_000, "share", 1),
			quota("output-tokens", 5000, "share", 1), quota("total-tokens", 12_000, "share", 1),
			slotsOf(3, "share"), moneyOf(1_000_000, "share")))
		r, d := k.take(1000, 256)
		if !d.Allowed || d.Degraded {
			t.Fatalf("%+v", d)
		}
		if in, out := r.Reserved(); in != 1000 || out != 256 {
			t.Errorf("%d and %d reserved", in, out)
		}
		if d.Requests.Remaining != 59 || d.Tokens.Limit.ID != "input-tokens" && d.Tokens.Limit.ID != "total-tokens" {
			t.Errorf("standings %+v, %+v", d.Requests, d.Tokens)
		}
		pass(time.Second)
		// 1,000 × 50,000 + 256 × 80,000 millionths, rounded up.
		for limit, want := range map[string]int64{
			"requests": 1, "input-tokens": 1000, "output-tokens": 256, "total-tokens": 1256, "money": 71, "slots": 0,
		} {
			if got := l.charged(limit); got != want {
				t.Errorf("%s: %d charged, want %d", limit, got, want)
			}
		}
		if _, held, _ := l.Left("acme", "slots"); held == 0 {
			t.Error("a slot is in use and none is held")
		}
		r.Settle(1, 900, 300)
		r.Settle(1, 1, 1) // says nothing any more
		k.stop()
		for limit, want := range map[string]int64{
			"requests": 1, "input-tokens": 900, "output-tokens": 300, "total-tokens": 1200, "money": 69, "slots": 0,
		} {
			if got := l.charged(limit); got != want {
				t.Errorf("%s: %d charged in the end, want %d", limit, got, want)
			}
		}
		if level, held, _ := l.Left("acme", "slots"); level != 3 || held != 0 {
			t.Errorf("%d slots are free and %d held when all is over", level, held)
		}
	})
}

func TestWithALeaseNobodyWaitsOrAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.delay = 10 * time.Millisecond
		k := newAsker(t, l, tables(t, quota("requests", 60_000, "share", 1)))
		if took := elapsed(func() { k.take(1, 1) }); took != l.delay {
			t.Errorf("the first waited %v, want a round trip of %v", took, l.delay)
		}
		waited := 0
		for range 1000 {
			if elapsed(func() {
				if _, d := k.take(1, 1); !d.Allowed {
					t.Fatalf("%+v", d)
				}
			}) > 0 {
				waited++
			}
			pass(2 * time.Millisecond)
		}
		if calls := l.count(); waited > 6 || calls > 40 {
			t.Errorf("of 1,000 requests %d waited, with %d calls", waited, calls)
		}
	})
}

func TestQuotasOfAModelHoldForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		small := quota("requests", 2, "share", 1)
		small.Model = "llama-3.1-8b"
		k := newAsker(t, newLink(), tables(t, small))
		for _, model := range []string{"small", "support-lora"} {
			if _, d := k.takeModel(model, 1, 1); !d.Allowed {
				t.Errorf("%s: %+v", model, d)
			}
		}
		if _, d := k.takeModel("llama-3.1-8b", 1, 1); d.Allowed {
			t.Error("the third request of two passes")
		}
		if r, d := k.takeModel("llama-3.1-70b", 1, 1); !d.Allowed || r.hold != nil {
			t.Errorf("another model is charged: %+v", d)
		}
	})
}

func TestNoQuotaNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.set(frozen)
		k := newAsker(t, l, tables(t))
		r, d := k.take(7, 8)
		if !d.Allowed || d.Tightest != -1 {
			t.Errorf("%+v", d)
		}
		if in, out := r.Reserved(); in != 7 || out != 8 || !r.Grow(100) {
			t.Errorf("%d and %d reserved", in, out)
		}
		if _, cut := r.Cut(1000); cut {
			t.Error("its stream is cut")
		}
		r.Settle(1, 7, 8)
		if l.count() != 0 {
			t.Errorf("%d calls for a tenant without quotas", l.count())
		}
	})
}

func TestARefusedRequestChargesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 60, "share", 1), quota("input-tokens", 1000, "share", 1)))
		k.take(900, 0)
		_, d := k.take(200, 0)
		if d.Allowed || d.Reason != ratelimit.ReasonOver || d.Limit.ID != "input-tokens" || d.RetryAfterMs != 6000 {
			t.Fatalf("%+v", d)
		}
		if _, d := k.take(1001, 0); d.Reason != ratelimit.ReasonTooLarge || d.RetryAfterMs != 0 {
			t.Errorf("above the burst: %+v", d)
		}
		k.stop()
		if l.charged("requests") != 1 || l.charged("input-tokens") != 900 {
			t.Errorf("%d requests and %d tokens charged", l.charged("requests"), l.charged("input-tokens"))
		}
	})
}

func TestRetriesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newAsker(t, newLink(), tables(t, quota("requests", 60, "share", 1)))
		k.admitted(61)
		for random, want := range map[float64]int64{0: 1000, 0.5: 1050, 0.999: 1099} {
			k.a.rand = func() float64 { return random }
			if _, d := k.take(1, 1); d.RetryAfterMs != want {
				t.Errorf("random %v: retry after %d ms, want %d", random, d.RetryAfterMs, want)
			}
		}
	})
}

func TestAClientThatLeavesIsNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.delay = 20 * time.Millisecond
		k := newAsker(t, l, tables(t, quota("requests", 60, "share", 1)))
		tenant, _ := k.table.Tenant(acme)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		took := elapsed(func() {
			if r, d := k.a.Take(ctx, k.table, Request{Tenant: tenant, Input: 1, Output: 1}); r != nil || d.Allowed {
				t.Errorf("%+v", d)
			}
		})
		if took != 5*time.Millisecond {
			t.Errorf("it was waited for %v", took)
		}
		k.stop()
		if l.charged("requests") != 0 {
			t.Error("it is charged")
		}
	})
}

func TestReserves(t *testing.T) {
	for bytes, want := range map[int]int64{0: 1, 1: 1, 4: 1, 5: 2, 4000: 1000} {
		if got := InputTokens(bytes); got != want {
			t.Errorf("%d bytes: %d tokens, want %d", bytes, got, want)
		}
	}
	for most, want := range map[int64]int64{0: 256, -1: 256, 16: 16, 256: 256, 4096: 256} {
		if got := OutputTokens(most); got != want {
			t.Errorf("max_tokens %d: reserve %d, want %d", most, got, want)
		}
	}
}

func TestOptionsNameWhatIsWrong(t *testing.T) {
	for want, o := range map[string]Options{
		"stores are nil": {},
		"budget":         {Stores: Own(newLink()), Budget: -1},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}
