package costmodel

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func TestDollarsBecomeMicros(t *testing.T) {
	for usd, want := range map[float64]Micros{
		0: 0, 1: 1_000_000, 2.5: 2_500_000, 0.0000004: 0, 0.0000005: 1, -0.0000005: -1, 98.32: 98_320_000,
		1e300: math.MaxInt64, -1e300: math.MinInt64, math.Inf(1): math.MaxInt64,
	} {
		if got := FromUSD(usd); got != want {
			t.Errorf("%v dollars are %d micros, want %d", usd, got, want)
		}
	}
	if got := FromUSD(math.NaN()); got != 0 {
		t.Errorf("no number became %d", got)
	}
}

func TestMoneyIsWrittenForPeople(t *testing.T) {
	for m, want := range map[Micros]string{
		0: "$0.00", 50_000: "$0.05", 2_500_001: "$2.500001", -1_500_000: "-$1.50", 1: "$0.000001",
		math.MinInt64: "-$9223372036854.775808",
	} {
		if got := m.String(); got != want {
			t.Errorf("%d micros are written %q, want %q", int64(m), got, want)
		}
	}
	if got := Micros(1_250_000).USD(); got != 1.25 {
		t.Errorf("1.25 dollars became %v", got)
	}
}

func TestWhatOneMoreMillionCosts(t *testing.T) {
	b := NewBook(noon, []Offer{
		{Class: "h100", Region: "us", PerHour: 3600 * Dollar},
		{Class: "h100", Region: "us", Purchase: Spot, PerHour: 1800 * Dollar},
		{Class: "a100", Region: "us", PerHour: 360 * Dollar, Estimate: true},
		{Class: "h100", Region: "us", Purchase: Owned, PerHour: 99 * Dollar},
	})
	tests := map[string]struct {
		gpus     []GPUs
		capacity int64
		want     Marginal
	}{
		"owned costs nothing more":      {[]GPUs{{Class: "h100", Count: 8, Purchase: Owned}}, 1000, Marginal{}},
		"reserved costs nothing more":   {[]GPUs{{Class: "h100", Count: 8, Purchase: Reserved}}, 1000, Marginal{}},
		"on demand costs its price":     {[]GPUs{{Class: "h100", Count: 1, Purchase: OnDemand}}, 1_000_000, Marginal{PerMillion: Dollar}},
		"nothing said means on demand":  {[]GPUs{{Class: "h100", Count: 1, Purchase: ""}}, 1_000_000, Marginal{PerMillion: Dollar}},
		"twice as fast costs half":      {[]GPUs{{Class: "h100", Count: 1, Purchase: OnDemand}}, 2_000_000, Marginal{PerMillion: Dollar / 2}},
		"spot costs its own":            {[]GPUs{{Class: "h100", Count: 2, Purchase: Spot}}, 1_000_000, Marginal{PerMillion: Dollar}},
		"mixed clusters add up":         {[]GPUs{{Class: "h100", Count: 1, Purchase: OnDemand}, {Class: "h100", Count: 7, Purchase: Owned}, {Class: "a100", Count: 10, Purchase: OnDemand}}, 1_000_000, Marginal{PerMillion: 2 * Dollar, Estimate: true}},
		"an unknown price is marked":    {[]GPUs{{Class: "b200", Count: 1, Purchase: OnDemand}}, 1_000_000, Marginal{Unpriced: true}},
		"no capacity says nothing":      {[]GPUs{{Class: "h100", Count: 1, Purchase: OnDemand}}, 0, Marginal{}},
		"what is not free is not free":  {[]GPUs{{Class: "a100", Count: 1, Purchase: OnDemand}}, math.MaxInt64 / 4000, Marginal{PerMillion: 1, Estimate: true}},
		"no GPUs":                       {nil, 1000, Marginal{}},
		"a count of none or less":       {[]GPUs{{Class: "h100", Count: 0, Purchase: OnDemand}, {Class: "h100", Count: -3, Purchase: OnDemand}}, 1000, Marginal{}},
		"a price beyond all bounds":     {[]GPUs{{Class: "h100", Count: math.MaxInt64, Purchase: OnDemand}}, 1, Marginal{PerMillion: math.MaxInt64}},
		"a capacity beyond all bounds":  {[]GPUs{{Class: "h100", Count: 1, Purchase: OnDemand}}, math.MaxInt64, Marginal{PerMillion: 1}},
		"many GPUs do not wrap around":  {[]GPUs{{Class: "h100", Count: math.MaxInt64 / 2, Purchase: OnDemand}, {Class: "h100", Count: math.MaxInt64 / 2, Purchase: OnDemand}}, 1, Marginal{PerMillion: math.MaxInt64}},
		"a small price is rounded up":   {[]GPUs{{Class: "a100", Count: 1, Purchase: OnDemand}}, 300_000_000_000, Marginal{PerMillion: 1, Estimate: true}},
		"a whole result is not rounded": {[]GPUs{{Class: "h100", Count: 3, Purchase: OnDemand}}, 1000, Marginal{PerMillion: 3000 * Dollar}},
		"a block is paid already":       {[]GPUs{{Class: "h100", Count: 8, Purchase: CapacityBlock}}, 1000, Marginal{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := b.Marginal("us", tt.gpus, tt.capacity); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// The integer arithmetic agrees with exact rationals wherever these fit.
func TestMarginalIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price := rapid.Int64Range(0, 1_000_000*int64(Dollar)).Draw(t, "price")
		count := rapid.IntRange(1, 100_000).Draw(t, "count")
		capacity := rapid.Int64Range(1, 1<<40).Draw(t, "capacity")
		b := NewBook(noon, []Offer{{Class: "x", Region: "r", PerHour: Micros(price)}})
		got := b.Marginal("r", []GPUs{{Class: "x", Count: count, Purchase: OnDemand}}, capacity).PerMillion

		want := new(big.Int).Mul(big.NewInt(price), big.NewInt(int64(count)))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		want.Mul(want, big.NewInt(1_000_000))
		per := new(big.Int).Mul(big.NewInt(capacity), big.NewInt(3600))
		want.Add(want, new(big.Int).Sub(per, big.NewInt(1))).Div(want, per)
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if want.Int64() != int64(got) {
			t.Fatalf("got %d, want %s", got, want)
		}
	})
}

func TestAnHourOfACluster(t *testing.T) {
	b := NewBook(noon, []Offer{
		{Class: "h100", Region: "us", PerHour: 6_880_000},
		{Class: "a100-80", Region: "us", PerHour: 3_430_900, Estimate: true},
		{Class: "dear", Region: "us", PerHour: math.MaxInt64},
	})
	tests := map[string]struct {
		gpus               []GPUs
		want               Micros
		estimate, unpriced bool
	}{
		"nothing":                  {nil, 0, false, false},
		"eight of one class":       {[]GPUs{{Class: "h100", Count: 8, Purchase: OnDemand}}, 55_040_000, false, false},
		"two generations":          {[]GPUs{{Class: "h100", Count: 8, Purchase: ""}, {Class: "a100-80", Count: 8, Purchase: ""}}, 82_487_200, true, false},
		"one of them not priced":   {[]GPUs{{Class: "h100", Count: 8, Purchase: ""}, {Class: "b300", Count: 8, Purchase: ""}}, 55_040_000, false, true},
		"owned, priced or not":     {[]GPUs{{Class: "h100", Count: 8, Purchase: Owned}, {Class: "b300", Count: 8, Purchase: Reserved}}, 0, false, false},
		"more than can be counted": {[]GPUs{{Class: "dear", Count: 1, Purchase: ""}, {Class: "dear", Count: 1, Purchase: ""}}, math.MaxInt64, false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := b.ClusterHour("us", tt.gpus); got != (Priced{tt.want, tt.estimate, tt.unpriced}) {
				t.Errorf("got %+v", got)
			}
		})
	}
	if got := b.ClusterHour("eu", []GPUs{{Class: "h100", Count: 8, Purchase: ""}}); got != (Priced{Unpriced: true}) {
		t.Errorf("a region without prices costs %+v", got)
	}
}

