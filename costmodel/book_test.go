package costmodel

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPricesAreFound(t *testing.T) {
	hour := time.Hour
	b := NewBook(noon, []Offer{
		{Class: "h100", Region: "us", PerHour: 5 * Dollar, Estimate: true},
		{Class: "H100", Region: "us", PerHour: 4 * Dollar},
		{Class: "h100", Region: "us", PerHour: 3 * Dollar},
		{Class: "h100", Region: "us", Purchase: Spot, PerHour: 2 * Dollar},
		{Class: "h100", Region: "eu", PerHour: 6 * Dollar, Estimate: true},
		{Class: "l40s", Region: "us", PerHour: -1},
		{Class: "l4", GPUs: -1, Region: "us", PerHour: 1},

		{Class: "a100", Region: "us", PerHour: 9 * Dollar, Origin: Shipped, AsOf: noon.Add(-100 * hour)},
		{Class: "a100", Region: "us", PerHour: 8 * Dollar, Origin: File},
		{Class: "a100", Region: "us", PerHour: 7 * Dollar, Origin: Live, AsOf: noon.Add(-2 * hour)},
		{Class: "a100", Region: "us", PerHour: 6 * Dollar, Origin: Live, AsOf: noon.Add(-hour)},
		{Class: "a100", Region: "eu", PerHour: 5 * Dollar, Origin: Live, AsOf: noon.Add(-hour)},
		{Class: "a100", Region: "eu", PerHour: 4 * Dollar, Origin: Override, Estimate: true},

		{Class: "b200", Region: "us", PerHour: 1 * Dollar},
		{Class: "b200", Region: "us", PerHour: 2 * Dollar, From: noon},
		{Class: "b200", Region: "us", PerHour: 3 * Dollar, From: noon.Add(1)},
		{Class: "b200", Region: "us", PerHour: 5 * Dollar, From: noon.Add(-hour), AsOf: noon},
		{Class: "b200", Region: "eu", PerHour: 1 * Dollar},
		{Class: "b200", Region: "eu", PerHour: 4 * Dollar, From: noon.Add(-hour), Until: noon},

		{Class: "l40s", Instance: "g6e.xlarge", GPUs: 1, Region: "us", PerHour: 1_861_000, AsOf: noon},
		{Class: "l40s", Instance: "g6e.48xlarge", GPUs: 8, Region: "us", PerHour: 30_131_180, AsOf: noon.Add(hour)},
		{Class: "l40s", Region: "us", Zone: "us-a", Purchase: Spot, PerHour: 3 * Dollar},
		{Class: "l40s", Region: "us", Zone: "us-b", Purchase: Spot, PerHour: 5 * Dollar},
		{Class: "l40s", Region: "us", Purchase: Spot, PerHour: 4 * Dollar},
		{Class: "l40s", Region: "us", Zone: "us-c", Purchase: Spot, PerHour: 6 * Dollar, Origin: Live},
	})
	tests := map[string]struct {
		want  Want
		hour  Micros // of a GPU; 0: there is none
		age   time.Duration
		why   string
		guess bool
	}{
		"published beats estimate, first beats later": {Want{Class: "h100", Region: "us", Purchase: OnDemand}, 4 * Dollar, 0, "shipped default: given first, before an estimate", false},
		"nothing said means on demand":                {Want{Class: "h100", Region: "us"}, 4 * Dollar, 0, "shipped default: given first, before an estimate", false},
		"case does not matter":                        {Want{Class: "H100", Region: "us", Purchase: Spot}, 2 * Dollar, 0, "shipped default", false},
		"an estimate says so":                         {Want{Class: "h100", Region: "eu"}, 6 * Dollar, 0, "shipped default", true},
		"no spot price there":                         {Want{Class: "h100", Region: "eu", Purchase: Spot}, 0, 0, "", false},
		"no such region":                              {Want{Class: "h100", Region: "ap"}, 0, 0, "", false},
		"no negative count":                           {Want{Class: "l4", Region: "us"}, 0, 0, "", false},

		"the newest of the strongest origin":      {Want{Class: "a100", Region: "us"}, 6 * Dollar, hour, "live price: the newest, before the price file, before the shipped default", false},
		"an operator's guess beats what is known": {Want{Class: "a100", Region: "eu"}, 4 * Dollar, 0, "operator's price: before the live price", true},
		"what has ended holds no more":            {Want{Class: "b200", Region: "eu"}, 1 * Dollar, 0, "shipped default", false},
		"in force since the latest time":          {Want{Class: "b200", Region: "us"}, 2 * Dollar, 0, "shipped default: in force since 2026-12-01", false},

		"an instance type by its GPUs":         {Want{Class: "l40s", Region: "us", Instance: "g6e.xlarge"}, 1_861_000, 0, "shipped default", false},
		"of two types the dearer by GPU":       {Want{Class: "l40s", Region: "us"}, 3_766_398, 0, "shipped default: the dearest that it may be", false},
		"no such type":                         {Want{Class: "l40s", Region: "us", Instance: "g6.xlarge"}, 0, 0, "", false},
		"the zone before the region":           {Want{Class: "l40s", Region: "us", Zone: "us-a", Purchase: Spot}, 3 * Dollar, 0, "shipped default: the closest fit", false},
		"the region for a zone without offers": {Want{Class: "l40s", Region: "us", Zone: "us-d", Purchase: Spot}, 4 * Dollar, 0, "shipped default", false},
		"a live zone before a region at rest":  {Want{Class: "l40s", Region: "us", Purchase: Spot}, 6 * Dollar, 0, "live price: before the shipped default", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := b.Find(tt.want)
			if ok != (tt.hour > 0) || !ok && got.Class != "" {
				t.Fatalf("found %+v %v", got.Offer, ok)
			}
			if !ok {
				return
			}
			if got.GPUsPerHour(1) != tt.hour || got.Age != tt.age || got.Why() != tt.why || got.Estimate != tt.guess {
				t.Errorf("found %s, %s old: %s", got.GPUsPerHour(1), got.Age, got.Why())
			}
		})
	}
	if _, ok := (Book{}).Find(Want{Class: "h100", Region: "us"}); ok {
		t.Error("an empty book knows a price")
	}
}

