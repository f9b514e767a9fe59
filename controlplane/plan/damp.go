package plan

import (
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/signal"
	"anabranch/failover/shift"
)

const (
	// growth is how much a region's share of a demand may rise in a second when nothing but load has changed.
	growth = 0.02
	// excess is how far above what a site should work at its load must be for the excess to leave at once:
	// within it a step of growth or two does.
	excess = 0.02
	// leastGrowth is what a share may rise by in a second in any case: a site of which no work is told, as
	// nobody counts it, gets there in minutes.
	leastGrowth = growth / 10
)

// passed is the time since the table in force for which shares may grow: a second at most.
func passed(in Input) float64 {
	seconds := in.Now.Sub(time.UnixMilli(in.Previous.GetCreatedUnixMs())).Seconds()
	if seconds < 0 { // another leader's clock was ahead: weights must not wait for it
		return 1
	}
	return min(seconds, 1)
}

// pace is the part of the way to a target on which no region's share rises by more than growth allows.
func (d *demand) pace(before, target []float64, passed float64) float64 {
	rise := map[fleet.RegionID]float64{}
	for i, r := range d.routes {
		rise[r.site.region] += target[i] - before[i]
	}
	pace := 1.0
	for _, by := range rise {
		if by > growth*passed {
			pace = min(pace, growth*passed/by)
		}
	}
	return pace
}

// shed finds for each demand that load alone moves which part of the way to the solution must not wait for
// growth: so much that sites with more to do than they should have no more than that, as far as those have
// room that it goes to. What moves is counted there as the cold caches make it.
func (w *world) shed(demands []*demand) {
	if !slices.ContainsFunc(w.sites, func(s *site) bool { return s.inForce > rhoMax+excess }) {
		return
	}
	relief := map[*site]float64{} // of sites with too much, if all went the whole way
	each(demands, func(d *demand, r *route, by float64) {
		if by < 0 && r.site.inForce > rhoMax+excess {
			relief[r.site] -= by
		}
	})
	if len(relief) == 0 {
		return
	}
	each(demands, func(d *demand, r *route, by float64) {
		if all := relief[r.site]; by < 0 && all > 0 {
			d.urgent = max(d.urgent, min((r.site.inForce-rhoMax)/all, 1))
		}
	})
	room := map[*site]float64{}
	comes := map[*site]float64{}
	each(demands, func(d *demand, r *route, by float64) {
		if _, known := room[r.site]; !known {
			room[r.site] = max(rhoMax-r.site.inForce, 0)
		}
		if by > 0 {
			comes[r.site] += by * d.urgent * r.coldFactor(d)
		} else {
			room[r.site] -= by * d.urgent
		}
	})
	part := map[*demand]float64{}
	each(demands, func(d *demand, r *route, by float64) {
		if by > 0 && comes[r.site] > room[r.site] {
			if _, less := part[d]; !less {
				part[d] = 1
			}
			part[d] = min(part[d], room[r.site]/comes[r.site])
		}
	})
	for d, x := range part {
		d.urgent *= x
	}
}

// each visits what load alone would change of the weights in force: by is what of its capacity a site would
// get more, or, below 0, less.
func each(demands []*demand, visit func(d *demand, r *route, by float64)) {
	for _, d := range demands {
		if d.before == nil || d.displaced != "" {
			continue
		}
		for _, r := range d.routes {
			if by := (r.goal - r.before) * r.use; by != 0 {
				visit(d, r, by)
			}
		}
	}
}

// warmth is how warm a site's caches are for what comes from a source, 0..1: what it has lately done for it,
// over what fills them.
func (r *route) warmth() float64 {
	if direct(r.site.spec) {
		return 1 // not ours to warm
	}
	return shift.Warmth(r.capacity, r.served)
}

// coldFactor is how many times as much work a request of a demand is there as where caches are warm.
func (r *route) coldFactor(d *demand) float64 { return 1 + (d.cold-1)*(1-r.warmth()) }

// allowed is the largest share that a site may rise to by load, as far as its caches have warmed up.
func (r *route) allowed(d *demand) float64 {
	if direct(r.site.spec) || r.before >= 1 {
		return 1
	}
	return max(r.before+leastGrowth, min(shift.More(r.capacity, r.served)/d.load, 1))
}

// warmUp takes back from sites what they may not have yet while their caches are cold. It stays with those that have
// it and are free to keep it, so no more is taken back than they would give away: what a dead site or an order
// displaces has nowhere to stay, and goes where there is room for it.
func (d *demand) warmUp(shares []float64) {
	back, room := 0.0, 0.0
	cold, stays := make([]bool, len(d.routes)), make([]float64, len(d.routes))
	for i, r := range d.routes {
		allowed := r.allowed(d)
		cold[i] = shares[i] > allowed+quantum && (r.factor == 1 || r.returning())
		switch {
		case cold[i]:
			back += shares[i] - allowed
		case r.barred == "" && r.factor == 1 && r.mayGrow() && !r.outweighed && !r.limited:
			stays[i] = max(r.before-shares[i], 0)
			room += stays[i]
		}
	}
	if back <= 0 || room <= 0 {
		return
	}
	part := min(room/back, 1)
	for i, r := range d.routes {
		if cold[i] {
			shares[i] -= part * (shares[i] - r.allowed(d))
			r.cold = true
		} else {
			shares[i] += part * back * stays[i] / room
		}
	}
	round(shares)
}

// newcomer names a region whose routers have only just begun to report, of those whose traffic this is or
// that have a share of it: what they tell of is not what it will be.
func (d *demand) newcomer(s signal.Snapshot) fleet.RegionID {
	young := func(id fleet.RegionID) bool {
		r := s.Region(id)
		return r.Freshness != signal.Absent && r.Since < blackOut
	}
	if young(d.source) {
		return d.source
	}
	for _, r := range d.routes {
		if r.before > 0 && !direct(r.site.spec) && young(r.site.region) {
			return r.site.region
		}
	}
	return ""
}
