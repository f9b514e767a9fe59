package plan

import (
	"math"
	"testing"

	"anabranch/controlplane/policy"
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

// Above rhoMax all sites are worse than the way to another: they share what is too much within some percent of load, and
// no more is asked of any than it does.
func TestCrampedSitesCostAboutAWay(t *testing.T) {
	for _, slots := range []int{64, 256, maxSlots} {
		c := newCurve(slots)
		if by := c.at(0.9) - c.at(0.89); by < 50 || by > 150 {
			t.Errorf("%d slots: a percent more load costs %.0f ms more", slots, by)
		}
		if most := c.at(loadMax); most > shedMs || most > tierOf(policy.TierBatch).step(1).CostMs {
			t.Errorf("%d slots: at its limit a site costs %.0f ms, more than not to serve", slots, most)
		}
	}
}

func tierOf(name string) tier { return tier{policy.TierPriority(name), 1} }
