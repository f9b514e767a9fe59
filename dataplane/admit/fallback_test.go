package admit

import (
	"testing"
	"testing/synctest"
	"time"

	"anabranch/ratelimit"
)

// outage is an asker whose authority has just been found to be away.
func outage(t *testing.T, l *link, k *asker) *asker {
	t.Helper()
	l.set(away)
	for range tolerated {
		if err := k.a.Adjust(t.Context(), "nobody", []ratelimit.Charge{{
			Limit: ratelimit.Limit{ID: "x", Kind: ratelimit.Requests, Amount: 1, PeriodMs: 1, Burst: 1}, Cost: 0,
		}}); err != nil {
			t.Fatal(err)
		}
	}
	if k.a.StoreOK() {
		t.Fatal("the breaker is still closed")
	}
	return k
}

func TestWhatHoldsWhileTheStoreIsAway(t *testing.T) {
	two := []string{"https://router-1:8300", "https://router-2:8300"}
	for name, c := range map[string]struct {
		degraded string
		share    float64
		routers  []string
		atOnce   int // of 500 requests under a limit of 300 a minute
		minute   int // of 10 a second for the minute after
	}{
		"share: a fifth of its part, then its part of the rate": {"share", 0.4, nil, 24, 120},
		"the whole share starts cold too":                       {"share", 1, nil, 60, 300},
		"routers of a region divide its share":                  {"share", 0.4, two, 12, 60},
		"no policy named is share":                              {"", 0.4, nil, 24, 120},
		"no share admits nothing":                               {"share", 0, nil, 0, 0},
		"open admits all":                                       {"open", 0, nil, 500, 600},
		"closed admits nothing":                                 {"closed", 1, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLink()
				tab := tablesOf(t, c.routers, quota("requests", 300, c.degraded, c.share))
				k := outage(t, l, newAsker(t, l, tab))
				if got := k.admitted(500); got != c.atOnce {
					t.Errorf("%d of 500 at once pass, want %d", got, c.atOnce)
				}
				passed := 0
				for range 600 {
					pass(100 * time.Millisecond)
					passed += k.admitted(1)
				}
				if passed != c.minute {
					t.Errorf("%d of 600 in a minute pass, want %d", passed, c.minute)
				}
			})
		})
	}
}

func TestClosedRefusesAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := outage(t, l, newAsker(t, l, tables(t, quota("total-tokens", 1000, "open", 0), quota("requests", 60, "closed", 1))))
		ticket, d := k.take(10, 10)
		if d.Allowed || d.Reason != ratelimit.ReasonClosed || d.Limit.ID != "requests" || !d.Degraded || d.RetryAfterMs < 1000 {
			t.Errorf("%+v", d)
		}
		if ticket.Path != nil {
			t.Errorf("ticket %+v", ticket)
		}
	})
}

func TestALocalDecisionSpeaksOfTheTenantsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := outage(t, l, newAsker(t, l, tables(t,
			quota("output-tokens", 1000, "open", 0), quota("requests", 300, "share", 0.4), quota("input-tokens", 3000, "share", 0.4))))
		_, d := k.take(100, 100)
		if !d.Allowed || !d.Degraded || d.Requests.Limit.Amount != 300 || d.Requests.Remaining != 23 {
			t.Errorf("requests: %+v", d.Requests)
		}
		if d.Tokens.Limit.ID != "input-tokens" || d.Tokens.Limit.Amount != 3000 || d.Tokens.Remaining != 140 || d.Tokens.Cost != 100 {
			t.Errorf("tokens: %+v", d.Tokens)
		}
		if d.Tightest != 2 || d.Limit.Burst != 3000 {
			t.Errorf("tightest %d: %+v", d.Tightest, d.Limit)
		}
	})
}

func TestARequestLargerThanTheShareStillPassesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		// A share of 100 of 1,000 tokens; the request costs 400.
		k := outage(t, l, newAsker(t, l, tables(t, quota("input-tokens", 1000, "share", 0.1))))
		if _, d := k.take(400, 0); d.Allowed {
			t.Fatal("it passes from a cold bucket")
		}
		pass(48 * time.Second) // 80 more, so that the local bucket is full
		if _, d := k.take(400, 0); !d.Allowed {
			t.Fatalf("it can't pass at all: %+v", d)
		}
		pass(60 * time.Second)
		if _, d := k.take(1, 0); d.Allowed {
			t.Error("what it cost above the share is no debt")
		}
		if _, d := k.take(1001, 0); d.Reason != ratelimit.ReasonTooLarge {
			t.Errorf("above the tenant's own burst: %+v", d)
		}
	})
}

func TestAnotherOutageGrantsNothingAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 300, "share", 1)))
		outage(t, l, k)
		if got := k.admitted(100); got != 60 {
			t.Fatalf("%d pass in the first outage, want 60", got)
		}
		for range 5 {
			l.set(up)
			k.a.Look(t.Context(), false)
			if !k.a.StoreOK() {
				t.Fatal("the store is back and not seen")
			}
			outage(t, l, k)
			if got := k.admitted(100); got != 0 {
				t.Errorf("%d more pass in an outage right after", got)
			}
		}
		l.set(up)
		k.a.Look(t.Context(), false)
		pass(5 * time.Minute)
		outage(t, l, k)
		if got := k.admitted(100); got != 60 {
			t.Errorf("%d pass in an outage long after, want the cold 60", got)
		}
	})
}

func TestPartsOfLimits(t *testing.T) {
	l := ratelimit.Limit{ID: "x", Kind: ratelimit.Requests, Amount: 2, PeriodMs: 60_000, Burst: 2}
	for share, want := range map[float64]ratelimit.Limit{
		1:     l,
		2:     l,
		0.5:   {ID: "x", Kind: ratelimit.Requests, Amount: 2, PeriodMs: 120_000, Burst: 1},
		0.1:   {ID: "x", Kind: ratelimit.Requests, Amount: 2, PeriodMs: 600_000, Burst: 1},
		1e-9:  {ID: "x", Kind: ratelimit.Requests, Amount: 2, PeriodMs: 60_000_000_000, Burst: 1},
		1e-30: {ID: "x", Kind: ratelimit.Requests, Amount: 2, PeriodMs: 60_000_000_000, Burst: 1},
	} {
		got := part(l, share)
		if got != want {
			t.Errorf("%v: %+v, want %+v", share, got, want)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%v: %v", share, err)
		}
	}
}

func TestOldAccountsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 300, "share", 1)))
		outage(t, l, k).admitted(1)
		pass(idle + time.Second)
		k.a.fallback.forget(time.Now())
		if len(k.a.fallback.accounts) != 1 {
			t.Fatalf("%d accounts, want the one that owes", len(k.a.fallback.accounts))
		}
		l.set(up)
		k.a.Look(t.Context(), false)
		if len(k.a.fallback.accounts) != 0 {
			t.Errorf("%d accounts are kept for ever", len(k.a.fallback.accounts))
		}
	})
}
