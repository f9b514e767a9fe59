package flow

import "math"

const (
	// mostCooled bounds the rounds of an interior search, cold is the heat in ms at which it ends, and mostHeat and
	// leastHeat bound what it begins with.
	mostCooled = 80
	cold       = 0.03
	leastHeat  = 10
	mostHeat   = 1e6
	// inside is the part of the way to the nearest bound that a step goes at most.
	inside = 0.995
)

// interior is a search that keeps all shares away from their bounds by a heat, and lets it cool down: Mehrotra's
// predictor and corrector for quadratic programs. Whatever the load it takes some twenty rounds, but it can't begin at a
// solution nearby. A round is a pass over all ways and the solution of as many equations as there are sites.
//
// Ways and pieces of curves are the same to it: amounts between bounds, in groups. Those of a demand sum to 1; pieces of a
// site's curve are what the site offers, and have no sum.
type interior struct {
	n      int
	demand []int32 // of each group; -1: pieces of a curve
	start  []int32 // of each group's amounts; and the end of the last
	weight []float64
	total  []float64 // what a group is to sum to
	level  []float64 // dual of that
	turn   []float64 // of level, in a step
	price  []float64 // of sites, and 0 for none
	fixed  []float64 // of sites: what comes from amounts that have no choice, times size
	step   []float64
	matrix []float64
	factor []float64

	site                       []int32
	low, wide, cost, tilt, use []float64
	x, floor, ceiling          []float64 // floor and ceiling: duals of the bounds, in ms
	move, floors, ceilings     []float64 // their steps
	ease, push                 []float64 // how an amount answers to its level, and what drives it
}

// interior finds prices and levels near the best, wherever they were. With more ways than most it looks at some of the
// demands only, as if they were all.
func (s *search) interior(most int) {
	in := s.inner(len(s.to)/most + 1)
	heat := in.warmth()
	for range mostCooled {
		in.press(0, false)
		copy(in.factor, in.matrix)
		factorise(in.factor, in.n)
		in.solve()
		to := heat * math.Pow(1-in.aim(0, false), 3)
		in.press(to, true)
		in.solve()
		in.advance(inside * in.aim(to, true))
		if heat = in.warmth(); heat < cold {
			break
		}
	}
	s.restart()
	for j := range s.sites {
		if ms := in.price[j]; !math.IsNaN(ms) {
			s.price[j] = within(ms, s.price[j], mostPrice)
		}
	}
	for j := range s.stiff {
		s.stiff[j] = stiffest
	}
	s.guess()
	for g, i := range in.demand {
		if i >= 0 && !math.IsNaN(in.level[g]) {
			s.level[i] = in.level[g]
		}
	}
}

// sampled is how many ways a first interior search looks at: more take as long as finding the rest from there does, and
// 100 bytes each.
const sampled = 1_000_000

// among says that a demand is one of those that speak for all, one of so many.
func among(i, every int) bool { return uint64(i)*0x9e3779b97f4a7c15>>32%uint64(every) == 0 }

// inner writes the problem down for an interior search, one of so many demands of it, and begins in the middle.
func (s *search) inner(every int) *interior {
	n := s.n
	in := &interior{n: n, start: []int32{0}, price: make([]float64, n+1), fixed: make([]float64, n), step: make([]float64, n+1), matrix: make([]float64, n*n), factor: make([]float64, n*n)}
	in.grow(len(s.to)/every + 64*n)
	most := make([]float64, n) // that may come
	hottest := float64(leastHeat)
	all, some := 0.0, 0.0
	for i, load := range s.Problem.load {
		all += load
		if among(i, every) {
			some += load
		}
	}
	for i, load := range s.Problem.load {
		if load == 0 || !among(i, every) {
			continue
		}
		load *= all / some
		left := 1.0
		for w := s.start[i]; w < s.start[i+1]; w++ {
			j := s.to[w]
			if int(j) < n {
				most[j] += load * s.use[w] * s.bound[w]
			}
			if s.bound[w]-s.floor[w] < 1e-9 {
				left -= s.floor[w]
				if int(j) < n {
					in.fixed[j] += load * s.gain[w] * s.floor[w]
				}
				continue
			}
			hottest = max(hottest, math.Abs(s.Problem.cost[w]))
			in.add(j, s.floor[w], s.bound[w], s.Problem.cost[w], s.tilt[w], s.gain[w])
		}
		in.end(int32(i), load, left)
	}
	for j, site := range s.sites {
		c, limit := site.Curve, min(s.limit[j], max(1.01*most[j], leastUse))
		for k := 0; k < len(c.load) && c.load[k] < limit; k++ {
			to := limit
			if k+1 < len(c.load) {
				to = min(to, c.load[k+1])
			}
			in.add(int32(j), 0, to-c.load[k], c.ms[k], c.slope[k], -1)
		}
		in.end(-1, site.Size, 0)
		in.price[j] = c.ms[0]
	}
	in.begin(min(hottest, mostHeat))
	return in
}

