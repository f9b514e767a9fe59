package plan

import (
	"math"
	"slices"

	"anabranch/api/fleet"
)

// solve finds the shares that together cost least, see sweep.
//
// Where a ramp or a failover in steps reduces a site, the shares are found without reductions
// first: a site's cap is a part of what it would get then. The weights in force play no part but
// for the limit on growth, so that the solution stays the same while the input does.
func (w *world) solve(demands []*demand) {
	w.ideal(demands, func(r *route) bool { return !r.reserve })
	reduced := false
	for _, d := range demands {
		for _, r := range d.routes {
			r.ideal, r.idealFits, r.idealBound = r.share, r.fits, max(r.share, r.bound)
			reduced = reduced || r.barred == "" && r.factor < 1
		}
	}
	if reduced {
		w.reduce(demands)
	}
	w.limitGrowth(demands)
}

// ideal finds the shares that the policies want over those routes that may be used, all of them in
// full use. Region weights are honoured by solving without them first: a part of what a site would
// get is its upper bound then.
func (w *world) ideal(demands []*demand, may func(*route) bool) {
	for _, d := range demands {
		for _, r := range d.routes {
			r.elastic = r.barred == "" && !r.dear && may(r)
			r.bound, r.floor, r.part, r.share, r.fits, r.over, r.reduced = 0, 0, 0, 0, 0, 0, false
			if r.elastic {
				r.bound = 1
			}
		}
	}
	w.sweep(demands)
	if bind(demands, (*demand).outweigh) {
		w.sweep(demands)
	}
	w.limitRegions(demands)
}

// outweigh bounds the sites whose regions have less weight than others. The largest weight of the
// sites in use counts as 1, since only proportions can be honoured.
func (d *demand) outweigh() bool {
	largest := 0.0
	for _, r := range d.routes {
		r.natural = r.share
		if r.elastic {
			largest = max(largest, r.wish)
		}
	}
	found := false
	for _, r := range d.routes {
		r.outweighed = r.elastic && r.wish < largest
		if r.outweighed {
			r.bound, found = r.share*r.wish/largest, true
		}
	}
	return found
}

// reduce gives every reduced site exactly its part of the ideal share. What it may not have goes
// where it would go if the reduced sites were not there: bounds by policy lie between those of both
// situations, as far along as the demand has lost of its ideal shares.
func (w *world) reduce(demands []*demand) {
	outweighed := map[*route]bool{}
	for _, d := range demands {
		for _, r := range d.routes {
			outweighed[r] = r.outweighed
		}
	}
	w.ideal(demands, func(r *route) bool { return r.factor == 1 })
	for _, d := range demands {
		had, lost := 0.0, 0.0
		for _, r := range d.routes {
			if r.barred == "" && r.factor < 1 {
				had += r.ideal
				lost += (1 - r.factor) * r.ideal
			}
		}
		part := 0.0
		if had > 0 {
			part = lost / had
		}
		for _, r := range d.routes {
			r.outweighed = outweighed[r]
			switch {
			case r.barred != "":
			case r.factor < 1:
				r.bound, r.floor = r.factor*r.ideal, r.factor*r.idealFits
				r.part, r.reduced = r.bound, true
			default:
				r.bound = (1-part)*r.idealBound + part*max(r.share, r.bound)
			}
		}
	}
	w.sweep(demands)
	w.limitRegions(demands)
}

// limitGrowth holds what load alone would move onto sites that must not grow.
func (w *world) limitGrowth(demands []*demand) {
	if bind(demands, (*demand).hold) {
		w.sweep(demands)
	}
}

// hold bounds the sites that must not grow by what they have, if any of them would.
func (d *demand) hold() bool {
	held := func(r *route) bool { return r.barred == "" && !r.mayGrow() }
	if !d.moves() || !slices.ContainsFunc(d.routes, func(r *route) bool { return held(r) && r.share > r.before+quantum }) {
		return false
	}
	for _, r := range d.routes {
		if held(r) {
			r.stuck = true
			r.bound = min(r.bound, r.before)
		}
	}
	return true
}

// bind applies a rule that lowers bounds to each demand, and says whether any was lowered.
func bind(demands []*demand, rule func(*demand) bool) bool {
	found := false
	for _, d := range demands {
		if rule(d) {
			found = true
		}
	}
	return found
}

// limitRegions applies the policies' limits on regions' shares, and then what regions are to have at least.
func (w *world) limitRegions(demands []*demand) {
	for range w.regionIDs {
		if !limitShares(demands) {
			break
		}
		w.sweep(demands)
	}
	for range w.regionIDs {
		if !leastShares(demands) {
			return
		}
		w.sweep(demands)
	}
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
	limits := map[part]float64{}
	for _, d := range demands {
		for _, wish := range d.policy.Regions {
			if wish.MaxShare != nil && *wish.MaxShare < 1 {
				limits[part{group{d.governed, d.class}, fleet.RegionID(wish.Region)}] = max(*wish.MaxShare, 0)
			}
		}
	}
	if len(limits) == 0 {
		return false
	}
	total := map[group]float64{}
	taken := map[part]float64{}
	for _, d := range demands {
		g := group{d.governed, d.class}
		total[g] += d.load
		for _, r := range d.routes {
			taken[part{g, r.site.region}] += d.load * max(r.share-r.over, 0)
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
				r.limited = true
			}
		}
	}
	return changed
}
