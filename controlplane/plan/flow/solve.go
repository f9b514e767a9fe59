package flow

import "math"

const (
	// mostRounds bounds the search for prices, and mostSettles how often ways without tilt are settled. Neither is
	// reached but by numbers at the edge of what floating point can tell apart.
	mostRounds  = 200
	wholeRounds = 40
	// wholePours bounds how often the first search may pour: a search from inside costs about as much.
	wholePours = 30
	// A first search is hopeless where, after a few pours, most of what a site gets is still wrong.
	fewPours    = 8
	hopeless    = 0.8
	blurRounds  = 20
	blurSteps   = 60
	mostSettles = 60
	// exact is the part of a site's load that counts as nothing, even that of the cost, and finest what a unit of load
	// may cost too much in ms.
	exact = 1e-12
	// nothing is the part of a limit that is but rounding.
	nothing = 1e-14
	// near is the part that is good enough when a search ends with no better.
	near   = 1e-10
	even   = 1e-11
	finest = 1e-6
	// stiffness is by how many ms a site at its limit is taken to go up for a load of 1 to begin with, so that a
	// step of prices has a size before anything responds to them.
	stiffness = 1e4
	stiffest  = 1e9
	// mostBlur is the tilt in ms that a search from nothing begins with.
	mostBlur   = 1e6
	mostPrice  = 1e12
	leastPerMs = 1e-8
	slack      = 1e3
	coarse     = 1e-4
)

// Solve finds the division of least cost. Warm may be any earlier solution, or one with nothing but CongestionMs, or nil:
// it is where the search begins, and has no say in what is found.
//
// Sites ask prices for their load, and each demand goes where that is cheapest for it (pour). Wanted are the
// prices at which each site gets as much load as its curve would offer at its price: they are the maximum
// of the dual, which is concave, smooth, and quadratic in pieces. Newton's method with a search along each step finds
// the piece of the maximum, and then the maximum itself but for rounding.
func Solve(p *Problem, warm *Solution) *Solution {
	s := p.resume(warm)
	if s == nil {
		s = begin(p, warm)
	}
	s.pours = wholePours
	found := s.search(wholeRounds, exact)
	s.pours = math.MaxInt
	for _, most := range []int{sampled, math.MaxInt} {
		if found {
			break
		}
		s.interior(most)
		s.rebase()
		found = s.search(wholeRounds, exact)
		if len(s.to) <= most {
			break
		}
	}
	if !found {
		s.anneal()
	}
	s.settle()
	return s.finish()
}

// search is a state of the prices, and what demands do at them.
type search struct {
	*Problem
	n     int       // sites
	limit []float64 // of each site
	price []float64 // of each site, in ms, above base; and 0 for what is shed
	level []float64 // of each demand, above what cost starts at
	base  []float64 // of each site
	share []float64 // of each way
	load  []float64 // of each site; and what is shed
	swing []float64 // of each way: of the problem, or with more tilt
	// cost of each way; in ms above the base of the site, and relative to any level. Where the problem is flat, it is
	// moved so that shares tend to stay.
	cost []float64
	from []float64 // the level that costs are relative to, of each demand; nil: 0
	// short is the load that a site gets more than it offers; its square sum is far.
	short []float64
	holds []hold // of each demand
	awake []way  // by holds
	// seen are the prices at the last pour, stride how far one had moved for it, and travel how far prices have
	// fallen in all.
	seen           []float64
	stride, travel float64
	// mended: shares are not those that were poured.
	mended bool
	made   *Solution // what was found last
	curve  []float64 // of the dual: n x n, its second derivatives by prices, negated
	// what steps need
	step, before, was, perMs, factor []float64
	keys                             []float64
	free                             []int32
	stiff                            []float64 // of each site, see stiffness
	rounds                           int
	pours                            int     // how many more a search may do
	spent, proven                    float64 // the cost, and what the dual proves, at the last look
}

