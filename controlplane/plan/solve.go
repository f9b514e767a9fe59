package plan

import (
	"math"
	"slices"

	"anabranch/api/fleet"
)

const (
	// tiltMs is a cost of concentrating a demand, relative to sizes: too small to matter beside a
	// millisecond's distance, it makes the solution unique, and splits an idle fleet by capacity.
	tiltMs = 1
	// maxSweeps and settled end the iteration. Shares that move less than they are rounded to do
	// not matter: where demands compete for the same sites, many divisions cost nearly the same, and
	// going on would only shift requests between them.
	maxSweeps = 200
	settled   = quantum
)

// solve finds the shares that together cost least. Each demand in turn is poured over its sites
// until all that take of it have the same marginal cost, given what the others send there; as the
// total cost is convex, repeating this converges to the optimum.
//
// Reduced shares (ramps, policy weights) are found by solving without them first: a part of what a
// site would get is its upper bound in a second solution, which finds the best place for the rest.
// Limits on regions and on growth follow in the same way. The weights in force play no part but for
// the last, so that the solution stays the same while the input does.
func (w *world) solve(demands []*demand) {
	for _, d := range demands {
		for _, r := range d.routes {
			r.bound = 1
			if r.barred != "" {
				r.bound = 0
			}
			r.share = 0
		}
	}
	w.sweep(demands)
	if bind(demands, func(_ *demand, r *route) (float64, bool) { return r.factor * r.share, r.factor < 1 }) {
		w.sweep(demands)
	}
	for range w.regionIDs {
		if !limitShares(demands) {
			break
		}
		w.sweep(demands)
	}
	moving := map[*demand]bool{}
	for _, d := range demands {
		moving[d] = d.moves()
	}
	if bind(demands, func(d *demand, r *route) (float64, bool) {
		stuck := moving[d] && !r.site.health.MayGrow() && r.share > r.before+quantum
		if stuck {
			r.because = string(r.site.health.State) + ": does not grow"
		}
		return r.before, stuck
	}) {
		w.sweep(demands)
	}
}

// bind lowers the bounds of routes that rule speaks of, and says whether there was any.
func bind(demands []*demand, rule func(*demand, *route) (float64, bool)) bool {
	found := false
	for _, d := range demands {
		for _, r := range d.routes {
			if bound, ok := rule(d, r); ok && r.barred == "" {
				r.bound, found = min(r.bound, bound), true
			}
		}
	}
	return found
}

// moves says whether load alone would move the weights in force.
func (d *demand) moves() bool {
	return d.before != nil && d.displaced == "" && slices.ContainsFunc(d.routes, func(r *route) bool {
		return math.Abs(r.share-r.before) > deadBand
	})
}

// limitShares lowers bounds so that no region has more of a policy's traffic than its limit, and
// says whether that changed anything.
func limitShares(demands []*demand) bool {
	type group struct {
		governed string
		class    fleet.ClassID
	}
	type part struct {
		group
		region fleet.RegionID
	}
	total := map[group]float64{}
	taken := map[part]float64{}
	limits := map[part]float64{}
	for _, d := range demands {
		g := group{d.governed, d.class}
		total[g] += d.load
		for _, r := range d.routes {
			taken[part{g, r.site.region}] += d.load * r.share
		}
		for _, wish := range d.policy.Regions {
			if wish.MaxShare != nil && *wish.MaxShare < 1 {
				limits[part{g, fleet.RegionID(wish.Region)}] = max(*wish.MaxShare, 0)
			}
		}
	}
	changed := false
	for _, d := range demands {
		g := group{d.governed, d.class}
		for _, r := range d.routes {
			at := part{g, r.site.region}
			limit, limited := limits[at]
			if !limited || taken[at] <= limit*total[g]*(1+1e-6) {
				continue
			}
			bound := r.share * limit * total[g] / taken[at]
			if bound < r.bound-1e-6 {
				r.bound, changed = bound, true
				r.because = "the policy limits " + string(r.site.region) + " to a part of its traffic"
			}
		}
	}
	return changed
}

// sweep pours each demand in turn, from the shares that there are, until all have settled.
func (w *world) sweep(demands []*demand) {
	for range maxSweeps {
		for _, s := range w.sites {
			s.load = 0
		}
		for _, d := range demands {
			d.add(1)
		}
		moved := 0.0
		for _, d := range demands {
			d.add(-1)
			moved = max(moved, d.pour())
			d.add(1)
		}
		if moved < settled {
			return
		}
	}
}

// add puts the demand on its sites, or with -1 takes it off.
func (d *demand) add(sign float64) {
	for _, r := range d.routes {
		r.site.load += sign * r.share * r.use
	}
}

// pour finds the shares of one demand, and how far the largest of them moved. Where bounds leave
// no room for all of it, they are exceeded in proportion: it has to go somewhere.
func (d *demand) pour() float64 {
	room := 0.0
	low, high := math.Inf(1), 0.0
	for _, r := range d.routes {
		room += r.bound
		if r.bound > 0 {
			base := max(r.site.load, 0)
			low = min(low, r.costMs+r.site.curve.at(base))
			high = max(high, r.costMs+r.site.curve.at(base+r.use)+tiltMs/r.size)
		}
	}
	if room <= 0 {
		return 0
	}
	at := func(r *route, level float64) float64 {
		switch {
		case r.bound <= 0:
			return 0
		case room <= 1:
			return r.bound / room
		}
		x := r.site.curve.share(level-r.costMs, max(r.site.load, 0), r.use, tiltMs/r.size)
		return min(x, r.bound)
	}
	for range 100 {
		if room <= 1 || high-low <= 1e-8*high {
			break
		}
		level, sum := (low+high)/2, 0.0
		for _, r := range d.routes {
			sum += at(r, level)
		}
		if sum < 1 {
			low = level
		} else {
			high = level
		}
	}
	sum := 0.0
	shares := make([]float64, len(d.routes))
	for i, r := range d.routes {
		shares[i] = at(r, high)
		sum += shares[i]
	}
	if sum <= 0 { // never, as high is where one route takes all it may; but a share must be a number
		return 0
	}
	moved := 0.0
	for i, r := range d.routes {
		x := shares[i] / sum
		moved = max(moved, math.Abs(x-r.share))
		r.share = x
	}
	return moved
}
