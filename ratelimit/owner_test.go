package ratelimit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// ready runs a router whose requests cost as much as next says, each ms, and answers what it held at
// most in the last of the seconds.
func ready(t *testing.T, a *Account, r *router, seconds int64, next func() int64) int64 {
	t.Helper()
	var most int64
	for now := ms; now < seconds*1000*ms; now += ms {
		if cost := next(); cost > 0 {
			r.Spend([]int64{cost}, now)
		}
		if r.Due(now) {
			r.refresh(t, a, now)
		}
		if now > (seconds-1)*1000*ms {
			most = max(most, r.Left(0, now))
		}
	}
	return most
}

func TestMoreIsHeldReadyWhereDemandVaries(t *testing.T) {
	// Both ask for 2000 a second on average, of which a quarter is 500.
	l := rate("tpm", 600_000, 12_000)
	steady := newRouter("steady", l)
	even := ready(t, &Account{}, steady, 8, func() int64 { return 2 })
	random := rand.New(rand.NewPCG(1, 1))
	rough := ready(t, &Account{}, newRouter("rough", l), 8, func() int64 {
		if random.IntN(200) == 0 {
			return 400
		}
		return 0
	})
	// With 20 of 400 in a second the standard deviation of a span is some 900.
	if rough < even+900 {
		t.Errorf("%d are held where demand comes in lumps, %d where it is even", rough, even)
	}
	if even > 2*2000*2 {
		t.Errorf("%d are held of an even demand of 2000 a second", even)
	}
}

func TestARouterHoldsMoreOnlyWhereThereIsPlenty(t *testing.T) {
	for _, c := range []struct {
		name        string
		burst       int64
		taken       int64 // by another, who goes on holding it
		least, most int64
	}{
		{"nearly all is there", 100_000, 0, 1500, 2500},
		{"less than half, but much more than is wanted", 100_000, 70_000, 1500, 2500},
		{"not much more than is wanted", 9000, 7500, 200, 700},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := Limit{ID: "tpm", Kind: TotalTokens, Amount: 60_000, PeriodMs: 60_000, Burst: c.burst}
			a, r, other := &Account{}, newRouter("r", l), newRouter("other", l)
			most := int64(0)
			if c.taken > 0 {
				other.Spend([]int64{c.taken}, ms)
			}
			for now := ms; now < 6000*ms; now += ms {
				r.Spend([]int64{1}, now)
				if r.Due(now) {
					r.refresh(t, a, now)
				}
				if c.taken > 0 && now%(200*ms) == ms { // before its demand is forgotten
					in := other.call(now)
					in.Path[0].Want = max(c.taken-held(a, other), 0)
					in.Path[0].Used, in.Path[0].Back = 0, 0
					other.Answer(a.Lease(&in, now/1000), now)
				}
				if now > 4000*ms {
					most = max(most, r.Left(0, now))
				}
			}
			if most < c.least || most > c.most {
				t.Errorf("it holds %d of a demand of 1000 a second, want %d to %d", most, c.least, c.most)
			}
		})
	}
}

// held is what the account last told the router that it holds.
func held(a *Account, r *router) int64 {
	in := In{Router: r.name}
	for _, l := range r.limits {
		in.Path = append(in.Path, Level{Limit: l})
	}
	if out := a.lanes[in.Lane()].out; len(out.Path) > 0 {
		return out.Path[0].Held
	}
	return 0
}

func TestDemandIsForgottenWithItsSpread(t *testing.T) {
	var d demand
	for range 50 {
		d.add(0, 100*time.Millisecond, smoothing)
		d.add(1000, 100*time.Millisecond, smoothing)
	}
	if got, mean := d.of(time.Second), d.rate; got < mean+2000 || got > mean+8000 {
		t.Errorf("%.0f are wanted for a second of %.0f that comes in lumps of 1000", got, mean)
	}
	for range 60 {
		d.add(0, 100*time.Millisecond, smoothing)
	}
	if got := d.of(MinSpan); got != 0 {
		t.Errorf("after six quiet seconds %.2f are wanted", got)
	}
}