// More GPUs never cost less, and more capacity never costs more for the same work.
func TestMarginalIsMonotonic(t *testing.T) {
	b := NewBook(noon, []Offer{{Class: "x", Region: "r", PerHour: 3 * Dollar}})
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(0, 1000).Draw(t, "count")
		capacity := rapid.Int64Range(1, 1<<30).Draw(t, "capacity")
		at := func(count int, capacity int64) Micros {
			return b.Marginal("r", []GPUs{{Class: "x", Count: count, Purchase: OnDemand}}, capacity).PerMillion
		}
		if at(count+1, capacity) < at(count, capacity) {
			t.Fatalf("%d GPUs cost less than %d", count+1, count)
		}
		if at(count, capacity+1) > at(count, capacity) {
			t.Fatalf("a capacity of %d costs more than one of %d", capacity+1, capacity)
		}
	})
}

// Every amount that money is made from is written so that it can be read back.
func TestMoneyIsWrittenWithoutLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Micros(rapid.Int64Range(-1e12, 1e12).Draw(t, "micros"))
		var sign Micros = 1
		text := m.String()
		if text[0] == '-' {
			sign, text = -1, text[1:]
		}
		var whole, rest Micros
		var digits string
		if _, err := fmt.Sscanf(text, "$%d.%s", &whole, &digits); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for len(digits) < 6 {
			digits += "0"
		}
		if _, err := fmt.Sscanf(digits, "%d", &rest); err != nil {
			t.Fatalf("%q: %v", digits, err)
		}
		if got := sign * (whole*Dollar + rest); got != m {
			t.Fatalf("%d is written %s, which reads %d", int64(m), m, int64(got))
		}
	})
}
