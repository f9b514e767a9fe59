package plan

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestCongestionRisesWithLoad(t *testing.T) {
	for _, slots := range []int{0, 1, 64, 256, maxSlots} {
		c := newCurve(slots)
		if got := c.at(0); got != 0 {
			t.Errorf("%d slots: an idle site costs %v", slots, got)
		}
		before := 0.0
		for rho := 0.001; rho < 5; rho += 0.001 {
			now := c.at(rho)
			if now <= before || math.IsNaN(now) || math.IsInf(now, 0) {
				t.Fatalf("%d slots: at %.3f the cost goes from %v to %v", slots, rho, before, now)
			}
			before = now
		}
	}
}

func TestMoreSlotsBearMoreLoad(t *testing.T) {
	few, many := newCurve(64), newCurve(512)
	for _, rho := range []float64{0.3, 0.5, 0.7, 0.75} {
		if few.at(rho) < many.at(rho) {
			t.Errorf("at %.2f 64 slots cost %.1f ms, 512 slots %.1f ms", rho, few.at(rho), many.at(rho))
		}
	}
	// The nearest neighbour of dev is 80 ms away: spill begins between half load and rhoMax.
	if few.at(0.5) > 80 || few.at(rhoMax) < 300 {
		t.Errorf("one endpoint costs %.0f ms at half load and %.0f ms at the limit", few.at(0.5), few.at(rhoMax))
	}
}

// The share found analytically is where a slow bisection finds it.
func TestShareIsWhereTheCurveSaysSo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCurve(rapid.SampledFrom([]int{1, 16, 64, 1024}).Draw(t, "slots"))
		base := rapid.Float64Range(0, 3).Draw(t, "base")
		use := rapid.Float64Range(1e-6, 10).Draw(t, "use")
		tilt := rapid.Float64Range(0.5, 100).Draw(t, "tilt")
		ms := rapid.Float64Range(0, 5000).Draw(t, "ms")
		got := c.share(ms, base, use, tilt)
		value := func(x float64) float64 { return c.at(base+x*use) + tilt*x }
		if got == 0 {
			if value(0) < ms*(1-1e-9) {
				t.Fatalf("share 0 costs %v, below %v", value(0), ms)
			}
			return
		}
		low, high := 0.0, 1.0
		for value(high) < ms {
			high *= 2
		}
		for range 200 {
			if middle := (low + high) / 2; value(middle) < ms {
				low = middle
			} else {
				high = middle
			}
		}
		if math.Abs(got-high) > 1e-6*(1+high) {
			t.Fatalf("share %v, bisection says %v", got, high)
		}
	})
}

// A demand that is nothing beside a site's load still has its share there.
func TestAShareIsExactHoweverSmallItsUse(t *testing.T) {
	c := newCurve(64)
	for _, base := range []float64{0, 0.1, 0.5, 3} {
		for _, use := range []float64{1e-6, 1e-12, 1e-18} {
			if got := c.share(c.at(base)+50, base, use, 100); math.Abs(got-0.5) > 0.01 {
				t.Errorf("use %g on a load of %g: share %g, want 0.5", use, base, got)
			}
		}
	}
}
