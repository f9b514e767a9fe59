package flow

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func drawn(t *rapid.T) instance {
	return draw(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3)), kind{demands: 12, sites: 6})
}

// same says that two numbers are, beside a scale.
func same(a, b, scale float64) bool { return math.Abs(a-b) <= 1e-7*scale }

// The same input gives the same output, in whatever order it is written, and wherever the search begins.
func TestTheSolutionHasNoOrderAndNoHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, other := drawn(t), drawn(t)
		one, two := Solve(in.problem(), nil), Solve(in.problem(), nil)
		turned := instance{sites: in.sites}
		for i := range in.demands {
			turned.demands = append(turned.demands, in.demands[len(in.demands)-1-i])
		}
		back := Solve(turned.problem(), nil)
		prices := make([]float64, len(in.sites))
		for j := range prices {
			prices[j] = rapid.Float64Range(-100, 1e5).Draw(t, "price")
		}
		warm := Solve(in.problem(), &Solution{CongestionMs: prices})
		after := Solve(in.problem(), Solve(other.problem(), nil))
		for i, d := range in.demands {
			if d.Load < 1e-3 { // next to nothing: the prices of full sites that it compares are in a range
				continue
			}
			for k := range d.Arcs {
				x := one.Shares(i)[k]
				if x != two.Shares(i)[k] {
					t.Fatalf("demand %d, arc %d: %v and %v", i, k, x, two.Shares(i)[k])
				}
				for _, y := range []float64{back.Shares(len(in.demands) - 1 - i)[k], warm.Shares(i)[k], after.Shares(i)[k]} {
					if !same(x, y, 1) {
						t.Fatalf("demand %d, arc %d: %v and %v", i, k, x, y)
					}
				}
			}
		}
	})
}

// A site that gets dearer gets no more load for that, and all of it together costs no less.
func TestADearerSiteGetsNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t)
		before := Solve(in.problem(), nil)
		j := rapid.IntRange(0, len(in.sites)-1).Draw(t, "site")
		by := rapid.Float64Range(0, 500).Draw(t, "ms")
		sent := func(s *Solution) float64 {
			sum := 0.0
			for i, d := range in.demands {
				for k, a := range d.Arcs {
					if a.Site == j {
						sum += d.Load * s.Shares(i)[k]
					}
				}
			}
			return sum
		}
		was := sent(before)
		for i := range in.demands {
			for k := range in.demands[i].Arcs {
				if a := &in.demands[i].Arcs[k]; a.Site == j {
					a.CostMs += by
				}
			}
		}
		after := Solve(in.problem(), nil)
		check(t, in, after)
		if now := sent(after); now > was+1e-6*(1+was) {
			t.Fatalf("site %d costs %v ms more and gets %v instead of %v", j, by, now, was)
		}
		if after.Cost < before.Cost-1e-7*in.scale(before) {
			t.Fatalf("it costs %v instead of %v", after.Cost, before.Cost)
		}
	})
}

// A site that can do more makes nothing dearer, nor does a higher limit.
func TestMoreCapacityCostsNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t)
		before := Solve(in.problem(), nil)
		j := rapid.IntRange(0, len(in.sites)-1).Draw(t, "site")
		factor := rapid.Float64Range(1, 10).Draw(t, "factor")
		if rapid.Bool().Draw(t, "limit") {
			in.sites[j].Limit *= factor
		} else {
			in.sites[j].Size *= factor
			for i := range in.demands {
				for k := range in.demands[i].Arcs {
					if a := &in.demands[i].Arcs[k]; a.Site == j {
						a.Use /= factor
					}
				}
			}
		}
		after := Solve(in.problem(), nil)
		check(t, in, after)
		if after.Cost > before.Cost+1e-7*in.scale(before) {
			t.Fatalf("it costs %v instead of %v", after.Cost, before.Cost)
		}
	})
}

// FuzzNumbers solves what numbers of any size make of a small problem: whatever they are, shares sum to 1 within their
// bounds, and nothing is no number.
func FuzzNumbers(f *testing.F) {
	f.Add(1.0, 0.5, 80.0, 1.0, 0.0, 1.0, 0.8)
	f.Add(0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0)
	f.Add(math.Inf(1), math.NaN(), -1e300, 1e300, 5e-324, math.Inf(-1), math.NaN())
	f.Fuzz(func(t *testing.T, load, use, cost, tilt, floor, bound, limit float64) {
		curve, err := NewCurve([]float64{0, 0.5, 1}, []float64{0, 10, 1000})
		if err != nil {
			t.Fatal(err)
		}
		p := NewProblem([]Site{{Curve: curve, Limit: limit, Size: use}, {Limit: 1, Size: load}})
		p.Add(Demand{Load: load, Arcs: []Arc{
			{Site: 0, CostMs: cost, Use: use, Floor: floor, Bound: bound, TiltMs: tilt}, {Site: 1, CostMs: -cost, Use: limit, Bound: 1, TiltMs: 1},
		}})
		p.Add(Demand{Load: limit, Arcs: []Arc{{Site: 0, Use: load, Bound: bound, TiltMs: tilt}}, Shed: []Step{{cost, tilt, floor}, {load, 0, 0}}})
		s := Solve(p, nil)
		for i := range p.Len() {
			sum := 0.0
			for _, x := range append(append([]float64{}, s.Shares(i)...), s.Shed(i)...) {
				if !(x >= 0 && x <= 1) {
					t.Fatalf("demand %d has a share of %v", i, x)
				}
				sum += x
			}
			if math.Abs(sum-1) > 1e-6 {
				t.Fatalf("shares of demand %d sum to %v", i, sum)
			}
		}
		for _, v := range append([]float64{s.Cost, s.Bound}, append(s.LevelMs, s.CongestionMs...)...) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("a result is %v: %+v", v, s)
			}
		}
	})
}
