package plan

import "math"

// The congestion of a site is the waiting time of a queue with many servers, after Sakasegawa's
// approximation of M/M/c, W(u) = S u^(sqrt(2(c+1))-1) / (c (1-u)), of which the marginal cost
// W + u W' counts, since one more request also delays the others; and a part that rises in
// proportion to load, since a larger batch makes each step of it slower.
const (
	// rhoMax is the part of its measured capacity that a site should work at most: u is load over
	// that, so that the waiting time has its pole there.
	rhoMax = 0.8
	// slotsPerEndpoint is c for one endpoint: how many requests a model server typically has in
	// its batch before more of them slow it down more than they add.
	slotsPerEndpoint = 64
	maxSlots         = 4096
	// serviceMs is S, the time in ms that a slot is taken before the first token.
	serviceMs = 500
	// batchMs is what a batch that fills the site adds to the first token, in ms.
	batchMs = 40
	// knots divide 0..lastKnot; beyond it the curve goes on as a straight line, which keeps
	// overload finite, and rising.
	knots    = 256
	lastKnot = 0.98
	// knot is the distance of two knots as load over capacity.
	knot = lastKnot * rhoMax / knots
)

// curve is the marginal congestion in ms as a function of load over capacity: strictly increasing,
// piecewise linear, 0 at 0.
type curve struct{ ms [knots + 1]float64 }

func newCurve(slots int) *curve {
	c := float64(max(slots, 1))
	k := math.Sqrt(2*(c+1)) - 1
	var out curve
	for i := range out.ms {
		u := lastKnot * float64(i) / knots
		wait := serviceMs * math.Pow(u, k) / (c * (1 - u))
		out.ms[i] = batchMs*u + wait*(1+k+u/(1-u))
	}
	return &out
}

// at gives the marginal congestion in ms at a load of rho times the capacity.
func (c *curve) at(rho float64) float64 {
	x := max(rho, 0) / knot
	i := int(min(x, knots-1))
	return c.ms[i] + (x-float64(i))*(c.ms[i+1]-c.ms[i])
}

// share finds the share x >= 0 at which at(base + x*use) + tilt*x reaches ms; 0 when it is there
// already. use and tilt are > 0, base >= 0. As a sum of a piecewise linear function and a linear
// one it is solved exactly.
func (c *curve) share(ms, base, use, tilt float64) float64 {
	if c.at(base) >= ms {
		return 0
	}
	perLoad := tilt / use
	low := int(min(base/knot, knots-1)) // the load at low is at most base
	high := knots
	for high-low > 1 {
		middle := (low + high) / 2
		if c.ms[middle]+perLoad*(float64(middle)*knot-base) < ms {
			low = middle
		} else {
			high = middle
		}
	}
	slope := (c.ms[low+1] - c.ms[low]) / knot
	// Not by the load at which that is: base would swallow a use that is very small.
	return max(ms-c.ms[low]-slope*(base-float64(low)*knot), 0) / (slope*use + tilt)
}
