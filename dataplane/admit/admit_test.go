package admit

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/routerpb"
	"anabranch/ratelimit"
)

func TestARequestIsChargedToEachKindOfLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t,
			quota("requests", 60, "share", 1), quota("input-tokens", 10_000, "share", 1),
			quota("output-tokens", 5000, "share", 1), quota("total-tokens", 12_000, "share", 1)))
		ticket, d := k.take(1000, 256)
		if !d.Allowed || d.Degraded {
			t.Fatalf("%+v", d)
		}
		for limit, left := range map[string]int64{
			"requests": 59, "input-tokens": 9000, "output-tokens": 4744, "total-tokens": 10_744,
		} {
			if got := l.level(t, limit); got != left {
				t.Errorf("%s: %d left, want %d", limit, got, left)
			}
		}
		if ticket.Tenant != acme || ticket.Model != "llama-3.1-8b" || len(ticket.Path) != 4 ||
			ticket.Input != 1000 || ticket.Output != 256 || ticket.InputMicros != 50_000 || ticket.OutputMicros != 80_000 {
			t.Errorf("ticket %+v", ticket)
		}
		if d.Requests.Remaining != 59 || d.Tokens.Limit.ID != "total-tokens" {
			t.Errorf("standings %+v, %+v", d.Requests, d.Tokens)
		}
	})
}

func TestQuotasOfAModelHoldForItsOtherNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		small := quota("requests", 2, "share", 1)
		small.Model = "llama-3.1-8b"
		k := newAsker(t, l, tables(t, small))
		for _, model := range []string{"small", "support-lora"} {
			if ticket, d := k.takeModel(model, 1, 1); !d.Allowed || ticket.Model != "llama-3.1-8b" {
				t.Errorf("%s: %+v, ticket of %s", model, d, ticket.Model)
			}
		}
		if _, d := k.takeModel("llama-3.1-8b", 1, 1); d.Allowed {
			t.Error("the third request of two passes")
		}
		if ticket, d := k.takeModel("llama-3.1-70b", 1, 1); !d.Allowed || ticket.Path != nil {
			t.Errorf("another model is charged: %+v, %+v", d, ticket)
		}
	})
}

func TestNoQuotaNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.set(frozen)
		k := newAsker(t, l, tables(t))
		if _, d := k.take(1, 1); !d.Allowed || d.Tightest != -1 {
			t.Errorf("%+v", d)
		}
		if l.calls.Load() != 0 {
			t.Errorf("%d calls for a tenant without quotas", l.calls.Load())
		}
	})
}

func TestARefusedRequestChargesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 60, "share", 1), quota("input-tokens", 1000, "share", 1)))
		k.take(900, 0)
		ticket, d := k.take(200, 0)
		if d.Allowed || d.Reason != ratelimit.ReasonOver || d.Limit.ID != "input-tokens" || d.RetryAfterMs != 6000 {
			t.Fatalf("%+v", d)
		}
		if ticket.Path != nil || l.level(t, "requests") != 59 {
			t.Errorf("ticket %+v, %d requests left", ticket, l.level(t, "requests"))
		}
		if _, d := k.take(1001, 0); d.Reason != ratelimit.ReasonTooLarge || d.RetryAfterMs != 0 {
			t.Errorf("above the burst: %+v", d)
		}
	})
}

func TestRetriesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newAsker(t, newLink(), tables(t, quota("requests", 60, "share", 1)))
		k.admitted(60)
		for random, want := range map[float64]int64{0: 1000, 0.5: 1050, 0.999: 1099} {
			k.a.rand = func() float64 { return random }
			if _, d := k.take(1, 1); d.RetryAfterMs != want {
				t.Errorf("random %v: retry after %d ms, want %d", random, d.RetryAfterMs, want)
			}
		}
	})
}

func TestNoRequestWaitsLongerThanTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.set(frozen)
		k := newAsker(t, l, tables(t, quota("requests", 600, "share", 1)))
		for i, want := range []time.Duration{50 * time.Millisecond, 50 * time.Millisecond, 0, 0} {
			took := elapsed(func() {
				if _, d := k.take(1, 1); !d.Allowed || !d.Degraded {
					t.Errorf("request %d: %+v", i, d)
				}
			})
			if took != want {
				t.Errorf("request %d waited %v, want %v", i, took, want)
			}
		}
		if l.calls.Load() != 2 || k.a.StoreOK() {
			t.Errorf("%d calls, store ok %v: want two and the breaker open", l.calls.Load(), k.a.StoreOK())
		}
	})
}

func TestOneFailureIsNoAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 60, "share", 1)))
		for range 3 {
			l.set(away)
			k.take(1, 1)
			l.set(up)
			if _, d := k.take(1, 1); d.Degraded {
				t.Fatalf("%+v", d)
			}
		}
		if !k.a.StoreOK() {
			t.Error("single failures opened the breaker")
		}
	})
}

func TestAClientThatLeavesIsStillChargedOrNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 60, "share", 1)))
		tenant, _ := k.table.Tenant(acme)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ticket, d := k.a.Take(ctx, k.table, tenant, "small", 1, 1)
		if !d.Allowed || d.Degraded || len(ticket.Path) != 1 || l.level(t, "requests") != 59 {
			t.Errorf("%+v, %+v", d, ticket)
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
	if Cost("concurrency", 1, 1, 1) != 0 {
		t.Error("an unknown kind costs something")
	}
}

func TestAQuotaThatCannotBeCountedIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("total-tokens", 1<<52, "share", 1), quota("requests", 1, "share", 1)))
		if ticket, d := k.take(1, 1); !d.Allowed || len(ticket.Path) != 1 {
			t.Errorf("%+v, %+v", d, ticket)
		}
		if _, d := k.take(1, 1); d.Allowed {
			t.Error("the other quota doesn't hold")
		}
	})
}

func TestPathsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var quotas []*routerpb.Quota
		for i := range ratelimit.MaxPath + 3 {
			q := quota("requests", 60, "share", 1)
			q.Id = strings.Repeat("q", i+1)
			quotas = append(quotas, q)
		}
		if ticket, d := newAsker(t, newLink(), tables(t, quotas...)).take(1, 1); !d.Allowed || len(ticket.Path) != ratelimit.MaxPath {
			t.Errorf("%+v with %d limits", d, len(ticket.Path))
		}
	})
}

func TestOptionsNameWhatIsWrong(t *testing.T) {
	memory := ratelimit.NewMemory(nil)
	for want, o := range map[string]Options{
		"authority is nil": {},
		"budget":           {Authority: memory, Budget: -1},
		"probe":            {Authority: memory, Probe: -1},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func BenchmarkTakeFourLimits(b *testing.B) {
	k := newAsker(b, ratelimit.NewMemory(nil), tables(b,
		quota("requests", 1e9, "share", 1), quota("input-tokens", 1e9, "share", 1),
		quota("output-tokens", 1e9, "share", 1), quota("total-tokens", 1e9, "share", 1)))
	b.ReportAllocs()
	for b.Loop() {
		k.take(1, 1)
	}
}
