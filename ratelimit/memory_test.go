package ratelimit_test

import (
	"testing"

	"anabranch/ratelimit"
	"anabranch/ratelimit/ratelimittest"
)

func TestMemoryIsAnAuthority(t *testing.T) {
	ratelimittest.Run(t, func(_ *testing.T, clock *ratelimittest.Clock) ratelimittest.Subject {
		m := ratelimit.NewMemory(clock.Now)
		return ratelimittest.Subject{Authority: m, Bucket: m.Bucket}
	})
}

func TestMemoryRunsOnTheRealClockUnlessTold(t *testing.T) {
	m := ratelimit.NewMemory(nil)
	l := ratelimit.Limit{ID: "rpm", Kind: ratelimit.Requests, Amount: 1, PeriodMs: 3_600_000, Burst: 1}
	path := []ratelimit.Charge{{Limit: l, Cost: 1}}
	for i, want := range []bool{true, false} {
		d, err := m.Take(t.Context(), "acme", path)
		if err != nil || d.Allowed != want {
			t.Errorf("request %d: %+v, %v; want allowed %v", i, d, err, want)
		}
	}
}

func BenchmarkMemoryTakeSixLimits(b *testing.B) {
	m := ratelimit.NewMemory(nil)
	var path []ratelimit.Charge
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		l := ratelimit.Limit{ID: id, Kind: ratelimit.TotalTokens, Amount: 1e7, PeriodMs: 60_000, Burst: 1e7}
		path = append(path, ratelimit.Charge{Limit: l, Cost: 1})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Take(b.Context(), "acme", path); err != nil {
			b.Fatal(err)
		}
	}
}
