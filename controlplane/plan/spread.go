package plan

import "math"

// spread makes shares of what is served. What is shed, as long as it does come, goes the way of the rest, but for what is
// served at a bound: that is no more than its part.
func (d *demand) spread(served float64) {
	loose := func(r *route) bool { return !r.reduced && (r.over > 0 || r.fits < r.bound*(1-1e-9)) }
	fixed := func(r *route) float64 {
		switch {
		case r.reduced:
			return r.part
		case loose(r):
			return 0
		}
		return r.fits
	}
	rest, moving := 1.0, 0.0
	for _, r := range d.routes {
		rest -= fixed(r)
		if loose(r) {
			moving += r.fits
		}
	}
	if moving <= 0 || rest < 0 { // nothing is loose: bounds by policy give way, and caps last
		rest, moving = 1, 0
		for _, r := range d.routes {
			rest -= r.part
			if !r.reduced {
				moving += r.fits
			}
		}
		loose = func(r *route) bool { return !r.reduced }
	}
	if moving <= 0 || rest < 0 {
		d.wait()
		return
	}
	for _, r := range d.routes {
		if loose(r) {
			r.share = r.fits / moving * rest
		} else {
			r.share = fixed(r)
		}
	}
}

// wait makes shares of a demand of which next to nothing is served: it goes where the first of it would.
func (d *demand) wait() {
	bounds := d.bounds()
	low, high := math.Inf(1), 0.0
	at := func(i int, level float64) float64 {
		r, bound := d.routes[i], d.routes[i].bound
		if bounds != nil {
			bound = bounds[i]
		}
		if r.part > 0 {
			return min(r.part, bound)
		}
		return min(max((level-r.costMs-r.congestionMs)*r.size/tiltMs, r.floor), bound)
	}
	sum := 0.0
	for i, r := range d.routes {
		ms := r.costMs + r.congestionMs
		low, high = min(low, ms), max(high, ms+tiltMs/r.size)
		sum += at(i, math.Inf(1))
	}
	if sum <= 0 { // nothing may be used
		for _, r := range d.routes {
			r.share = 0
		}
		return
	}
	for range 100 {
		level, all := (low+high)/2, 0.0
		for i := range d.routes {
			all += at(i, level)
		}
		if all < min(sum, 1) {
			low = level
		} else {
			high = level
		}
	}
	all := 0.0
	for i, r := range d.routes {
		r.share = at(i, high)
		all += r.share
	}
	for _, r := range d.routes {
		r.share /= all
	}
}

// bounds are what routes are bound by where their own bounds leave no room for all of the demand; nil: there is room.
func (d *demand) bounds() []float64 {
	room := 0.0
	for _, r := range d.routes {
		room += r.bound
	}
	if room > 1 {
		return nil
	}
	shares := d.crowd(room)
	sum := 0.0
	for _, x := range shares {
		sum += x
	}
	for i := range shares {
		if sum > 0 {
			shares[i] /= sum
		}
	}
	return shares
}

// crowd finds shares where bounds leave no room for all of the demand: what is left has to go
// somewhere. It goes to sites in full use that may grow, by region weight and size where no limit
// binds, or else in proportion to their bounds, where these leave next to nothing to their sizes; only then to sites
// in full use, and only when there are none to those whose use is reduced.
func (d *demand) crowd(room float64) []float64 {
	takes := []func(*route) float64{
		func(r *route) float64 {
			if !r.elastic || r.limited || r.stuck {
				return 0
			}
			return r.wish * r.size
		},
		func(r *route) float64 {
			if !r.elastic || r.stuck {
				return 0
			}
			return r.bound + grain*r.size
		},
		func(r *route) float64 {
			if !r.elastic {
				return 0
			}
			return r.bound + grain*r.size
		},
		func(r *route) float64 { return r.bound },
	}
	shares := make([]float64, len(d.routes))
	for _, take := range takes {
		sum := 0.0
		for i, r := range d.routes {
			shares[i] = take(r)
			sum += shares[i]
		}
		if sum <= 0 {
			continue
		}
		for i, r := range d.routes {
			shares[i] = r.bound + max(1-room, 0)*shares[i]/sum
		}
		break
	}
	return shares
}