func TestACallIsDueSoonBeforeItIsDue(t *testing.T) {
	l := rate("tpm", 60_000, 60_000)
	fresh := func() (*router, int64) {
		r, a := newRouter("r", l), &Account{}
		r.Spend([]int64{1000}, ms)
		r.refresh(t, a, ms)
		return r, r.Left(0, 2*ms)
	}
	_, held := fresh()
	for _, c := range []struct {
		name      string
		spent     int64
		at        int64
		soon, due bool
	}{
		{"fresh", 0, 2 * ms, false, false},
		{"a fifth is spent", held / 5, 2 * ms, false, false},
		{"a quarter is spent", held/4 + 2, 2 * ms, true, false},
		{"half is spent", held/2 + 2, 2 * ms, true, true},
		{"a fifth of its time is gone", 0, ms + 200*ms, false, false},
		{"a quarter of its time is gone", 0, ms + 250*ms, true, false},
		{"half of its time is gone", 0, ms + 500*ms, true, true},
	} {
		r, _ := fresh()
		if c.spent > 0 {
			r.Spend([]int64{c.spent}, 2*ms)
		}
		if soon, due := r.Soon(c.at), r.Due(c.at); soon != c.soon || due != c.due {
			t.Errorf("%s: soon %v and due %v, want %v and %v", c.name, soon, due, c.soon, c.due)
		}
	}
	// What is on its way, or was refused, goes along with nothing before its own time.
	r, _ := fresh()
	in := r.call(300 * ms)
	if r.Soon(310*ms) || !r.Soon(350*ms) {
		t.Error("a call on its way is made again before it is due")
	}
	r.Answer(Out{Status: Granted, Valid: DefaultTTL, Path: []Grant{{Held: 100, Granted: in.Path[0].Want - 1}}}, 310*ms)
	if r.Soon(340*ms) || !r.Soon(350*ms) {
		t.Error("a router that was refused asks again before its time")
	}
	if (&Holding{}).Soon(ms) {
		t.Error("nothing is held and nobody asks, and a call is due soon")
	}
}

// TestADebtIsNotMadeUpForTwice charges more than is held and gives part of it back before anybody is told.
func TestADebtIsNotMadeUpForTwice(t *testing.T) {
	for _, c := range []struct {
		name              string
		charge, back      int64
		left, used, again int64 // what may be spent then, and what is told
	}{
		{"less than is held", 200, 50, 850, 150, 0},
		{"more than is held", 5000, 3000, 0, 2000, 0},
		{"nearly all comes back", 5000, 4500, 500, 500, 0},
		{"more comes back than was charged", 200, 700, 1000, 0, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, a := newRouter("r", rate("tpm", 60, 10_000)), &Account{}
			r.Spend([]int64{1000}, ms)
			r.refresh(t, a, ms)
			if got := r.Left(0, 2*ms); got != 1000 {
				t.Fatalf("%d are held, want 1000", got)
			}
			r.Charge([]int64{c.charge})
			r.Charge([]int64{-c.back})
			in := r.call(2 * ms)
			if got, l := r.Left(0, 2*ms)+in.Path[0].Back, in.Path[0]; got != c.left || l.Used != c.used || l.Refund != c.again {
				t.Errorf("%d may be spent, %d are told as used and %d as refunded, want %d, %d and %d",
					got, l.Used, l.Refund, c.left, c.used, c.again)
			}
		})
	}
}

// TestWhatIsHeldOfOneLevelIsNotKeptFromUseByAnother has two routers hold all of one level and nothing of
// another, of which there is plenty.
func TestWhatIsHeldOfOneLevelIsNotKeptFromUseByAnother(t *testing.T) {
	shared, own := rate("shared", 60, 2000), rate("own", 60, 100_000)
	a := &Account{}
	routers := []*router{newRouter("a", shared, own), newRouter("b", shared, own)}
	for _, r := range routers {
		r.Spend([]int64{1000, 1000}, ms)
		r.refresh(t, a, ms)
		r.Charge([]int64{0, 1000}) // of its own level all is gone
		for range 50 {
			r.Spend([]int64{100, 100}, 2*ms) // and much more is wanted of both
		}
	}
	spent := int64(0)
	for now := 2 * ms; now < 500*ms; now += ms {
		for _, r := range routers {
			if r.Spend([]int64{100, 100}, now) == Spent {
				spent += 100
			}
			if r.Due(now) {
				r.refresh(t, a, now)
			}
		}
	}
	if spent != 2000 {
		t.Errorf("%d were spent of the 2000 that there were", spent)
	}
}

