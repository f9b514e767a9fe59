package plan

import (
	"testing"
	"time"

	"anabranch/costmodel"
)

// find is a source that has found other prices of GPUs in us.
func (b *bench) find(usd float64) {
	b.offers = []costmodel.Offer{
		{Class: "h100", Region: "us", PerHour: costmodel.FromUSD(usd), Origin: costmodel.Live},
		{Class: "h100", Region: "eu", PerHour: costmodel.Dollar, Origin: costmodel.Live},
		{Class: "h100", Region: "ap", PerHour: 9 * costmodel.Dollar, Origin: costmodel.Live},
	}
	b.found = b.table.GetRef().GetRevision() + 1
}

func TestAPriceThatASourceFindsMovesTwentyPointsAMinute(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "costPreference: 1")
	b.charge(1)
	b.remove("RateCard", "list")
	b.find(1)
	b.ask("us", 3000)
	b.report()
	b.plan()
	b.after(20)
	near(t, "share at home while prices are alike", region(b.shares("us"), "us"), 1, 0)

	b.find(8)
	b.everySecond(t, 60, priceGrowth)
	near(t, "after a minute", region(b.shares("us"), "eu"), 0.2, 0.01)
	if got := b.told("us")["eu-a"]; got != repriced {
		t.Errorf("on the way the reason is %q", got)
	}

	b.reprice(1) // an operator knows better
	b.everySecond(t, 120, priceGrowth)
	near(t, "once a rate card says otherwise", region(b.shares("us"), "us"), 1, 2*deadBand)
	b.after(1)
	b.find(20)
	b.after(60)
	near(t, "whatever a source finds below a rate card", region(b.shares("us"), "us"), 1, 2*deadBand)
}

func TestAPriceFoundThatComesIntoForceMovesTwentyPointsAMinute(t *testing.T) {
	b := priced(t)
	b.remove("RateCard", "list")
	b.find(1)
	b.offers[0].Until = b.now.Add(90 * time.Second)
	b.offers = append(b.offers, costmodel.Offer{Class: "h100", Region: "us", PerHour: 8 * costmodel.Dollar, Origin: costmodel.Live, From: b.offers[0].Until})
	b.write("Model", "another", "{}") // makes a table that is newer than the prices
	b.after(80)
	near(t, "share at home before", region(b.shares("us"), "us"), 1, 0)
	b.everySecond(t, 70, priceGrowth)
	near(t, "a minute after", region(b.shares("us"), "eu"), 0.2, 0.01)
}

func TestPricesAreTheOperatorsThenThoseFoundThenShippedOnes(t *testing.T) {
	b := newBench(t)
	want := costmodel.Want{Class: "h100", Region: "us-east-1"}
	live := costmodel.Offer{Class: "h100", Region: "us-east-1", PerHour: 7 * costmodel.Dollar, Origin: costmodel.Live, Source: "the market"}
	price := func(offers ...costmodel.Offer) costmodel.Found {
		t.Helper()
		found, ok := Prices(b.written, offers, b.now).Find(want)
		if !ok {
			t.Fatal("there is no price")
		}
		return found
	}
	if f := price(); f.Origin != costmodel.Shipped || f.PerHour <= 0 {
		t.Errorf("nobody was asked: %+v", f.Offer)
	}
	if f := price(live); f.PerHour != live.PerHour || f.Why() != "live price: before the shipped default" {
		t.Errorf("a source has found one: %+v, %s", f.Offer, f.Why())
	}
	b.write("RateCard", "ours", "gpus: [{class: h100, region: us-east-1, usdPerHour: 2}]")
	if f := price(live); f.PerHour != 2*costmodel.Dollar || f.Source != "rate card ours" || f.Why() != "operator's price: before the shipped default, before the live price" {
		t.Errorf("an operator has written one: %+v, %s", f.Offer, f.Why())
	}
	b.write("RateCard", "ours", "source: our contract\n  gpus: [{class: h100, region: us-east-1, usdPerHour: 2}]")
	if f := price(); f.Source != "our contract" {
		t.Errorf("the card's own source is lost: %q", f.Source)
	}
}