func begin(p *Problem, warm *Solution) *search {
	n := len(p.sites)
	s := &search{
		Problem: p, n: n, limit: make([]float64, n), price: make([]float64, n+1), base: make([]float64, n+1), level: make([]float64, len(p.load)),
		share: make([]float64, len(p.to)), load: make([]float64, n+1), cost: p.cost, swing: p.swing,
		short: make([]float64, n), curve: make([]float64, n*n), step: make([]float64, n), before: make([]float64, n), was: make([]float64, n),
		perMs: make([]float64, n), holds: make([]hold, len(p.load)), seen: make([]float64, n), factor: make([]float64, n*n), stiff: make([]float64, n),
	}
	most := 0
	for i := range p.load {
		most = max(most, int(p.start[i+1]-p.start[i]))
	}
	s.keys, s.free = make([]float64, most), make([]int32, most)
	s.confine()
	if warm == nil || len(warm.CongestionMs) != n {
		s.restart()
		return s
	}
	for j, ms := range warm.CongestionMs {
		s.price[j] = within(ms, -mostPrice, mostPrice)
		s.stiff[j] = stiffest
	}
	if len(warm.LevelMs) == len(p.load) {
		copy(s.level, warm.LevelMs)
	} else {
		s.guess()
	}
	return s
}

// confine sets the limits of sites, which floors may be above.
func (s *search) confine() {
	clear(s.limit)
	for i, load := range s.Problem.load {
		if !s.floored {
			break
		}
		for w := s.start[i]; w < s.steps[i]; w++ {
			if s.floor[w] > 0 {
				s.limit[s.to[w]] += load * s.use[w] * s.floor[w]
			}
		}
	}
	for j, site := range s.sites {
		s.limit[j] = max(s.limit[j], site.Limit)
	}
}

// resume goes on with the search that found a solution, if that was the last of this problem; else nil.
func (p *Problem) resume(warm *Solution) *search {
	s := p.last
	if s == nil || warm == nil || s.made != warm || len(s.level) != len(p.load) {
		return nil
	}
	s.rounds = 0
	for j := range s.stiff {
		s.stiff[j] = stiffest
	}
	s.confine()
	return s
}

// restart sets the prices of idle sites.
func (s *search) restart() {
	s.cost, s.from = s.Problem.cost, nil
	s.forget()
	for j, site := range s.sites {
		s.price[j], s.base[j] = site.Curve.ms[0], 0
		s.stiff[j] = stiffness
	}
	s.guess()
}

// guess takes for a demand's level what the cheapest of its ways costs at the present prices.
func (s *search) guess() {
	for i := range s.level {
		least := math.Inf(1)
		for w := s.start[i]; w < s.start[i+1]; w++ {
			least = min(least, s.Problem.cost[w]+s.gain[w]*s.price[s.to[w]]+s.bound[w]/s.Problem.swing[w])
		}
		s.level[i] = least
	}
}

// anneal searches with much tilt first, and then with less and less: where all of a demand goes to and fro at once, one
// doesn't see from either side what is between. Where a step was too long for that, a shorter one is tried.
func (s *search) anneal() {
	s.restart()
	s.swing = make([]float64, len(s.Problem.swing))
	blur, last := mostBlur, math.Inf(1)
	for range blurSteps {
		for w, tilt := range s.tilt {
			s.swing[w] = 1 / (max(tilt, leastTilt) + blur)
		}
		s.forget()
		switch found := s.search(blurRounds, coarse); {
		case found && blur < 1:
			s.swing = s.Problem.swing
			s.forget()
			s.search(mostRounds, exact)
			return
		case found:
			last, blur = blur, blur/8
		case math.IsInf(last, 1):
			blur = min(30*blur, mostMs)
		default:
			blur = math.Sqrt(last * blur)
		}
	}
}