func TestOfManyAlikeTheFirstIsTaken(t *testing.T) {
	var offers []Offer
	for i := range 60 {
		offers = append(offers, Offer{Class: "x", Region: "r", PerHour: Micros(100 - i), Origin: Origin(i % 3)})
	}
	if got, _ := NewBook(noon, offers).Find(Want{Class: "x", Region: "r"}); got.PerHour != 98 {
		t.Errorf("found %+v", got.Offer)
	}
}

func TestOriginsHaveNames(t *testing.T) {
	for o, want := range map[Origin]string{Shipped: "shipped default", File: "price file", Live: "live price", Override: "operator's price", 9: "origin 9", -1: "origin -1"} {
		if got := o.String(); got != want {
			t.Errorf("origin %d is called %q, want %q", int(o), got, want)
		}
	}
}

func TestGPUsOfAnInstance(t *testing.T) {
	o := Offer{GPUs: 8, PerHour: 10}
	for count, want := range map[int]Micros{-1: 0, 0: 0, 1: 2, 4: 5, 8: 10, 9: 12} {
		if got := o.GPUsPerHour(count); got != want {
			t.Errorf("%d GPUs cost %d, want %d", count, got, want)
		}
	}
	if got := (Offer{PerHour: 10}).GPUsPerHour(3); got != 30 {
		t.Errorf("three GPUs as such cost %d", got)
	}
}

// The rules that NewBook and Find state, said anew as a filter: whichever offer is found, none that fits
// is of a higher origin, nor a published one before its estimate; and where no two offers are for the same
// goods, the order in which they are given plays no part in the price.
func TestTheMostTrustedOfferIsFound(t *testing.T) {
	name := func(names ...string) *rapid.Generator[string] { return rapid.SampledFrom(names) }
	rapid.Check(t, func(t *rapid.T) {
		offers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Offer {
			return Offer{
				Class: "x", Region: "r",
				Instance: name("", "small", "large").Draw(t, "instance"),
				Zone:     name("", "a", "b").Draw(t, "zone"),
				GPUs:     rapid.IntRange(0, 2).Draw(t, "gpus"),
				PerHour:  Micros(rapid.Int64Range(0, 9).Draw(t, "price")),
				Origin:   Origin(rapid.IntRange(int(Shipped), int(Override)).Draw(t, "origin")),
				Estimate: rapid.Bool().Draw(t, "estimate"),
				From:     noon.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "from")) * time.Hour),
			}
		}), 0, 6).Draw(t, "offers")
		w := Want{Class: "x", Region: "r", Instance: name("", "small").Draw(t, "type"), Zone: name("", "a").Draw(t, "in")}
		got, ok := NewBook(noon, offers).Find(w)
		some, distinct := false, map[goods]bool{}
		for _, o := range offers {
			distinct[o.goods()] = true
			if !o.holds(noon) || !o.fits(w) {
				continue
			}
			some = true
			if o.Origin > got.Origin || o.Origin == got.Origin && got.Estimate && !o.Estimate {
				t.Fatalf("found %+v, not %+v", got.Offer, o)
			}
		}
		if ok != some || ok && (!got.holds(noon) || !got.fits(w)) {
			t.Fatalf("found %+v %v", got.Offer, ok)
		}
		if len(distinct) < len(offers) {
			return
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(offers), func(i, j int) { offers[i], offers[j] = offers[j], offers[i] })
		if again, _ := NewBook(noon, offers).Find(w); again.GPUsPerHour(2) != got.GPUsPerHour(2) {
			t.Fatalf("found %+v, and %+v in another order", got.Offer, again.Offer)
		}
	})
}
