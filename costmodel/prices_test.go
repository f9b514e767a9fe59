package costmodel

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWhatIsShippedIsWhole(t *testing.T) {
	offers := ShippedOffers()
	seen := map[goods]bool{}
	for _, o := range offers {
		if o.Class == "" || o.Class != strings.ToLower(o.Class) || o.GPUs < 1 || o.GPUs > 8 || o.Origin != Shipped || o.Estimate || seen[o.goods()] {
			t.Errorf("%+v", o)
		}
		if !strings.HasPrefix(o.Source, "https://") || o.AsOf.Year() != 2026 {
			t.Errorf("%s in %s was read in %s of %v", o.Instance, o.Region, o.Source, o.AsOf)
		}
		// A GPU that serves models costs from half a dollar to 20 dollars an hour.
		if gpu := o.GPUsPerHour(1); gpu < Dollar/2 || gpu > 20*Dollar {
			t.Errorf("a GPU of %s in %s costs %s", o.Instance, o.Region, gpu)
		}
		seen[o.goods()] = true
	}
	b := NewBook(noon, offers)
	got, ok := b.Find(Want{Class: "h100", Instance: "p5.48xlarge", Region: "ap-northeast-1"})
	if !ok || got.GPUsPerHour(8) != 68_800_000 || got.Age != noon.Sub(time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)) || got.Why() != "shipped default" {
		t.Errorf("got %+v: %s", got.Offer, got.Why())
	}
}

func TestWhatTokensCost(t *testing.T) {
	p := TokenPrice{Input: 3 * Dollar, Cached: 300_000, Output: 15 * Dollar}
	tests := map[string]struct {
		price TokenPrice
		usage Usage
		want  Micros
	}{
		"nothing":                  {p, Usage{Succeeded: 1}, 0},
		"of each kind":             {p, Usage{Input: 3_000_000, Cached: 2_000_000, Output: 1_000_000}, 18_600_000},
		"rounded down":             {TokenPrice{Input: 1}, Usage{Input: 499_999}, 0},
		"rounded up":               {TokenPrice{Input: 1}, Usage{Input: 500_000}, 1},
		"rounded once":             {TokenPrice{1, 1, 1}, Usage{Input: 400_000, Cached: 200_000, Output: 200_000}, 1},
		"no more cached than were": {p, Usage{Input: 1_000_000, Cached: 5_000_000}, 300_000},
		"nobody pays you":          {TokenPrice{Input: -Dollar}, Usage{Input: 1_000_000}, 0},
		"beyond all bounds":        {TokenPrice{math.MaxInt64, math.MaxInt64, math.MaxInt64}, Usage{Input: math.MaxInt64, Cached: 1 << 62, Output: math.MaxInt64}, math.MaxInt64},
		"just beyond":              {TokenPrice{Input: math.MaxInt64}, Usage{Input: 1_000_001}, math.MaxInt64},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.price.Cost(tt.usage); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	if got := p.Marginal(6); got != 3*Dollar {
		t.Errorf("with dear input a million of work costs %s", got)
	}
	if got := p.Marginal(2); got != 7_500_000 {
		t.Errorf("with dear output a million of work costs %s", got)
	}
}

// The 128-bit arithmetic agrees with one of any size.
func TestTokensAreCountedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string) int64 { return anyWork.Draw(t, name) }
		p := TokenPrice{Micros(n("input price")), Micros(n("cached price")), Micros(n("output price"))}
		u := Usage{Input: n("input"), Cached: n("cached"), Output: n("output")}
		want := big.NewInt(500_000)
		cached := min(u.Cached, u.Input)
		for _, part := range [][2]int64{{int64(p.Input), u.Input - cached}, {int64(p.Cached), cached}, {int64(p.Output), u.Output}} {
			want.Add(want, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
		}
		if want.Div(want, big.NewInt(1_000_000)); !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if got := p.Cost(u); int64(got) != want.Int64() {
			t.Fatalf("got %d, want %s", got, want)
		}
	})
}

func TestWhatTrafficCosts(t *testing.T) {
	e := NewEgress([]Lane{
		{"us", "eu", 20_000, false}, {"us", "eu", 99, false}, {"us", "", 90_000, true}, {"eu", "us", -1, false}, {"ap", "us", math.MaxInt64, false},
	})
	tests := map[string]struct {
		from, to string
		bytes    int64
		want     Priced
	}{
		"a gigabyte":           {"us", "eu", 1_000_000_000, Priced{Cost: 20_000}},
		"elsewhere":            {"us", "ap", 2_000_000_000, Priced{Cost: 180_000, Estimate: true}},
		"a byte is not free":   {"us", "eu", 1, Priced{Cost: 1}},
		"at home":              {"eu", "eu", 1 << 60, Priced{}},
		"no bytes":             {"us", "ap", 0, Priced{}},
		"below no bytes":       {"us", "eu", -5, Priced{}},
		"no negative price":    {"eu", "us", 1, Priced{Unpriced: true}},
		"no price":             {"mars", "us", 1, Priced{Unpriced: true}},
		"more than is counted": {"ap", "us", math.MaxInt64, Priced{Cost: math.MaxInt64}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := e.Cost(tt.from, tt.to, tt.bytes); got != tt.want {
				t.Errorf("got %+v", got)
			}
		})
	}
	if !(Egress{}).Cost("us", "eu", 1).Unpriced {
		t.Error("an empty list knows a price")
	}
}

func TestWhatEmissionsCost(t *testing.T) {
	tests := map[string]struct {
		carbon Carbon
		wh     int64
		want   Micros
	}{
		"a day of eight H100":   {Carbon{379_100, 100 * Dollar}, 134_400, 5_095_104}, // 134.4 kWh, 50.95 kg
		"nobody charges":        {Carbon{379_100, 0}, 134_400, 0},
		"clean":                 {Carbon{0, 100 * Dollar}, 134_400, 0},
		"no electricity":        {Carbon{379_100, 100 * Dollar}, 0, 0},
		"below none":            {Carbon{-1, 100 * Dollar}, 5, 0},
		"a little is not free":  {Carbon{8_800, Dollar}, 1, 1},
		"more than can be paid": {Carbon{math.MaxInt64, math.MaxInt64}, math.MaxInt64, math.MaxInt64},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.carbon.Cost(tt.wh); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	if mg, ok := Emissions("eu-north-1"); mg != 8_800 || !ok {
		t.Errorf("Stockholm emits %d", mg)
	}
	if _, ok := Emissions("mars-1"); ok {
		t.Error("emissions of Mars are known")
	}
}
