package shift

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestMovedWorkIsMoreWhileCachesAreCold(t *testing.T) {
	for name, c := range map[string]struct {
		cold Cold
		want float64
	}{
		"nobody has measured":         {Unmeasured, 1.7},
		"no prefill":                  {Cold{Hit: 0.9}, 1},
		"no hits":                     {Cold{Prefill: 0.5}, 1},
		"half and half":               {Cold{Prefill: 0.5, Hit: 0.5}, 1.5},
		"a cache that knows all":      {Cold{Prefill: 1, Hit: 1}, 20},
		"parts of no sense":           {Cold{Prefill: 7, Hit: -3}, 1},
		"what is no number is nought": {Cold{Prefill: math.NaN(), Hit: math.NaN()}, 1},
		"nothing is known":            {Cold{}, 1},
	} {
		if got := c.cold.Factor(); !near(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestCachesWarmUpWithTime(t *testing.T) {
	for after, want := range map[time.Duration]float64{
		-time.Hour: 1.7, 0: 1.7, 15 * time.Second: 1.35, WarmAfter: 1, time.Hour: 1,
	} {
		if got := Unmeasured.FactorAfter(after); !near(got, want) {
			t.Errorf("after %v: %v, want %v", after, got, want)
		}
	}
}

func TestSafeLoad(t *testing.T) {
	for _, c := range []struct {
		factor  float64
		regions int
		want    float64
	}{
		{1, 3, 0.6},
		{1.7, 3, 0.9 / 1.85},
		{1, 2, 0.45},
		{1.7, 2, 0.9 / 2.7},
		{1.7, 11, 0.9 / 1.17},
		{1.7, 1, 0},
		{1.7, 0, 0},
		{0.2, 3, 0.6},
		{math.NaN(), 3, 0.6},
	} {
		if got := Safe(c.factor, c.regions); !near(got, c.want) {
			t.Errorf("%d regions at %v: %v, want %v", c.regions, c.factor, got, c.want)
		}
	}
	if got := math.Floor(100 * Safe(Unmeasured.Factor(), 3)); got != 48 { // 48.6, said as 49
		t.Errorf("three regions with cold caches: %v %%", got)
	}
}

// What is safe by the formula is what headroom says: each survivor takes its part of what one region lost.
func TestSafeLoadIsWhatHeadroomAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 20).Draw(t, "regions")
		factor := rapid.Float64Range(1, 20).Draw(t, "factor")
		load := Safe(factor, n)
		if room := float64(n-1) * Headroom(1, load, Ceiling, factor); math.Abs(room-load) > 1e-9 {
			t.Fatalf("%d regions at %v have room for %v where one loses %v", n, load, room, load)
		}
		if more := load + 0.01; float64(n-1)*Headroom(1, more, Ceiling, factor) >= more {
			t.Fatalf("%v is safe too", more)
		}
	})
}

func TestHeadroom(t *testing.T) {
	for name, c := range map[string]struct{ capacity, load, ceiling, factor, want float64 }{
		"warm":               {1000, 600, 0.9, 1, 300},
		"cold":               {1000, 560, 0.9, 1.7, 200},
		"full":               {1000, 950, 0.9, 1.7, 0},
		"a factor below one": {1000, 600, 0.9, 0.1, 300},
		"no factor":          {1000, 600, 0.9, math.NaN(), 300},
	} {
		if got := Headroom(c.capacity, c.load, c.ceiling, c.factor); !near(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestOnlyWhatIsNewCountsAsCold(t *testing.T) {
	for name, c := range map[string]struct{ share, warm, factor, want float64 }{
		"all is known":       {0.4, 0.5, 1.7, 0.4},
		"some is new":        {0.6, 0.4, 1.5, 0.7},
		"all is new":         {0.5, 0, 2, 1},
		"less than none":     {0.5, -1, 2, 1},
		"caches are warm":    {0.5, 0, 1, 0.5},
		"a factor of no use": {0.5, 0, math.NaN(), 0.5},
	} {
		if got := Share(c.share, c.warm, c.factor); !near(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAPlaceGetsMoreAsItHasDoneMore(t *testing.T) {
	served, rate, seconds := 0.0, 0.0, 0
	for rate < 0.8 {
		rate = More(1, served)
		served += rate
		seconds++
	}
	if seconds < 27 || seconds > 32 {
		t.Errorf("from a twentieth to 80 %% of what it can do in %d s", seconds)
	}
	if Warmth(1000, 0) != 0 || Warmth(1000, 15_000) != 0.5 || Warmth(1000, 1e9) != 1 || Warmth(0, 5) != 0 || Warmth(1000, math.NaN()) != 0 {
		t.Error("warmth is not what was done over what fills a cache")
	}
}

func TestWhatUsageTellsOfCaches(t *testing.T) {
	for name, tt := range map[string]struct {
		input, cached, output int64
		want                  Cold
		known                 bool
	}{
		"half is cached":      {200_000, 100_000, 50_000, Cold{Hit: 0.5, Prefill: 0.25}, true},
		"nothing is":          {300_000, 0, 50_000, Cold{Hit: 0, Prefill: 0.5}, true},
		"all is":              {100_000, 100_000, 10, Cold{Hit: 1, Prefill: 0}, true},
		"no answers":          {100_000, 50_000, 0, Cold{Hit: 0.5, Prefill: 1}, true},
		"more than there was": {100_000, 500_000, 0, Cold{Hit: 1, Prefill: 0}, true},
		"less than none":      {100_000, -5, 0, Cold{Hit: 0, Prefill: 1}, true},
		"too little to tell":  {99_999, 0, 50_000, Cold{}, false},
		"nothing at all":      {0, 0, 0, Cold{}, false},
	} {
		got, known := Measured(tt.input, tt.cached, tt.output, 6)
		if known != tt.known || !near(got.Hit, tt.want.Hit) || !near(got.Prefill, tt.want.Prefill) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, known, tt.want)
		}
	}
}