func TestAnOutageIsNoBurst(t *testing.T) {
	l := rate("tpm", 600_000, 600_000)
	r, a := newRouter("r", l), &Account{}
	// Ten each ms are ten thousand a second.
	for now := ms; now < 1000*ms; now += ms {
		r.Spend([]int64{10}, now)
		if r.Due(now) {
			r.refresh(t, a, now)
		}
	}
	for now := 1000 * ms; now < 21_000*ms; now += ms {
		if r.Spend([]int64{10}, now) != Spent {
			r.Charge([]int64{10}) // by itself
		}
		if r.Due(now) {
			r.call(now) // and no answer
		}
	}
	r.refresh(t, a, 21_000*ms) // the call that had no answer
	in := r.call(21_001 * ms)
	if used := in.Path[0].Used; used < 150_000 {
		t.Fatalf("%d of the outage are told", used)
	}
	// A demand of two seconds, which is the longest span, is 20,000.
	if want := in.Path[0].Want; want > 40_000 {
		t.Errorf("after an outage %d are wanted", want)
	}
}

func TestOfAllLevelsTheSamePartOfADemandIsWanted(t *testing.T) {
	org, own := rate("org", 6_000_000, 6_000_000), rate("own", 60_000, 60_000)
	a := &Account{}
	r := newRouter("r", org, own)
	var now int64
	for now = ms; now < 2000*ms; now += ms {
		r.Spend([]int64{10_000, 10_000}, now) // ten million a second
		if r.Due(now) {
			r.refresh(t, a, now)
		}
		if _, held, _ := a.Left("org"); held > 60_000 {
			t.Fatalf("%d of the organisation's are held where no more than 60,000 can ever be spent", held)
		}
	}
	// A request that is much larger than the others is not forgotten for them.
	pair := newRouter("pair", rate("rpm", 60, 60), rate("tpm", 600_000, 600_000))
	for range 100_000 {
		pair.Spend([]int64{1, 10}, now)
	}
	pair.Spend([]int64{1, 400_000}, now)
	if in := pair.call(now); in.Path[0].Want != 60 || in.Path[1].Want != 400_000 {
		t.Errorf("%d requests and %d tokens are wanted, want 60 and 400,000", in.Path[0].Want, in.Path[1].Want)
	}
}

func TestWhatCanNeverPassIsNoDemand(t *testing.T) {
	r := newRouter("r", rate("rpm", 600, 600), rate("tpm", 1000, 1000))
	for range 100 {
		r.Spend([]int64{1, 1001}, ms)
	}
	if !r.Due(ms) {
		t.Error("nothing is due: the limit may have been raised")
	}
	if in := r.call(ms); in.Path[0].Want != 0 || in.Path[1].Want != 0 {
		t.Errorf("%d requests and %d tokens are wanted for what can't pass", in.Path[0].Want, in.Path[1].Want)
	}
}

func TestWhatIsHeldAboveALimitThatWasLoweredGoesBack(t *testing.T) {
	was := Limit{ID: "requests", Kind: Requests, Amount: 60_000, PeriodMs: 60_000, Burst: 60_000}
	now := was
	now.Amount, now.Burst = 1, 1
	lender := NewLending(nil)
	h := NewHolding([]Limit{was})
	call := func(policy int64, l Limit, at time.Duration) {
		t.Helper()
		in := In{Org: "acme", Epoch: 1, Young: true, Router: "r", TTL: time.Second, Policy: policy, Path: []Level{{Limit: l}}}
		h.Call(&in, MinSpan, int64(at))
		out, err := lender.Lease(t.Context(), in)
		if err != nil || !h.Answer(out, int64(at)) {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	at := time.Second
	for range 20 { // a demand of 1,000 a second
		for range 50 {
			h.Spend([]int64{1}, int64(at))
		}
		call(1, was, at)
		at += 50 * time.Millisecond
	}
	if held := h.Left(0, int64(at)); held < 100 {
		t.Fatalf("%d are held before, want many", held)
	}
	call(2, now, at)
	if held := h.Left(0, int64(at)); held > 1 {
		t.Errorf("%d are held of a limit of 1", held)
	}
}
