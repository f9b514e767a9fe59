package flow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// A search from inside ends so near the best prices that a few of Newton's rounds find them, however much is asked for.
func TestASearchFromInsideEndsNearThePrices(t *testing.T) {
	for _, part := range []float64{0.3, 0.7, 0.85, 1, 1.3, 3} {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			p := fleet(8, 3, 3, part)
			s := begin(p, nil)
			s.pours = math.MaxInt
			s.interior(math.MaxInt)
			s.rebase()
			if !s.search(4, near) {
				t.Errorf("four rounds are not enough: %v off", s.shortage())
			}
		})
	}
}

// Some demands speak for all: the prices that they lead to are near.
func TestSomeDemandsSpeakForAll(t *testing.T) {
	for _, part := range []float64{0.5, 1.2} {
		p := fleet(6, 5, 20, part)
		s := begin(p, nil)
		s.pours = math.MaxInt
		s.interior(len(p.to) / 3)
		s.pour()
		if far := s.shortage(); far > 0.3 {
			t.Errorf("%v: %v off", part, far)
		}
		s.rebase()
		if !s.search(wholeRounds, near) {
			t.Errorf("%v: no way from there", part)
		}
	}
}

// Wherever it begins and whatever the instance, prices and levels from inside are numbers in bounds.
func TestASearchFromInsideGivesPrices(t *testing.T) {
	for seed := range uint64(200) {
		in := draw(rand.New(rand.NewPCG(seed, 11)), kind{demands: 12, sites: 6, linear: seed%2 == 0})
		s := begin(in.problem(), nil)
		s.interior(math.MaxInt)
		for j, ms := range s.price[:s.n] {
			if math.IsNaN(ms) || ms < in.sites[j].Curve.ms[0] || ms > mostPrice {
				t.Fatalf("seed %d: site %d asks %v", seed, j, ms)
			}
		}
		for i, ms := range s.level {
			if math.IsNaN(ms) || math.IsInf(ms, 0) {
				t.Fatalf("seed %d: demand %d has level %v", seed, i, ms)
			}
		}
	}
}

// More than sites can do is no harder than less, from nothing and from a solution for half of it.
func TestMoreThanFitsIsSolvedInFewRounds(t *testing.T) {
	light := Solve(fleet(10, 4, 5, 0.5), nil)
	for _, part := range []float64{0.85, 1, 1.3} {
		for name, warm := range map[string]*Solution{"cold": nil, "warm": light} {
			s := Solve(fleet(10, 4, 5, part), warm)
			if gap := s.Cost - s.Bound; math.Abs(gap) > 1e-9*s.Cost {
				t.Errorf("%v, %s: it costs %v, the duals prove only %v", part, name, s.Cost, s.Bound)
			}
			if s.Rounds > 40 {
				t.Errorf("%v, %s: %d rounds", part, name, s.Rounds)
			}
		}
	}
}
