package plan

import (
	"cmp"
	"math"
	"slices"

	"anabranch/api/fleet"
)

const (
	// evenSweeps and evened end the search for an even division: shares that move less than that make no
	// difference to a number of replicas.
	evenSweeps = 200
	evened     = 1e-7
)

// alike is by how many ms sites may differ in what they cost and still be as good for a demand as each other.
const alike = 2

// even divides each demand anew among the sites that are best for it when there is room everywhere, so that all of
// these are used to the same part of their capacities as far as they can be, whichever models they serve. So
// sites of one region grow and shrink together, and which sites take part does not depend on their sizes. What
// limits give or leave a site stays as it is. Work is what each demand is counted with.
func even(demands []*demand, work func(*demand) float64) {
	for _, d := range demands {
		d.gather()
	}
	use := map[fleet.ClusterID]float64{}
	for _, d := range demands {
		for _, r := range d.routes {
			use[r.site.id] += work(d) * r.share / r.site.capacity[d.model]
		}
	}
	for range evenSweeps {
		moved := 0.0
		for _, d := range demands {
			if w := work(d); w > 0 {
				moved = max(moved, d.fill(w, use))
			}
		}
		if moved < evened {
			return
		}
	}
}

// gather gives the best routes of a demand all that no limit has a say in, in proportion to their sizes.
func (d *demand) gather() {
	least, left, sizes := math.Inf(1), 0.0, 0.0
	for _, r := range d.routes {
		if r.open() {
			least = min(least, r.costMs)
			left += r.share
		}
	}
	for _, r := range d.routes {
		if r.best = r.open() && r.costMs <= least+alike; r.best {
			sizes += r.size
		}
	}
	for _, r := range d.routes {
		switch {
		case r.best:
			r.share = left * r.size / sizes
		case r.open():
			r.share = 0
		}
	}
}

// open says that nothing but its cost decides what a route takes of a demand.
func (r *route) open() bool {
	return r.barred == "" && r.elastic && r.factor == 1 && !r.limited && !r.outweighed && !r.stuck
}

// fill divides what the best routes of a demand have among them up to a common level of use, and tells how far the
// largest share moved.
func (d *demand) fill(work float64, use map[fleet.ClusterID]float64) float64 {
	var free []*route
	left := 0.0
	for _, r := range d.routes {
		if r.best {
			free = append(free, r)
			left += r.share
			use[r.site.id] -= work * r.share / r.site.capacity[d.model]
		}
	}
	slices.SortStableFunc(free, func(a, b *route) int { return cmp.Compare(use[a.site.id], use[b.site.id]) })
	level, room, filled := 0.0, 0.0, 0.0 // of the first ones: what they can do, and what that is filled with
	for i, r := range free {
		room += r.site.capacity[d.model]
		filled += r.site.capacity[d.model] * use[r.site.id]
		level = (work*left + filled) / room
		if i+1 == len(free) || level <= use[free[i+1].site.id] {
			break
		}
	}
	moved := 0.0
	for _, r := range free {
		share := max(level-use[r.site.id], 0) * r.site.capacity[d.model] / work
		moved = max(moved, math.Abs(share-r.share))
		r.share = share
		use[r.site.id] += work * share / r.site.capacity[d.model]
	}
	return moved
}
