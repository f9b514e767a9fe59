package flow

import (
	"math"
	"math/rand/v2"
	"testing"
)

// scale is what a difference of costs is relative to: the cost, or a ms for each unit of load where there is hardly
// any; and what the least slope of curves is for a site that does no more.
func (in instance) scale(s *Solution) float64 {
	sum := math.Abs(s.Cost) + in.load() + 1e-300
	for j, site := range in.sites {
		sum += site.Size * s.Load[j] * s.Load[j]
	}
	return sum
}

// check holds a solution to what it promises: shares within their bounds that sum to 1 with what is shed, loads that
// are what the shares put there and within the limits, the cost that they have, and a bound that the duals prove,
// all found anew from how the instance is written.
func check(t failing, in instance, s *Solution) {
	t.Helper()
	load := make([]float64, len(in.sites))
	floors := make([]float64, len(in.sites))
	cost, bound := 0.0, 0.0
	for i, d := range in.demands {
		sum, level := 0.0, s.LevelMs[i]
		here, least := 0.0, level
		take := func(x, ms, tilt, price, floor, most float64) {
			if !(x >= floor-1e-12 && x <= most+1e-12) {
				t.Fatalf("demand %d: a share of %v is not in %v..%v", i, x, floor, most)
			}
			sum += x
			here += ms*x + tilt*x*x/2
			over := ms + price - level // what a share costs above the level, of which the best is taken
			y := floor
			if tilt > 0 {
				y = min(max(-over/tilt, floor), most)
			} else if over < 0 {
				y = most
			}
			least += over*y + tilt*y*y/2
		}
		for k, a := range d.Arcs {
			x, site := s.Shares(i)[k], in.sites[a.Site]
			take(x, a.CostMs, a.TiltMs, s.CongestionMs[a.Site]*a.Use*site.Size, a.Floor, max(a.Bound, a.Floor))
			load[a.Site] += d.Load * a.Use * x
			floors[a.Site] += d.Load * a.Use * a.Floor
		}
		steps := d.Shed
		if len(steps) == 0 {
			steps = []Step{{CostMs: LostMs}}
		}
		for k, step := range steps {
			part := step.Part
			if k == len(steps)-1 {
				part = 1
			}
			take(s.Shed(i)[k], step.CostMs, step.TiltMs/max(step.Part, 1e-3), 0, 0, part)
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("demand %d: its shares sum to %v", i, sum)
		}
		cost += d.Load * here
		bound += d.Load * least
	}
	for j, site := range in.sites {
		if math.Abs(load[j]-s.Load[j]) > 1e-9*(1+load[j]) || load[j] > max(site.Limit, floors[j])*(1+1e-11) {
			t.Fatalf("site %d: a load of %v, said to be %v, with a limit of %v and floors of %v", j, load[j], s.Load[j], site.Limit, floors[j])
		}
		cost += site.Size * site.Curve.Cost(load[j])
		offered := 0.0 // where the curve and the price part, by halving
		high := max(site.Limit, floors[j])
		for range 200 {
			if middle := (offered + high) / 2; site.Curve.At(middle) < s.CongestionMs[j] {
				offered = middle
			} else {
				high = middle
			}
		}
		bound += site.Size * (site.Curve.Cost(offered) - s.CongestionMs[j]*offered)
	}
	if off := math.Abs(cost - s.Cost); off > 1e-9*in.scale(s) {
		t.Fatalf("it costs %v, not %v", cost, s.Cost)
	}
	if gap := cost - bound; math.Abs(gap) > 1e-6*in.scale(s) {
		t.Fatalf("it costs %v, and the duals prove only %v, after %d rounds", cost, bound, s.Rounds)
	}
}

func TestTheDualProvesTheCost(t *testing.T) {
	for name, k := range map[string]kind{
		"curved": {demands: 12, sites: 8}, "linear in pieces": {demands: 12, sites: 8, linear: true}, "larger": {demands: 80, sites: 20},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3600 / k.demands) {
				in := draw(rand.New(rand.NewPCG(seed, 1)), k)
				check(t, in, Solve(in.problem(), nil))
			}
		})
	}
}

// failing is what *testing.T and *rapid.T have in common.
type failing interface {
	Helper()
	Fatalf(format string, args ...any)
}
