// Package flow divides demands among sites so that it costs least: a min-cost flow with convex congestion,
// solved exactly. Demands have bounds and floors on each way, sites a limit, and what doesn't fit is shed by what
// it costs not to serve it. Each solution proves by its dual bound how far from the optimum it is. It knows nothing of
// clusters and policies; its caller translates.
package flow

import "math"

// Site is where load goes.
type Site struct {
	// Curve is the marginal congestion of the site over its load; nil: none, whatever the load.
	Curve *Curve
	// Limit is the most load that demands may put on it, in the units of the curve and above 0. Floors go
	// first: where they alone are more, they are the limit.
	Limit float64
	// Size is what a load of 1 weighs, in the units of the demands' loads: the congestion of the site counts so many
	// times. 0: 1.
	Size float64
}

// Arc is a way from a demand to a site. There may be several to one site, say the dearer ones for what exceeds a
// bound.
type Arc struct {
	// Site is the index of the site.
	Site int
	// CostMs is what a unit of load costs there beside congestion.
	CostMs float64
	// Use is the load that a unit of the demand's load puts on the site.
	Use float64
	// Floor and Bound are the least and the most share of the demand, 0..1. Floors that sum to more than 1 are
	// scaled down.
	Floor, Bound float64
	// TiltMs is what the marginal cost rises by while the share goes from 0 to 1. Above 0 it makes the solution
	// unique; with 0 there may be several that cost the same, and one of them is found.
	TiltMs float64
}

// Step is a part of a demand that may be left unserved.
type Step struct {
	// CostMs is what it costs not to serve a unit of load of this part, and TiltMs what that rises by while the
	// whole of the part is shed: with it, demands alike shed like parts.
	CostMs, TiltMs float64
	// Part of the demand, 0..1. The last step is for all that is left, whatever it says.
	Part float64
}

// Demand is load to be divided.
type Demand struct {
	// Load, 0 or more: how much there is, and what its costs weigh. With 0 it has its shares and levels as if it
	// were next to nothing.
	Load float64
	Arcs []Arc
	// Shed are the steps of not serving it. Empty: one step at [LostMs].
	Shed []Step
}

// Bounds of what is believed: numbers outside are brought inside, and those that are none become the lower one. So
// whatever the input no result is NaN or infinite.
const (
	mostMs   = 1e9
	mostUse  = 1e12
	leastUse = 1e-15
	mostLoad = 1e15
)

// LostMs is what it costs not to serve a unit of load of a demand that has no steps of shedding.
const LostMs = 1e6

// Problem is sites, and demands to divide among them. It remembers what it was solved with, and is for one goroutine at a
// time.
type Problem struct {
	sites []Site
	load  []float64 // of demands
	start []int32   // of a demand's ways: those to sites, then its steps; and the end of the last
	steps []int32   // of a demand: where its steps start
	// The ways of all demands. A step is a way to the site after the last, which has no price.
	to           []int32
	cost, gain   []float64 // gain: the site's price for a unit of load, in its congestion
	use, tilt    []float64
	floor, bound []float64
	// swing is how much the share of a way rises when its demand's level does by a ms: 1/tilt, where that is not
	// too little to tell a share by. Flat: it is, of some way.
	swing []float64
	flat  bool
	// floored: some way has a floor. Last is the search that ended last, to go on from.
	floored bool
	last    *search
}

// leastTilt in ms is what tells shares apart while prices are found; a way with less is brought to its own tilt step
// by step, see settle.
const leastTilt = 0.01

// NewProblem has sites and no demands yet.
func NewProblem(sites []Site) *Problem {
	p := &Problem{sites: make([]Site, len(sites)), start: []int32{0}}
	for i, s := range sites {
		s.Size = within(s.Size, 0, mostLoad)
		if s.Size == 0 {
			s.Size = 1
		}
		s.Limit = within(s.Limit, leastUse, mostUse)
		if s.Curve == nil {
			s.Curve = free
		}
		p.sites[i] = s
	}
	return p
}

// Grow makes room for so many demands and ways to come.
func (p *Problem) Grow(demands, ways int) {
	p.load = grown(p.load, demands)
	p.start, p.steps = grown(p.start, demands), grown(p.steps, demands)
	p.to = grown(p.to, ways)
	for _, list := range []*[]float64{&p.cost, &p.gain, &p.use, &p.tilt, &p.swing, &p.floor, &p.bound} {
		*list = grown(*list, ways)
	}
}

func grown[E any](list []E, by int) []E {
	return append(make([]E, 0, len(list)+by), list...)
}

// Add adds a demand, and gives its index. Arcs to sites that are not there are a mistake of the caller, and panic.
func (p *Problem) Add(d Demand) int {
	floors := 0.0
	for _, a := range d.Arcs {
		floors += within(a.Floor, 0, 1)
	}
	scale := 1 / max(floors, 1)
	for _, a := range d.Arcs {
		use := within(a.Use, leastUse, mostUse)
		floor := within(a.Floor, 0, 1) * scale
		p.way(a.Site, a.CostMs, a.TiltMs, floor, max(within(a.Bound, 0, 1), floor))
		p.use = append(p.use, use)
		p.gain = append(p.gain, use*p.sites[a.Site].Size)
	}
	p.steps = append(p.steps, int32(len(p.to)))
	steps := d.Shed
	if len(steps) == 0 {
		steps = []Step{{CostMs: LostMs}}
	}
	for i, s := range steps {
		part := within(s.Part, 0, 1)
		tilt := within(s.TiltMs, 0, mostMs)
		if i == len(steps)-1 {
			tilt, part = tilt/max(part, 1e-3), 1
		} else {
			tilt /= max(part, 1e-3)
		}
		p.way(len(p.sites), s.CostMs, tilt, 0, part)
		p.use, p.gain = append(p.use, 0), append(p.gain, 0)
	}
	p.start = append(p.start, int32(len(p.to)))
	p.load = append(p.load, within(d.Load, 0, mostLoad))
	return len(p.load) - 1
}

func (p *Problem) way(to int, cost, tilt, floor, bound float64) {
	p.to = append(p.to, int32(to))
	p.cost = append(p.cost, within(cost, -mostMs, mostMs))
	tilt = within(tilt, 0, mostMs)
	p.tilt, p.swing = append(p.tilt, tilt), append(p.swing, 1/max(tilt, leastTilt))
	p.flat = p.flat || tilt < leastTilt
	p.floored = p.floored || floor > 0
	p.floor = append(p.floor, floor)
	p.bound = append(p.bound, bound)
}

// Len is the number of demands.
func (p *Problem) Len() int { return len(p.load) }

// SetLoad changes how much there is of a demand. Solving again after that, from the solution before, is what is
// quickest.
func (p *Problem) SetLoad(demand int, load float64) { p.load[demand] = within(load, 0, mostLoad) }

// within brings a number between bounds.
func within(x, low, high float64) float64 {
	if math.IsNaN(x) {
		return low
	}
	return min(max(x, low), high)
}