func (in *interior) grow(ways int) {
	in.site = make([]int32, 0, ways)
	for _, list := range []*[]float64{&in.low, &in.wide, &in.cost, &in.tilt, &in.use} {
		*list = make([]float64, 0, ways)
	}
}

func (in *interior) add(site int32, low, high, cost, tilt, use float64) {
	in.site = append(in.site, site)
	in.low, in.wide = append(in.low, low), append(in.wide, high-low)
	in.cost, in.tilt, in.use = append(in.cost, cost), append(in.tilt, tilt), append(in.use, use)
}

// end ends a group, unless there is nothing to choose in it.
func (in *interior) end(demand int32, weight, total float64) {
	from := in.start[len(in.start)-1]
	if to := int32(len(in.site)); to-from < 2 && demand >= 0 {
		for w := from; w < to; w++ {
			if j := in.site[w]; int(j) < in.n {
				in.fixed[j] += weight * in.use[w] * total
			}
		}
		in.site = in.site[:from]
		for _, list := range []*[]float64{&in.low, &in.wide, &in.cost, &in.tilt, &in.use} {
			*list = (*list)[:from]
		}
		return
	}
	in.demand, in.weight = append(in.demand, demand), append(in.weight, weight)
	in.total, in.start = append(in.total, total), append(in.start, int32(len(in.site)))
}

// begin puts all amounts as far along between their bounds as their group's sum asks for.
func (in *interior) begin(heat float64) {
	ways := len(in.site)
	all := make([]float64, 8*ways)
	for i, list := range []*[]float64{&in.x, &in.floor, &in.ceiling, &in.move, &in.floors, &in.ceilings, &in.ease, &in.push} {
		*list = all[i*ways : (i+1)*ways]
	}
	in.level, in.turn = make([]float64, len(in.demand)), make([]float64, len(in.demand))
	for g, demand := range in.demand {
		low, wide := 0.0, 0.0
		for w := in.start[g]; w < in.start[g+1]; w++ {
			low, wide = low+in.low[w], wide+in.wide[w]
		}
		part := 0.5
		if demand >= 0 {
			part = min(max((in.total[g]-low)/wide, 0.01), 0.99)
		}
		for w := in.start[g]; w < in.start[g+1]; w++ {
			in.x[w] = in.low[w] + part*in.wide[w]
			in.floor[w], in.ceiling[w] = heat/part, heat/(1-part)
		}
	}
}

// warmth is the mean of what amounts pay for being away from their bounds, in ms.
func (in *interior) warmth() float64 {
	sum, all := 0.0, 0.0
	for g, weight := range in.weight {
		for w := in.start[g]; w < in.start[g+1]; w++ {
			up := in.x[w] - in.low[w]
			sum += weight * (up*in.floor[w] + (in.wide[w]-up)*in.ceiling[w])
			all += weight * in.wide[w]
		}
	}
	return sum / (2 * all)
}

