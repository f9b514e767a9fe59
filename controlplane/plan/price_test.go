package plan

import (
	"fmt"
	"testing"
	"time"

	"anabranch/failover"
)

// priced is a fleet whose traffic in us stays there until its GPUs cost more than those of eu.
func priced(t *testing.T) *bench {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "costPreference: 1")
	b.charge(1)
	b.ask("us", 3000)
	b.report()
	b.plan()
	near(t, "share at home while prices are alike", region(b.shares("us"), "us"), 1, 0)
	return b
}

// everySecond plans for some seconds, and fails when more than most moves in any one of them.
func (b *bench) everySecond(t *testing.T, seconds int, most float64) {
	t.Helper()
	for range seconds {
		before := b.shares("us")
		b.after(1)
		moved := 0.0
		for c, x := range b.shares("us") {
			moved += max(x-before[c], 0)
		}
		if moved > most+3*quantum {
			t.Fatalf("%.4f moved within a second, want at most %.4f", moved, most)
		}
	}
}

func TestAChangeOfPriceMovesTwentyPointsAMinute(t *testing.T) {
	b := priced(t)
	b.after(20)
	b.reprice(8)
	b.everySecond(t, 60, priceGrowth)
	near(t, "after a minute", region(b.shares("us"), "eu"), 0.2, 0.01)
	if got := b.told("us")["eu-a"]; got != repriced {
		t.Errorf("on the way the reason is %q", got)
	}
	b.everySecond(t, 120, priceGrowth)
	near(t, "after three", region(b.shares("us"), "eu"), 0.6, 0.02)

	b.reprice(1) // back: that is a change of price, too
	b.everySecond(t, 60, priceGrowth)
	near(t, "a minute after it has gone back", region(b.shares("us"), "eu"), 0.4, 0.02)
	b.everySecond(t, 180, priceGrowth)
	near(t, "in the end", region(b.shares("us"), "us"), 1, 2*deadBand) // of two clusters
	for c, why := range b.told("us") {
		if why == repriced {
			t.Errorf("it is over, and the reason of %s is %q", c, why)
		}
	}
}

// A price that begins or ends to hold is a change of price, although nobody writes anything.
func TestAPriceThatComesIntoForceMovesTwentyPointsAMinute(t *testing.T) {
	for name, bounds := range map[string]string{
		"it begins":              "{class: h100, region: us, usdPerHour: 1}, {class: h100, region: us, usdPerHour: 8, from: %s}",
		"the one before it ends": "{class: h100, region: us, usdPerHour: 8}, {class: h100, region: us, usdPerHour: 1, from: 2020-01-01T00:00:00Z, until: %s}",
	} {
		t.Run(name, func(t *testing.T) {
			b := priced(t)
			at := b.now.Add(90 * time.Second).UTC().Format(time.RFC3339)
			b.write("RateCard", "list", "gpus: ["+fmt.Sprintf(bounds, at)+", {class: h100, region: eu, usdPerHour: 1.1}, {class: h100, region: ap, usdPerHour: 9}]")
			b.write("Model", "another", "{}") // makes a table that is newer than the card
			b.after(80)
			near(t, "share at home before", region(b.shares("us"), "us"), 1, 0)
			b.everySecond(t, 70, priceGrowth)
			near(t, "a minute after", region(b.shares("us"), "eu"), 0.2, 0.01)
		})
	}
}

// What work costs depends on what a cluster is measured to do, too. That breathes, and traffic must not with it.
func TestWhatOnlySavesMoneyMovesTwentyPointsAMinute(t *testing.T) {
	b := priced(t)
	b.write("RateCard", "list", "gpus: [{class: h100, region: us, usdPerHour: 1}, {class: h100, region: eu, usdPerHour: 0.99}, {class: h100, region: ap, usdPerHour: 1}]")
	b.write("Model", "another", "{}") // makes a table that is newer than the card
	b.report()
	b.after(20)
	near(t, "at home while eu saves little", region(b.shares("us"), "us"), 1, 0)

	b.capacity["us-a"], b.capacity["us-b"] = 7_000, 3_500
	b.after(10) // until that is believed
	b.everySecond(t, 60, priceGrowth)
	near(t, "in eu after a minute", region(b.shares("us"), "eu"), 0.2, 0.04)
	if r := b.explained("us", 0).to("eu-a"); !r.bound(ConstraintPrice) {
		t.Errorf("constraints of eu-a: %v", r.Constraints)
	}

	b.capacity["us-a"], b.capacity["us-b"] = 10_000, 5_000
	b.after(300) // a capacity that rises is believed in minutes; home is sooner, too, so there is nothing to wait for then
	near(t, "at home again", region(b.shares("us"), "us"), 1, 2*deadBand)
}

func TestAPriceAlsoMovesSlowlyWithinARegion(t *testing.T) {
	b := priced(t)
	b.write("RateCard", "list", "gpus: [{class: h100, region: us, usdPerHour: 1}, {class: h100, region: us, purchase: spot, usdPerHour: 9}, "+
		"{class: h100, region: eu, usdPerHour: 9}, {class: h100, region: ap, usdPerHour: 9}]")
	b.cluster("us-b", "us", 5000, "gpus: [{class: h100, count: 4, purchase: spot}]")
	b.after(1)
	before := b.shares("us")
	b.everySecond(t, 30, priceGrowth)
	if moved := distanceOf(before, b.shares("us")); moved < 0.05 || moved > 0.1+10*quantum {
		t.Errorf("%.3f moved in half a minute", moved)
	}
}

func TestLoadKeepsItsPaceWhilePricesMove(t *testing.T) {
	b := priced(t)
	b.reprice(8)
	b.everySecond(t, 10, priceGrowth)
	before := region(b.shares("us"), "us")
	b.ask("us", 40_000) // home cannot do that
	b.after(20)
	if left := before - region(b.shares("us"), "us"); left < 0.2 {
		t.Errorf("in 20 s of overload %.3f left home, at the pace of prices", left)
	}
}

func TestWithoutAChangeOfPriceLoadKeepsItsPace(t *testing.T) {
	b := priced(t)
	b.after(20)
	b.ask("us", 11_500) // below what sites should work at
	b.report()
	b.everySecond(t, 30, growth)
	b.ask("us", 20_000)
	before := region(b.shares("us"), "us")
	b.after(20)
	if left := before - region(b.shares("us"), "us"); left < 0.2 {
		t.Errorf("%.3f left home in 20 s", left)
	}
}

func TestHealthKeepsItsPaceWhilePricesMove(t *testing.T) {
	b := priced(t)
	b.reprice(8)
	b.everySecond(t, 10, priceGrowth)
	b.state("us-a", failover.Evacuated, 0)
	b.state("us-b", failover.Evacuated, 0)
	b.after(1)
	near(t, "home, which is dead", region(b.shares("us"), "us"), 0, 0)
}

// A price slows nothing down where the policy gives it no weight.
func TestOnlyWhoCaresForPricesWaitsForThem(t *testing.T) {
	b := priced(t)
	b.write("TrafficPolicy", "p", "costPreference: 0")
	b.after(1)
	b.reprice(8)
	b.ask("us", 20_000)
	before := region(b.shares("us"), "us")
	b.after(20)
	if left := before - region(b.shares("us"), "us"); left < 0.2 {
		t.Errorf("%.3f left home in 20 s", left)
	}
}
