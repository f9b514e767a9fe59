package ratelimit

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// alone is a router that spends its part by itself while it is cut off, and charges that when it is
// back.
type alone struct {
	*station
	parts int64
	away  bool
	since int64 // ms
	level []float64
	spent []int64
}

// newAlone has a fifth of its part of the burst to begin with, once.
func newAlone(s *station, parts int64) *alone {
	a := &alone{station: s, parts: parts, spent: make([]int64, len(s.limits))}
	for _, l := range s.limits {
		a.level = append(a.level, float64(l.Burst)/5*float64(parts)/ShareParts)
	}
	return a
}

func (a *alone) tick(w *world, now int64) {
	flying := a.flight
	w.message(a.station, now)
	switch {
	case !a.away && a.pending != nil && now*ms-a.sentNs > 300*ms:
		a.away, a.since = true, now
	case a.away && a.pending == nil:
		a.away = false
		over := flying.out.Gap.Within(time.Duration((now-a.since)*ms), 0)
		charges := make([]int64, len(a.spent))
		for i, n := range a.spent {
			charges[i] = max(n-Allowance(a.limits[i], a.parts, over), 0)
			a.spent[i] = 0
		}
		a.Charge(charges)
	case a.away:
		for i, l := range a.limits {
			a.level[i] += float64(l.Amount) / float64(l.PeriodMs) * float64(a.parts) / ShareParts
		}
	}
}

func (a *alone) take(costs []int64, now int64) bool {
	if a.Spend(costs, now*ms) == Spent {
		return true
	}
	if !a.away {
		return false
	}
	for i, c := range costs {
		if a.level[i] < float64(c) {
			return false
		}
	}
	for i, c := range costs {
		a.level[i] -= float64(c)
		a.spent[i] += c
	}
	return true
}

// TestARegionThatIsCutOffSpendsWhatIsSetAside runs two routers in each of five regions, at twice the limit, of
// which some are cut off. What is spent beyond the envelope stays within the regions' share of a fifth of
// the burst and of the inflow until they are missed, and all that may be used is.
func TestARegionThatIsCutOffSpendsWhatIsSetAside(t *testing.T) {
	limits := []Limit{
		{ID: "tpm", Kind: TotalTokens, Amount: 120_000, PeriodMs: 60_000, Burst: 10_000},
		{ID: "rpm", Kind: Requests, Amount: 60_000, PeriodMs: 60_000, Burst: 60_000},
	}
	shares := []Share{{"r0", 300_000}, {"r1", 250_000}, {"r2", 200_000}, {"r3", 150_000}, {"r4", 100_000}}
	const start, first, last, end = 1_000_000, 10_000, 25_000, 40_000 // ms
	for name, c := range map[string]struct {
		away  int64 // the parts that are cut off at the worst
		cut   func(region, router int, at int64) bool
		lose  float64
		least float64
	}{
		"nobody":         {0, func(int, int, int64) bool { return false }, 0, 0.97},
		"one region":     {300_000, func(r, _ int, _ int64) bool { return r == 0 }, 0, 0.93},
		"two regions":    {250_000, func(r, _ int, _ int64) bool { return r >= 3 }, 0, 0.93},
		"all regions":    {ShareParts, func(int, int, int64) bool { return true }, 0, 0.85},
		"one by one":     {450_000, func(r, _ int, at int64) bool { return at >= int64(r)*3000 && at < int64(r)*3000+4000 }, 0, 0.9},
		"back and forth": {300_000, func(r, _ int, at int64) bool { return r == 0 && at%4000 < 2500 }, 0, 0.9},
		"its second router is back later": {
			300_000, func(r, i int, at int64) bool { return r == 0 && (i == 1 || at < last-first-200) }, 0.1, 0.93,
		},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(7, 3))
			w := &world{t: t, random: random, limits: limits, faults: faults{lose: c.lose}}
			var routers []*alone
			for i, s := range shares {
				for range 2 {
					st := w.station([]int64{1, 70, 90, 150, 210}[i])
					st.region, st.shares = s.Region, shares
					routers = append(routers, newAlone(st, s.Parts/2))
				}
			}
			over := newEnvelope(limits[0])
			over.atUs = start * 1000
			var worst int64
			var used [end / 1000]int64 // in each second
			owed := 0.0
			for at := range int64(end) {
				now := start + at
				for owed += 4; owed > 0; { // twice the limit
					costs := []int64{1 + random.Int64N(40), 1}
					owed -= float64(costs[0])
					if routers[random.IntN(len(routers))].take(costs, now) {
						worst = max(worst, over.spend(costs[0], now*1000))
						used[at/1000] += costs[0]
					}
				}
				for i, r := range routers {
					r.cut = at >= first && at < last && c.cut(i/2, i%2, at-first)
					r.tick(w, now)
				}
			}
			most := c.away * limits[0].Burst / 5 / ShareParts
			if c.away < ShareParts {
				most += c.away * 2 * SilentAfter.Milliseconds() / ShareParts // others spend it too until then
			}
			part := func(from, to int64) (p float64) {
				for _, n := range used[from/1000 : to/1000] {
					p += float64(n) / 2000 / float64(to-from) * 1000
				}
				return p
			}
			t.Logf("%d above the envelope, %d may be; of the limit %.1f %% used before, %.1f %% meanwhile, %.1f %% later, %.1f %% in all",
				worst, most, 100*part(5000, first), 100*part(first, last), 100*part(last+4000, end), 100*part(5000, end))
			if worst > most {
				t.Errorf("%d more than rate × t + burst were spent, want at most %d", worst, most)
			}
			if p := part(5000, end); p < c.least {
				t.Errorf("only %.1f %% of the limit were used, want %.0f %%", 100*p, 100*c.least)
			}
			if p := part(last+4000, end); p < 0.95 {
				t.Errorf("from four seconds after the return only %.1f %% were used", 100*p)
			}
		})
	}
}