// press sets up the equations of a step to a heat; again: of the same step, corrected for how far the first was off.
func (in *interior) press(heat float64, again bool) {
	n := in.n
	if !again {
		clear(in.matrix)
	}
	copy(in.step, in.fixed)
	for g, weight := range in.weight {
		from, to := in.start[g], in.start[g+1]
		ease, push, x, low, wide := in.ease[from:to], in.push[from:to], in.x[from:to], in.low[from:to], in.wide[from:to]
		floor, ceiling, move := in.floor[from:to], in.ceiling[from:to], in.move[from:to]
		cost, tilt, use, site := in.cost[from:to], in.tilt[from:to], in.use[from:to], in.site[from:to]
		level, off, eases, pushes := in.level[g], in.total[g], 0.0, 0.0
		for w := range ease {
			up := x[w] - low[w]
			down := wide[w] - up
			perUp, perDown := 1/up, 1/down
			lower, upper := heat*wide[w], heat*wide[w]
			if again {
				m := move[w]
				lower += m * floor[w] * (1 + m*perUp)
				upper -= m * ceiling[w] * (1 - m*perDown)
			} else {
				ease[w] = 1 / (tilt[w] + floor[w]*perUp + ceiling[w]*perDown)
			}
			push[w] = level - cost[w] - tilt[w]*x[w] - use[w]*in.price[site[w]] + lower*perUp - upper*perDown
			off -= x[w]
			eases += ease[w]
			pushes += ease[w] * push[w]
		}
		if in.demand[g] < 0 {
			eases, off, pushes = math.Inf(1), 0, 0
		}
		in.turn[g] = (off - pushes) / eases
		for w := range ease {
			j := site[w]
			answer := weight * use[w] * ease[w]
			in.step[j] += weight*use[w]*x[w] + answer*(push[w]+in.turn[g])
			if again || int(j) == n {
				continue
			}
			row := in.matrix[int(j)*n : int(j)*n+n]
			row[j] += answer * use[w]
			if answer /= eases; answer == 0 {
				continue
			}
			for v := range ease {
				if k := site[v]; k <= j {
					row[k] -= answer * use[v] * ease[v]
				}
			}
		}
	}
}

// solve finds the step of prices.
func (in *interior) solve() {
	resolve(in.factor, in.n, in.step)
	in.step[in.n] = 0
}

// aim finds where amounts and levels go with the step of prices, and which part of it they can before one of them is at its
// bound.
func (in *interior) aim(heat float64, again bool) float64 {
	most := 1.0
	for g := range in.weight {
		from, to := in.start[g], in.start[g+1]
		ease, push, x, low, wide := in.ease[from:to], in.push[from:to], in.x[from:to], in.low[from:to], in.wide[from:to]
		floor, ceiling, move := in.floor[from:to], in.ceiling[from:to], in.move[from:to]
		floors, ceilings := in.floors[from:to], in.ceilings[from:to]
		use, site := in.use[from:to], in.site[from:to]
		eases, moves := 0.0, 0.0
		for w := range ease {
			eases += ease[w]
			moves += ease[w] * use[w] * in.step[site[w]]
		}
		if in.demand[g] >= 0 {
			in.turn[g] += moves / eases
		}
		for w := range ease {
			up := x[w] - low[w]
			down := wide[w] - up
			perUp, perDown := 1/up, 1/down
			lower, upper := heat*wide[w], heat*wide[w]
			if again {
				m := move[w]
				lower += m * floor[w] * (1 + m*perUp)
				upper -= m * ceiling[w] * (1 - m*perDown)
			}
			m := ease[w] * (push[w] - use[w]*in.step[site[w]] + in.turn[g])
			move[w] = m
			floors[w] = (lower-floor[w]*m)*perUp - floor[w]
			ceilings[w] = (upper+ceiling[w]*m)*perDown - ceiling[w]
			// As products, since quotients are dear: most is that of the steps so far.
			if m < 0 {
				if -m*most > up {
					most = -up / m
				}
			} else if m*most > down {
				most = down / m
			}
			if -floors[w]*most > floor[w] {
				most = -floor[w] / floors[w]
			}
			if -ceilings[w]*most > ceiling[w] {
				most = -ceiling[w] / ceilings[w]
			}
		}
	}
	return most
}

// advance goes a part of the step.
func (in *interior) advance(part float64) {
	for w, move := range in.move {
		in.x[w] += part * move
		in.floor[w] += part * in.floors[w]
		in.ceiling[w] += part * in.ceilings[w]
	}
	for g, turn := range in.turn {
		in.level[g] += part * turn
	}
	for j := range in.n {
		in.price[j] += part * in.step[j]
	}
}
