package plan

import "math"

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

// pour finds the shares of one demand, and how far the largest of them moved.
func (d *demand) pour() float64 {
	room := 0.0
	for _, r := range d.routes {
		room += r.bound
	}
	var shares []float64
	if room <= 1 {
		shares = d.crowd(room)
	} else {
		shares = d.level()
	}
	sum := 0.0
	for _, x := range shares {
		sum += x
	}
	if sum <= 0 { // nothing may be used
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

// level finds shares within the bounds, which leave room for more than the demand, such that all
// routes that are not at a bound have the same marginal cost.
func (d *demand) level() []float64 {
	low, high := math.Inf(1), 0.0
	for _, r := range d.routes {
		if r.bound > 0 {
			base := max(r.site.load, 0)
			low = min(low, r.costMs+r.site.curve.at(base))
			high = max(high, r.costMs+r.site.curve.at(base+r.use)+tiltMs/r.size)
		}
	}
	at := func(r *route, level float64) float64 {
		if r.bound <= 0 {
			return 0
		}
		x := r.site.curve.share(level-r.costMs, max(r.site.load, 0), r.use, tiltMs/r.size)
		return min(max(x, r.floor), r.bound)
	}
	for range 100 {
		if high-low <= 1e-8*high {
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
	shares := make([]float64, len(d.routes))
	for i, r := range d.routes {
		shares[i] = at(r, high)
	}
	return shares
}

// crowd finds shares where bounds leave no room for all of the demand: what is left has to go
// somewhere. It goes to sites in full use that may grow, by region weight and size where no limit
// binds, or else in proportion to their bounds; only then to sites in full use, and only when there
// are none to those whose use is reduced.
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
			return r.bound
		},
		func(r *route) float64 {
			if !r.elastic {
				return 0
			}
			return r.bound
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