// TestAllowancesAreNeverMoreThanWasSetAside compares what flowed in beside a region that is missed with what
// would have without shares.
func TestAllowancesAreNeverMoreThanWasSetAside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits(t)
		parts := rapid.Int64Range(0, ShareParts).Draw(t, "parts")
		shares := []Share{{"gone", parts}, {"here", ShareParts - parts}}
		var with, without Account
		now, seq := rapid.Int64Range(0, 1<<50).Draw(t, "start"), int64(0)
		call := func(router, region string, used, want int64) (Out, int64) {
			seq++
			in := In{
				Org: "o", Epoch: 1, Young: true, Router: router, Region: region, Seq: seq, TTL: DefaultTTL, Shares: shares,
				Path: []Level{{Limit: l, Used: used, Want: want}},
			}
			out := with.Lease(&in, now)
			in.Shares = nil
			return out, without.Lease(&in, now).Path[0].Level
		}
		// From the deepest debt, so that nothing runs over.
		call("a", "gone", 1<<60, 1)
		left := min((2*l.Burst-1)*l.Period()/l.Amount*l.Unit(), 1<<50)
		for range rapid.IntRange(0, 20).Draw(t, "calls") {
			step := rapid.Int64Range(0, left/4).Draw(t, "dt")
			now, left = now+step, left-step
			call("b", "here", 0, 0)
		}
		var sum, unread int64
		if l.Unit() > 1 { // of a large limit both levels are as of the last whole millisecond
			unread = ceilDiv(l.Amount, l.Period())
		}
		rest := parts
		for i := range rapid.IntRange(1, 5).Draw(t, "routers") {
			step := rapid.Int64Range(0, min(left, 1_000_000)).Draw(t, "later")
			now, left = now+step, left-step
			out, full := call("r"+strconv.Itoa(i), "gone", 0, 0)
			if out.Gap.From == Always {
				return // it was not missed
			}
			aside := full - out.Path[0].Level
			mine := rapid.Int64Range(0, rest).Draw(t, "part")
			rest -= mine
			if sum += Allowance(l, mine, out.Gap.Within(Always, 0)); sum > aside+unread {
				t.Fatalf("allowances of %d for %+v, %d were set aside", sum, out.Gap, aside)
			}
		}
	})
}
