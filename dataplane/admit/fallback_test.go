package admit

import (
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// outage lets the store be away for longer than any lease lasts.
func outage(l *link) {
	l.set(away)
	pass(3 * time.Second)
}

func TestLeasesInHandServeWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 600, "closed", 1)))
		for range 50 {
			k.take(1, 1)
			pass(10 * time.Millisecond)
		}
		l.set(away)
		if _, d := k.take(1, 1); !d.Allowed || d.Degraded {
			t.Errorf("what is held is not spent: %+v", d)
		}
		pass(3 * time.Second)
		if _, d := k.take(1, 1); d.Allowed || d.Reason != ratelimit.ReasonClosed || !d.Degraded {
			t.Errorf("closed, and after all leases: %+v", d)
		}
		if k.a.StoreOK() {
			t.Error("nobody knows of the absence")
		}
	})
}

func TestAloneARouterKeepsItsShare(t *testing.T) {
	for name, c := range map[string]struct {
		share    float64
		routers  int
		degraded string
		want     int // of 100 requests at once, of a limit of 60 a minute
	}{
		"the whole share of one router":   {1, 1, "share", 12},
		"half of it":                      {0.5, 1, "share", 6},
		"half of it among three":          {0.5, 3, "share", 2},
		"no share":                        {0.0000001, 1, "share", 0},
		"open":                            {1, 1, "open", 100},
		"closed":                          {1, 1, "closed", 0},
		"said nothing, which means share": {1, 1, "", 12},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLink()
				pb := describe(quota("requests", 60, c.degraded, c.share))
				for range c.routers - 1 {
					pb.Regions[0].PeerUrls = append(pb.Regions[0].PeerUrls, pb.Regions[0].PeerUrls[0]+"0")
				}
				k := newAsker(t, l, build(t, pb))
				outage(l)
				if got := k.admitted(100); got != c.want {
					t.Errorf("%d admitted, want %d", got, c.want)
				}
				// A minute at the share of the rate.
				if c.share == 1 && c.degraded == "share" {
					pass(10 * time.Second)
					if got := k.admitted(100); got != 10 {
						t.Errorf("%d admitted after 10 s, want 10", got)
					}
				}
				l.set(up)
				pass(2 * time.Second)
				k.stop()
				if got := l.charged("requests"); got < int64(c.want) {
					t.Errorf("%d charged after the return, want %d at least", got, c.want)
				}
			})
		})
	}
}

func TestOneLimitMayBeOpenAndAnotherShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 60, "share", 1), quota("input-tokens", 10, "open", 1)))
		outage(l)
		passed := 0
		for range 30 {
			if _, d := k.take(5, 0); d.Allowed {
				passed++
			} else if d.Limit.ID != "requests" {
				t.Fatalf("denied by %s", d.Limit.ID)
			}
		}
		if passed != 12 {
			t.Errorf("%d passed, want 12: the tokens are open", passed)
		}
		l.set(up)
		pass(3 * time.Second)
		if l.charged("requests") != 12 || l.charged("input-tokens") != 60 {
			t.Errorf("%d requests and %d tokens charged", l.charged("requests"), l.charged("input-tokens"))
		}
		if _, d := k.take(5, 0); d.Allowed {
			t.Error("the debt of an open limit is not seen")
		}
	})
}

func TestAFlappingStoreGrantsNothingAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 60, "share", 1)))
		k.admitted(100)
		passed := 0
		for range 5 {
			outage(l)
			passed += k.admitted(100)
			l.set(up)
			pass(100 * time.Millisecond)
			passed += k.admitted(100)
		}
		// 15 s at one a second, and a fifth of the burst.
		if passed > 12+17 {
			t.Errorf("%d passed in five outages within 16 s", passed)
		}
	})
}

func TestNoRequestWaitsLongerThanTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.set(frozen)
		k := newAsker(t, l, tables(t, quota("requests", 600, "share", 1)))
		for i, want := range []time.Duration{DefaultBudget, 0, 0} {
			took := elapsed(func() {
				if _, d := k.take(1, 1); !d.Allowed || !d.Degraded {
					t.Errorf("request %d: %+v", i, d)
				}
			})
			if took != want {
				t.Errorf("request %d waited %v, want %v", i, took, want)
			}
		}
	})
}

func TestALostAnswerChargesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 600, "share", 1)))
		k.take(1, 1)
		pass(100 * time.Millisecond)
		l.set(lossy)
		k.take(1, 1)
		pass(time.Second)
		l.set(up)
		pass(time.Second)
		k.stop()
		if n := k.a.orgs["acme"].tallies["requests"].told.used; n != 2 {
			t.Errorf("%d told, want 2", n)
		}
	})
}

func TestAStoreThatIsNotKnownIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pb := describe(quota("requests", 60, "share", 1))
		pb.Regions[0].QuotaStore = &routerpb.QuotaStore{Addresses: []string{"127.0.0.1:1"}}
		pb.Organisations[0].Home = "us-east-1"
		k := newAsker(t, newLink(), build(t, pb))
		if took := elapsed(func() {
			if got := k.admitted(100); got != 12 {
				t.Errorf("%d admitted, want 12", got)
			}
		}); took != 0 {
			t.Errorf("waited %v for nobody", took)
		}
		if k.a.StoreOK() {
			t.Error("the store is said to be there")
		}
	})
}

func TestAStalePolicyIsDegradedWhenTheLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		versioned := func(v int64) *table.Table {
			pb := describe(quota("requests", 60, "share", 1))
			pb.Organisations[0].Version = v
			pb.Ref.Revision = uint64(v)
			return build(t, pb)
		}
		k := newAsker(t, l, versioned(1))
		k.take(1, 1)
		pass(20 * time.Millisecond)
		other := newAsker(t, l, versioned(2))
		other.take(1, 1)
		pass(3 * time.Second)
		took := elapsed(func() {
			if _, d := k.take(1, 1); !d.Allowed || !d.Degraded {
				t.Errorf("%+v", d)
			}
		})
		if took > 2*DefaultBudget {
			t.Errorf("waited %v", took)
		}
		calls := l.count()
		pass(5 * time.Second)
		if n := l.count() - calls; n > 60 {
			t.Errorf("%d calls in 5 s for an answer that stays the same", n)
		}
		k.apply(versioned(2))
		pass(2 * time.Second)
		if _, d := k.take(1, 1); !d.Allowed || d.Degraded {
			t.Errorf("with the newer table %+v", d)
		}
		other.stop()
	})
}

func TestSlotsWithoutTheStoreAreAShareToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, slotsOf(10, "share")))
		var open []*Reservation
		for range 4 {
			r, _ := k.take(1, 1)
			open = append(open, r)
		}
		outage(l)
		denied := ratelimit.Decision{Allowed: true}
		for denied.Allowed {
			var r *Reservation
			if r, denied = k.take(1, 1); denied.Allowed {
				open = append(open, r)
			}
		}
		// The whole share, and a fifth more: those from before the outage count.
		if len(open) != 12 {
			t.Errorf("%d at the same time", len(open))
		}
		open[0].Settle(1, 1, 1)
		if r, d := k.take(1, 1); !d.Allowed {
			t.Errorf("one has ended and %+v", d)
		} else {
			open[0] = r
		}
		l.set(up)
		pass(2 * time.Second)
		if _, d := k.take(1, 1); d.Allowed {
			t.Error("a thirteenth of ten")
		}
		for _, r := range open {
			r.Settle(1, 1, 1)
		}
		k.stop()
		if level, held, _ := l.Left("acme", "slots"); level != 10 || held != 0 {
			t.Errorf("%d free and %d held when all have ended", level, held)
		}
	})
}

func TestMoneyWithoutTheStoreIsAShareOfWhatIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		ledger []*routerpb.Spent
		heard  bool
		want   int // requests of 10,000 micro-dollars, of a budget of a million
	}{
		"nobody has told of the budget":   {nil, false, 0},
		"nothing is spent: a fifth":       {nil, true, 20},
		"nearly all is spent: the rest":   {[]*routerpb.Spent{{Organisation: "acme", Limit: "money", Micros: 950_000}}, true, 5},
		"more than all is spent: nothing": {[]*routerpb.Spent{{Organisation: "acme", Limit: "money", Micros: 1_050_000}}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLink()
				l.set(away)
				k := newAsker(t, l, tables(t, moneyOf(1_000_000, "share")))
				w, err := ratelimit.Daily.Window(time.Now(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range c.ledger {
					s.WindowUnixUs = w.FromUs
				}
				if c.heard {
					k.a.Ledger(true, c.ledger)
				}
				l.sick = ratelimit.ErrAway
				passed := 0
				for range 100 {
					if _, d := k.take(200_000, 0); d.Allowed { // at 50,000 a million
						passed++
					}
				}
				if passed != c.want {
					t.Errorf("%d passed, want %d", passed, c.want)
				}
			})
		})
	}
}

func TestAClosedLimitIsDegradedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		k := newAsker(t, l, tables(t, quota("requests", 60, "closed", 1)))
		k.admitted(1)
		outage(l)
		pass(2 * time.Second) // the lease is over
		if n := k.admitted(3); n != 0 {
			t.Fatalf("%d pass", n)
		}
		pass(3 * time.Second)
		l.set(up)
		pass(time.Second)
		k.a.mu.Lock()
		org := k.a.orgs["acme"]
		k.a.mu.Unlock()
		if total, away := org.time(time.Now()); away || total < 3*time.Second || total > 4*time.Second {
			t.Errorf("degraded for %v, and still is: %v", total, away)
		}
	})
}