// search finds the prices, or gives up after some rounds and says so.
func (s *search) search(most int, enough float64) bool {
	s.pour()
	far := s.shortage()
	best, least, idle, rebased := far, far, 0, 0
	for range most {
		if far <= enough {
			return true
		}
		if least = min(least, far); s.pours <= 0 || s.pours < wholePours-fewPours && least > hopeless {
			return false
		}
		if idle > 3 {
			if rebased++; rebased > 2 {
				return true
			}
			s.rebase()
			s.pour()
			far = s.shortage()
			best, idle = far, 0
		}
		s.rounds++
		s.newton()
		far = s.advance()
		s.learn()
		if far < best/2 {
			best, idle = far, 0
		} else if far < 1e-6 {
			idle++
		}
	}
	return far <= near
}

// shortage compares what sites get with what they offer at their prices, and gives the largest part by which one is
// off.
func (s *search) shortage() float64 {
	far := 0.0
	for j, site := range s.sites {
		offered, perMs := site.Curve.reach(s.base[j], s.price[j], s.limit[j])
		s.short[j] = s.load[j] - offered
		if math.Abs(s.short[j]) <= nothing*s.limit[j] {
			s.short[j] = 0
		}
		s.perMs[j] = perMs
		far = max(far, math.Abs(s.short[j])/max(s.load[j], s.limit[j]))
	}
	return far
}

// secant is the answer of a site's offer to its price, where that is off the curve: from there to the price at which
// it offers what it gets.
func (s *search) secant(j int) float64 {
	rise := (s.sites[j].Curve.At(s.load[j]) - s.base[j]) - s.price[j]
	if rise*s.short[j] <= 0 {
		return 0
	}
	return s.short[j] / rise
}

// slope is how much the dual rises along the step, at the present prices.
func (s *search) slope() float64 {
	sum := 0.0
	for j, site := range s.sites {
		sum += site.Size * s.short[j] * s.step[j]
	}
	return sum
}

// rebase makes the present prices and levels the ones that others are told relative to. Far above 0 they are too coarse
// to tell shares by.
func (s *search) rebase() {
	cost := make([]float64, len(s.cost))
	if s.from == nil {
		s.from = make([]float64, len(s.level))
	}
	for i, level := range s.level {
		for w := s.start[i]; w < s.start[i+1]; w++ {
			cost[w] = s.cost[w] + s.gain[w]*s.price[s.to[w]] - level
		}
		s.from[i] += level
		s.level[i] = 0
	}
	s.cost = cost
	s.forget()
	for j := range s.sites {
		s.base[j] += s.price[j]
		s.price[j], s.seen[j] = 0, 0
	}
}

// advance goes along the step until the dual rises no more, or hardly. A whole step is what it takes near the maximum.
func (s *search) advance() float64 {
	copy(s.before, s.price)
	copy(s.was, s.short)
	first := s.slope()
	low, high := 0.0, math.Inf(1)
	atLow, atHigh := first, 0.0
	part := 1.0
	for range 60 {
		s.pours--
		s.move(part)
		s.pour()
		far := s.shortage()
		at := s.slope()
		switch {
		case far <= exact, math.Abs(at) <= 0.3*first && (part != 1 || at >= -0.3*first):
			return far
		case at > 0 && part < 1e12:
			low, atLow = part, at
		case at > 0:
			return far
		default:
			high, atHigh = part, at
		}
		switch {
		case math.IsInf(high, 1):
			part *= 4
		case high-low <= 1e-13*high:
			return far
		default: // where the line between both is 0, but well inside
			part = low + (high-low)*min(max(atLow/(atLow-atHigh), 0.1), 0.9)
		}
	}
	return s.shortage()
}

// learn makes a site stiffer that is short as before, and less so one that is so the other way.
func (s *search) learn() {
	for j := range s.stiff {
		switch turn := s.was[j] * s.short[j]; {
		case turn > 0:
			s.stiff[j] = min(4*s.stiff[j], stiffest)
		case turn < 0:
			s.stiff[j] = max(s.stiff[j]/4, 1)
		}
	}
}

// move sets prices some steps from where they were.
func (s *search) move(steps float64) {
	for j := range s.sites {
		s.price[j] = within(s.before[j]+steps*s.step[j], s.sites[j].Curve.ms[0]-s.base[j]-slack, mostPrice)
	}
}
