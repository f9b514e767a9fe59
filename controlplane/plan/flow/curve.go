package flow

import (
	"errors"
	"math"
	"sort"
)

// Curve is a marginal cost in ms over load: piecewise linear, never falling, and going on after its last knot as
// between the last two.
type Curve struct {
	load, ms []float64
	area     []float64 // of the curve up to each knot: the total cost
	slope    []float64 // from each knot to the next; of the last, on
}

// leastSlope is how much a curve rises at least, in ms per load of 1: where it says less, prices tell the load only
// so exactly.
const leastSlope = 1e-6

// free is the curve of a site without one.
var free, _ = NewCurve([]float64{0, 1}, []float64{0, 0})

// NewCurve makes a curve of knots: loads that rise from 0, and the marginal cost at each, which doesn't fall. There
// are two knots or more. A curve that is level somewhere is taken to rise by a millionth of a ms per load of 1.
func NewCurve(load, ms []float64) (*Curve, error) {
	if len(load) != len(ms) || len(load) < 2 || load[0] != 0 {
		return nil, errors.New("a curve needs two knots or more, as many loads as costs, and a load of 0 first")
	}
	n := len(load)
	c := &Curve{load: append([]float64(nil), load...), ms: make([]float64, n), area: make([]float64, n), slope: make([]float64, n)}
	for i := range load {
		if math.IsNaN(load[i]) || math.IsNaN(ms[i]) || math.Abs(ms[i]) > mostMs || load[i] > mostUse {
			return nil, errors.New("a knot of a curve is out of range")
		}
		c.ms[i] = ms[i] + leastSlope*load[i]
		if i == 0 {
			continue
		}
		step := load[i] - load[i-1]
		if step <= 0 || ms[i] < ms[i-1] {
			return nil, errors.New("the loads of a curve must rise, and its costs must not fall")
		}
		c.slope[i-1] = (c.ms[i] - c.ms[i-1]) / step
		c.area[i] = c.area[i-1] + step*(c.ms[i]+c.ms[i-1])/2
	}
	c.slope[n-1] = c.slope[n-2]
	return c, nil
}

// At is the marginal cost in ms at a load of 0 or more.
func (c *Curve) At(load float64) float64 {
	i := c.piece(load)
	return c.ms[i] + (load-c.load[i])*c.slope[i]
}

// Cost is the total cost up to a load, in ms times load.
func (c *Curve) Cost(load float64) float64 {
	i := c.piece(load)
	by := load - c.load[i]
	return c.area[i] + by*(c.ms[i]+by*c.slope[i]/2)
}

// piece is the last knot at or below a load.
func (c *Curve) piece(load float64) int {
	return max(sort.Search(len(c.load), func(i int) bool { return c.load[i] > load })-1, 0)
}

// reach finds the load, up to a limit, at which the marginal cost is base+ms, and how much more load a ms more would
// be. However little ms is beside the base, it counts.
func (c *Curve) reach(base, ms, limit float64) (load, perMs float64) {
	i := sort.Search(len(c.ms), func(i int) bool { return c.ms[i] > base+ms }) - 1
	if i < 0 {
		return 0, 0
	}
	load = max(c.load[i]+((base-c.ms[i])+ms)/c.slope[i], 0)
	if load >= limit {
		return limit, 0
	}
	return load, 1 / c.slope[i]
}
