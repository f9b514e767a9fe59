package signal

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/routerpb"
)

// askTiers is demand of model m by priority.
func askTiers(work float64, tiers ...*routerpb.TierWork) func(*routerpb.Report) {
	return func(r *routerpb.Report) {
		r.Demand = append(r.Demand, &routerpb.DemandSignal{Model: "m", Class: "interactive", WorkPerS: work, Tiers: tiers})
	}
}

func of(priority int32, work float64) *routerpb.TierWork {
	return &routerpb.TierWork{Priority: priority, WorkPerS: work}
}

func TestDemandIsKeptByPriority(t *testing.T) {
	nan := math.NaN()
	tests := map[string]struct {
		reports []func(*routerpb.Report)
		want    []Tier
		not     float64
	}{
		"nothing is asked for":              {nil, nil, 0},
		"two tiers":                         {[]func(*routerpb.Report){askTiers(100, of(-10, 30), of(50, 70))}, []Tier{{-10, 30}, {50, 70}}, 0},
		"a router that doesn't tell":        {[]func(*routerpb.Report){askTiers(100)}, nil, 100},
		"one that tells and one that won't": {[]func(*routerpb.Report){askTiers(100, of(0, 100)), askTiers(40)}, []Tier{{0, 100}}, 40},
		"both of two tell":                  {[]func(*routerpb.Report){askTiers(100, of(0, 100)), askTiers(50, of(0, 20), of(100, 30))}, []Tier{{0, 120}, {100, 30}}, 0},
		"more than there is":                {[]func(*routerpb.Report){askTiers(100, of(0, 80), of(50, 80))}, []Tier{{0, 80}, {50, 20}}, 0},
		"no number":                         {[]func(*routerpb.Report){askTiers(100, of(0, nan), of(50, 60))}, []Tier{{50, 60}}, 40},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			for i, r := range tt.reports {
				report := &routerpb.Report{AtUnixMs: c.now.UnixMilli()}
				r(report)
				c.Put(Observation{
					Node: "n1", Hello: &routerpb.Hello{RouterId: string(rune('a' + i)), Region: "us"}, Received: c.now, Report: report,
				})
			}
			got, not := c.look().Tiers("m", "interactive", "us")
			if !slices.Equal(got, tt.want) || not != tt.not {
				t.Errorf("got %v and %v, want %v and %v", got, not, tt.want, tt.not)
			}
		})
	}
}

// What was asked for at a priority fades as demand does, and another takes its place.
func TestTiersFollowDemand(t *testing.T) {
	c := newClock()
	c.report("us", askTiers(100, of(-10, 100)))
	for range 15 {
		c.pass(time.Second)
		c.report("us", askTiers(100, of(50, 100)))
	}
	got, _ := c.look().Tiers("m", "interactive", "us")
	if len(got) != 2 || math.Abs(got[0].WorkPerS-100/math.E) > 1 || math.Abs(got[1].WorkPerS-100*(1-1/math.E)) > 1 {
		t.Errorf("after a time constant: %v", got)
	}
	for range 300 {
		c.pass(time.Second)
		c.report("us", askTiers(100, of(50, 100)))
	}
	if got, _ := c.look().Tiers("m", "interactive", "us"); len(got) != 1 || got[0].Priority != 50 {
		t.Errorf("five minutes later: %v", got)
	}
}

// Whatever routers tell, what is kept is bounded, no less than nothing, and no more than was asked for.
func TestTiersArePartsOfDemand(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newClock()
		most := 0.0
		for range rapid.IntRange(1, 20).Draw(rt, "reports") {
			c.pass(time.Second)
			work := rapid.Float64Range(0, 1e6).Draw(rt, "work")
			most = max(most, work)
			var tiers []*routerpb.TierWork
			for range rapid.IntRange(0, 40).Draw(rt, "tiers") {
				tiers = append(tiers, of(rapid.Int32().Draw(rt, "priority"), rapid.Float64().Draw(rt, "part")))
			}
			c.report("us", askTiers(work, tiers...))
		}
		told, not := c.look().Tiers("m", "interactive", "us")
		sum := not
		for i, x := range told {
			if x.WorkPerS < 0 || i > 0 && told[i-1].Priority >= x.Priority {
				rt.Fatalf("tiers %v", told)
			}
			sum += x.WorkPerS
		}
		if len(told) > maxTiers || not < 0 || sum > most*(1+1e-9)+1e-6 {
			rt.Fatalf("%d tiers sum to %v of %v", len(told), sum, most)
		}
	})
}
