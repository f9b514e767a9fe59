package quotas

import (
	"testing"

	"pgregory.net/rapid"

	"anabranch/ratelimit"
)

// TestTheEnvelopeIsOverEveryWindow holds the excess to what it is by definition, window by window.
func TestTheEnvelopeIsOverEveryWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ratelimit.Limit{
			ID: "x", Kind: ratelimit.TotalTokens, PeriodMs: 60_000,
			Amount: rapid.Int64Range(1, 1e6).Draw(t, "amount"), Burst: rapid.Int64Range(1, 1e4).Draw(t, "burst"),
		}
		type spent struct{ at, n int64 }
		var all []spent
		const begin = 1_000_000_000
		e := newEnvelope(l, begin)
		at := int64(begin)
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			at += rapid.Int64Range(0, 3_000_000).Draw(t, "pause")
			n := rapid.Int64Range(0, 2*l.Burst).Draw(t, "cost")
			all = append(all, spent{at, n})
			e.spend(n, at)
		}
		most := -float64(l.Burst)
		for i := range all {
			sum := int64(0)
			for _, s := range all[i:] {
				sum += s.n
				inflow := float64(s.at-all[i].at) * float64(l.Amount) / float64(l.PeriodMs*1000)
				most = max(most, float64(sum)-inflow-float64(l.Burst))
			}
		}
		if got := e.excess() * float64(l.Burst); got < most-1e-3 || got > most+1e-3 {
			t.Fatalf("excess %v units, by definition %v", got, most)
		}
	})
}

func TestALargeLimitDoesNotOverflowTheEnvelope(t *testing.T) {
	l := ratelimit.Limit{ID: "x", Kind: ratelimit.TotalTokens, PeriodMs: 60_000, Amount: 48_000_000, Burst: 48_000_000}
	e := newEnvelope(l, 0)
	for i := range int64(1000) {
		e.spend(48_000_000, i*3_600_000_000) // after an hour each it is full again
	}
	if e.excess() != 0 {
		t.Errorf("excess %v after full buckets were spent", e.excess())
	}
	for range 2000 {
		e.spend(48_000_000, 1000*3_600_000_000)
	}
	if got := e.excess(); got < 500 {
		t.Errorf("excess %v bursts of 1999", got)
	}
}
