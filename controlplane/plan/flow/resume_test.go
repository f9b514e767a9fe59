package flow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// However loads change, going on from the last solution gives what a search from nothing does, and the solutions before
// stay what they were.
func TestASearchThatGoesOnFindsTheSame(t *testing.T) {
	for _, part := range []float64{0.3, 0.6, 0.8, 1.2} {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 6))
			p, anew := fleet(8, 3, 3, part), fleet(8, 3, 3, part)
			was := slices.Clone(p.load)
			first := Solve(p, nil)
			kept := slices.Clone(first.share)
			s := first
			for round := range 30 {
				for range 1 + r.IntN(len(was)) {
					i := r.IntN(len(was))
					load := was[i] * []float64{0, 0.5, 0.9, 0.95, 1, 1.05, 1.1, 2}[r.IntN(8)]
					p.SetLoad(i, load)
					anew.SetLoad(i, load)
				}
				s = Solve(p, s)
				other := Solve(anew, nil)
				if gap := s.Cost - s.Bound; gap > 1e-9*s.Cost || !same(s.Cost, other.Cost, s.Cost) {
					t.Fatalf("round %d: it costs %v, and %v from nothing; the duals prove %v", round, s.Cost, other.Cost, s.Bound)
				}
				for w, x := range s.share {
					if !same(x, other.share[w], 1) {
						t.Fatalf("round %d: way %d has %v, and %v from nothing", round, w, x, other.share[w])
					}
				}
			}
			if !slices.Equal(first.share, kept) {
				t.Error("the first solution has changed")
			}
		})
	}
}

// Floors, bounds, no tilt and any other number: what is gone on from holds what it promises.
func TestASearchThatGoesOnProvesTheCost(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 13))
		in := draw(r, kind{demands: 12, sites: 6, linear: seed%3 == 0})
		p := in.problem()
		s := Solve(p, nil)
		for range 4 {
			for i := range in.demands {
				if r.IntN(3) == 0 {
					in.demands[i].Load *= 2 * r.Float64()
					p.SetLoad(i, in.demands[i].Load)
				}
			}
			s = Solve(p, s)
			check(t, in, s)
		}
	}
}

// Nothing but the last solution of a problem is gone on from: an older one, or one of before a demand was added, is where
// a search begins.
func TestAnySolutionMayBeBegunFrom(t *testing.T) {
	in := draw(rand.New(rand.NewPCG(9, 1)), kind{demands: 12, sites: 6})
	p := in.problem()
	first := Solve(p, nil)
	in.demands[0].Load++
	p.SetLoad(0, in.demands[0].Load)
	second := Solve(p, first)
	check(t, in, Solve(p, first))
	in.demands = append(in.demands, in.demands[0])
	p.Add(in.demands[0])
	check(t, in, Solve(p, second))
	check(t, in, Solve(in.problem(), second))
}
