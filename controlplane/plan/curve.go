package plan

import (
	"math"

	"anabranch/controlplane/plan/flow"
)

// The congestion of a site is the waiting time of a queue with many servers, after Sakasegawa's
// approximation of M/M/c, W(u) = S u^(sqrt(2(c+1))-1) / (c (1-u)), of which the marginal cost
// W + u W' counts, since one more request also delays the others; and a part that rises in
// proportion to load, since a larger batch makes each step of it slower.
const (
	// rhoMax is the part of its measured capacity that a site should work at most: u is load over
	// that, so that the waiting time has its pole there.
	rhoMax = 0.8
	// loadMax is the part that it works at most, whatever is asked for: more is shed. Capacity is measured, not
	// known, and load is of some seconds ago.
	loadMax = 0.95
	// steepMs is where the curve leaves that of a queue, before its pole, and goes on as a straight line by
	// crampedMs for each load of 1, up to loadMax. Sites between rhoMax and loadMax share what is too much for all:
	// a percent of load more is as bad as the way to a near region.
	steepMs   = 10_000
	crampedMs = 1e4
	// slotsPerEndpoint is c for one endpoint: how many requests a model server typically has in
	// its batch before more of them slow it down more than they add.
	slotsPerEndpoint = 64
	maxSlots         = 4096
	// serviceMs is S, the time in ms that a slot is taken before the first token.
	serviceMs = 500
	// batchMs is what a batch that fills the site adds to the first token, in ms.
	batchMs = 40
	// knots divide 0..lastKnot.
	knots    = 256
	lastKnot = 0.98
	// knot is the distance of two knots as load over capacity.
	knot = lastKnot * rhoMax / knots
)

// curve is the marginal congestion in ms as a function of load over capacity: strictly increasing,
// piecewise linear, 0 at 0.
type curve struct{ made *flow.Curve }

// newCurve is the curve of a site with so many slots.
func newCurve(slots int) *curve {
	c := float64(max(slots, 1))
	k := math.Sqrt(2*(c+1)) - 1
	var load, ms []float64
	for i := range knots + 1 {
		u := lastKnot * float64(i) / knots
		wait := serviceMs * math.Pow(u, k) / (c * (1 - u))
		at := batchMs*u + wait*(1+k+u/(1-u))
		if at >= steepMs {
			break
		}
		load, ms = append(load, u*rhoMax), append(ms, at)
	}
	last := len(load) - 1
	load, ms = append(load, loadMax), append(ms, ms[last]+crampedMs*(loadMax-load[last]))
	made, err := flow.NewCurve(load, ms)
	if err != nil {
		panic(err) // the formula gives no other than rising knots
	}
	return &curve{made}
}

// at gives the marginal congestion in ms at a load of rho times the capacity.
func (c *curve) at(rho float64) float64 { return c.made.At(max(rho, 0)) }
