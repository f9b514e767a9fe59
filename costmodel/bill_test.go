package costmodel

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestABillIsForAllGPUs(t *testing.T) {
	b := NewBook(noon, []Offer{
		{Class: "h100", Instance: "p5.48xlarge", GPUs: 8, Region: "us", PerHour: 55_040_000},
		{Class: "h100", Region: "us", Purchase: Owned, PerHour: 2 * Dollar},
		{Class: "h100", Region: "us", Purchase: CapacityBlock, PerHour: 4 * Dollar, Estimate: true},
		{Class: "dear", Region: "us", PerHour: math.MaxInt64},
	})
	tests := map[string]struct {
		gpus []GPUs
		span time.Duration
		want Priced
	}{
		"an hour on demand":         {[]GPUs{{Class: "h100", Count: 8, Purchase: OnDemand}}, time.Hour, Priced{Cost: 55_040_000}},
		"half an instance, a day":   {[]GPUs{{Class: "h100", Count: 4, Purchase: ""}}, 24 * time.Hour, Priced{Cost: 660_480_000}},
		"what is owned costs too":   {[]GPUs{{Class: "h100", Count: 8, Purchase: Owned}}, 90 * time.Minute, Priced{Cost: 24 * Dollar}},
		"so do blocks, by estimate": {[]GPUs{{Class: "h100", Count: 1, Purchase: CapacityBlock}}, time.Minute, Priced{Cost: 66_666, Estimate: true}},
		"of some nobody knows":      {[]GPUs{{Class: "h100", Count: 1, Purchase: Owned}, {Class: "h100", Count: 1, Purchase: Spot}}, time.Hour, Priced{Cost: 2 * Dollar, Unpriced: true}},
		"no time":                   {[]GPUs{{Class: "h100", Count: 8, Purchase: OnDemand}}, 0, Priced{}},
		"time runs forward":         {[]GPUs{{Class: "h100", Count: 8, Purchase: OnDemand}}, -time.Hour, Priced{}},
		"no GPUs":                   {nil, time.Hour, Priced{}},
		"more than can be counted":  {[]GPUs{{Class: "dear", Count: 8, Purchase: ""}}, 2 * time.Hour, Priced{Cost: math.MaxInt64}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := b.Bill("us", tt.gpus, noon, noon.Add(tt.span)); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// However a time is parted, its bills add up, and none is off by a micro-dollar.
func TestBillsOfPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBook(noon, []Offer{{Class: "x", Region: "r", PerHour: Micros(rapid.Int64Range(0, 1e12).Draw(t, "price"))}})
		gpus := []GPUs{{Class: "x", Count: rapid.IntRange(1, 64).Draw(t, "count"), Purchase: ""}}
		at := time.UnixMicro(rapid.Int64Range(-1e15, 4e15).Draw(t, "start"))
		from, sum := at, Micros(0)
		for _, step := range rapid.SliceOfN(rapid.Int64Range(0, 1e10), 1, 20).Draw(t, "steps") {
			next := at.Add(time.Duration(step) * time.Microsecond)
			sum += b.Bill("r", gpus, at, next).Cost
			at = next
		}
		if whole := b.Bill("r", gpus, from, at).Cost; whole != sum {
			t.Fatalf("parts cost %d, the whole %d", sum, whole)
		}
		hour := b.ClusterHour("r", gpus).Cost
		exact := float64(hour) * at.Sub(from).Hours()
		if math.Abs(float64(sum)-exact) > 1+1e-9*exact {
			t.Fatalf("%v at %d an hour cost %d, not %f", at.Sub(from), hour, sum, exact)
		}
	})
}
