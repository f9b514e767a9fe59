package ratelimit

import (
	"math"
	"testing"
)

func TestTheTightestIsTheSmallestPartLeft(t *testing.T) {
	step := func(id string, kind Kind, burst, level int64) (Charge, Bucket) {
		return Charge{Limit: Limit{ID: id, Kind: kind, Amount: burst, PeriodMs: 60_000, Burst: burst}}, Bucket{Level: level}
	}
	for name, c := range map[string]struct {
		bursts, levels [2]int64
		tightest       int
	}{
		"by part, not by number":    {[2]int64{1000, 10}, [2]int64{100, 9}, 0},
		"the first when equal":      {[2]int64{1000, 10}, [2]int64{500, 5}, 0},
		"debt before none":          {[2]int64{1000, 10}, [2]int64{0, -1}, 1},
		"deeper debt":               {[2]int64{1000, 10}, [2]int64{-100, -2}, 1},
		"products past 64 bits":     {[2]int64{1 << 50, 1<<50 - 1}, [2]int64{1 << 49, 1<<49 - 1}, 1},
		"full when all are":         {[2]int64{7, 9}, [2]int64{7, 9}, 0},
		"empty before nearly empty": {[2]int64{1 << 40, 1 << 40}, [2]int64{1, 0}, 1},
	} {
		p0, b0 := step("a", Requests, c.bursts[0], c.levels[0])
		p1, b1 := step("b", TotalTokens, c.bursts[1], c.levels[1])
		d := Decide([]Charge{p0, p1}, []Bucket{b0, b1}, true)
		if d.Tightest != c.tightest || d.Limit.ID != []string{"a", "b"}[c.tightest] {
			t.Errorf("%s: %d (%s), want %d", name, d.Tightest, d.Limit.ID, c.tightest)
		}
		if d.Remaining != c.levels[c.tightest] || d.RetryAfterMs != 0 || d.Reason != ReasonNone {
			t.Errorf("%s: %+v", name, d)
		}
		if d.Requests.Limit.ID != "a" || d.Tokens.Limit.ID != "b" {
			t.Errorf("%s: sorts %s and %s", name, d.Requests.Limit.ID, d.Tokens.Limit.ID)
		}
	}
}

func TestARefusalNamesTheLongestWait(t *testing.T) {
	slow := Charge{Limit: Limit{ID: "slow", Kind: Requests, Amount: 1, PeriodMs: 60_000, Burst: 5}, Cost: 1}
	fast := Charge{Limit: Limit{ID: "fast", Kind: TotalTokens, Amount: 6000, PeriodMs: 60_000, Burst: 6000}, Cost: 500}
	path := []Charge{fast, slow}
	for name, c := range map[string]struct {
		levels [2]int64
		limit  string
		retry  int64
	}{
		"only the fast one":       {[2]int64{400, 5}, "fast", 1000},
		"only the slow one":       {[2]int64{6000, 0}, "slow", 60_000},
		"both":                    {[2]int64{0, 0}, "slow", 60_000},
		"both, the fast in debt":  {[2]int64{-6000, 0}, "fast", 65_000},
		"not the one nearly gone": {[2]int64{499, 1}, "fast", 10},
	} {
		buckets := []Bucket{{Level: c.levels[0]}, {Level: c.levels[1]}}
		if TakeAll(path, buckets, 0) {
			t.Fatalf("%s: allowed", name)
		}
		d := Decide(path, buckets, false)
		if d.Limit.ID != c.limit || d.RetryAfterMs != c.retry || d.Reason != ReasonOver {
			t.Errorf("%s: %s after %d ms (%s), want %s after %d ms", name, d.Limit.ID, d.RetryAfterMs, d.Reason, c.limit, c.retry)
		}
	}
}

func TestNothingToWaitForIsSaidSo(t *testing.T) {
	l := Limit{ID: "x", Kind: TotalTokens, Amount: 100, PeriodMs: 60_000, Burst: 100}
	path := []Charge{{Limit: l, Cost: 101}}
	buckets := []Bucket{Full(l, 0)}
	if TakeAll(path, buckets, 0) {
		t.Fatal("allowed")
	}
	d := Decide(path, buckets, false)
	if d.Reason != ReasonTooLarge || d.RetryAfterMs != 0 || d.Cost != 101 {
		t.Errorf("%+v", d)
	}
	path[0].Cost = math.MaxInt64
	if TakeAll(path, buckets, 0) || Decide(path, buckets, false).Reason != ReasonTooLarge {
		t.Error("the largest number of all passes")
	}
}

func TestABoundedCostMakesTheSameDifference(t *testing.T) {
	l := Limit{ID: "x", Kind: TotalTokens, Amount: 100, PeriodMs: 60_000, Burst: 100}
	for _, cost := range []int64{math.MinInt64, -1000, -201, -5, 0, 5, 201, 1000, math.MaxInt64} {
		for _, level := range []int64{-100, 0, 40, 100} {
			c := Charge{Limit: l, Cost: cost}
			want := max(level-min(cost, 300), -100)
			if cost < 0 {
				want = min(level-max(cost, -300), 100)
			}
			buckets := []Bucket{{Level: level}}
			AdjustAll([]Charge{c}, buckets, 0)
			if buckets[0].Level != want {
				t.Errorf("cost %d at %d: %d, want %d", cost, level, buckets[0].Level, want)
			}
		}
	}
}
