package flow

import (
	"math"
	"slices"
)

// settle goes on until the dual proves the cost, or hardly more can be had. Each time shares are pulled to where they
// were before, which ends at the optimum however strong the pull: for ways without tilt, whose shares prices alone don't
// tell, and where a search has failed for want of something between all and nothing. For costs that are linear in
// pieces it ends exactly.
func (s *search) settle() {
	pull := 0.0
	for range mostSettles {
		s.mend()
		if s.spent, s.proven = s.value(); s.spent-s.proven <= s.tolerance() {
			return
		}
		s.pull(pull)
		if s.search(mostRounds, exact) {
			pull = max(pull/4-leastTilt, 0)
		} else {
			pull = min(max(8*pull, 10), mostMs)
		}
	}
	s.mend()
	s.spent, s.proven = s.value()
}

// tolerance is what the cost may be above its bound.
func (s *search) tolerance() float64 {
	all := 0.0
	for _, load := range s.Problem.load {
		all += load
	}
	for j, site := range s.sites {
		all += site.Size * s.load[j] * s.load[j]
	}
	return max(even*max(math.Abs(s.spent), math.Abs(s.proven)), finest*all/10)
}

// pull moves costs so that shares tend to stay, by so much tilt, and makes them relative to the present prices.
func (s *search) pull(tilt float64) {
	s.level, s.from = s.levels(), nil
	for j := range s.sites {
		s.price[j], s.base[j] = s.price[j]+s.base[j], 0
		s.stiff[j] = stiffness
	}
	s.cost, s.swing = make([]float64, len(s.cost)), make([]float64, len(s.swing))
	for w, own := range s.tilt {
		more := max(leastTilt-own, 0) + tilt
		s.cost[w] = s.Problem.cost[w] - s.share[w]*more
		s.swing[w] = 1 / (own + more)
	}
	s.rebase()
}

// levels of all demands, in ms above 0.
func (s *search) levels() []float64 {
	out := make([]float64, len(s.level))
	copy(out, s.level)
	for i, from := range s.from {
		out[i] += from
	}
	return out
}

// mend sheds what a site has above its limit, where the search for prices has ended before that was nothing.
func (s *search) mend() {
	for j := range s.sites {
		for again := 0; again < 3 && s.load[j] > s.limit[j]*(1+exact); again++ {
			s.relieve(j)
			s.mended = true
		}
	}
}

// relieve takes from all that a site serves above floors the part that is too much.
func (s *search) relieve(site int) {
	floors := 0.0
	s.ways(site, func(i int, w int32) { floors += s.Problem.load[i] * s.use[w] * s.floor[w] })
	keep := 0.0
	if above := s.load[site] - floors; above > 0 {
		keep = min(max(s.limit[site]-floors, 0)/above, 1)
	}
	s.ways(site, func(i int, w int32) {
		x := s.floor[w] + (s.share[w]-s.floor[w])*keep
		lost := s.share[w] - x
		s.share[w] = x
		for step := s.steps[i]; step < s.start[i+1]; step++ {
			take := min(lost, s.bound[step]-s.share[step])
			s.share[step] += take
			lost -= take
		}
	})
	s.load[site] = 0
	s.ways(site, func(i int, w int32) { s.load[site] += s.Problem.load[i] * s.use[w] * s.share[w] })
}

// ways calls for each way to a site.
func (s *search) ways(site int, do func(demand int, way int32)) {
	for i := range s.Problem.load {
		for w := s.start[i]; w < s.steps[i]; w++ {
			if int(s.to[w]) == site {
				do(i, w)
			}
		}
	}
}

// value is the cost of the shares, and what the dual says that any must cost at least. Ways that are asleep have no share, and
// the dual gives them none.
func (s *search) value() (cost, bound float64) {
	poured := !s.mended && s.own()
	for i, load := range s.Problem.load {
		level := s.level[i]
		if s.from != nil {
			level += s.from[i]
		}
		here, least := 0.0, level
		if h := s.holds[i]; poured && h.n > 0 {
			for _, w := range s.awake[h.from : h.from+h.n] {
				x, y := s.worth(w.index, level)
				here, least = here+x, least+y
			}
		} else {
			for w := s.start[i]; w < s.start[i+1]; w++ {
				x, y := s.worth(w, level)
				here, least = here+x, least+y
			}
		}
		cost += load * here
		bound += load * least
	}
	for j, site := range s.sites {
		cost += site.Size * site.Curve.Cost(s.load[j])
		offered, _ := site.Curve.reach(s.base[j], s.price[j], s.limit[j])
		bound += site.Size * (site.Curve.Cost(offered) - (s.base[j]+s.price[j])*offered)
	}
	return cost, bound
}

// own says that ways answer as the problem says.
func (s *search) own() bool { return len(s.swing) == 0 || &s.swing[0] == &s.Problem.swing[0] }

// worth is what a way costs, and the least that it could at a level.
func (s *search) worth(w int32, level float64) (here, least float64) {
	x, tilt := s.share[w], s.tilt[w]
	here = x * (s.Problem.cost[w] + tilt*x/2)
	over := s.Problem.cost[w] + s.gain[w]*(s.base[s.to[w]]+s.price[s.to[w]]) - level
	y := s.floor[w]
	switch {
	case tilt > 0:
		y = min(max(-over/tilt, y), s.bound[w])
	case over < 0:
		y = s.bound[w]
	}
	if y != 0 {
		least = y * (over + tilt*y/2)
	}
	return here, least
}

// finish hands out copies, so that the search can go on.
func (s *search) finish() *Solution {
	prices := make([]float64, s.n)
	for j := range prices {
		prices[j] = max(s.price[j]+s.base[j], s.sites[j].Curve.ms[0])
	}
	out := &Solution{
		LevelMs: s.levels(), CongestionMs: prices, Load: slices.Clone(s.load[:s.n]), Rounds: s.rounds,
		Cost: s.spent, Bound: s.proven,
		share: slices.Clone(s.share), start: s.start, steps: s.steps,
	}
	if !s.own() {
		copy(s.level, out.LevelMs)
		copy(s.price, prices)
		clear(s.base)
		copy(s.seen, s.price)
		s.from, s.cost, s.swing = nil, s.Problem.cost, s.Problem.swing
		s.forget()
	}
	s.made, s.last = out, s
	return out
}
