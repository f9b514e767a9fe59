package plan

import (
	"math"

	"anabranch/controlplane/policy"
	"anabranch/failover/shift"
)

// mostPlanned part of what it can do is what a survivor of a loss may be planned to have, cold caches counted. The
// solution leaves 1 - loadMax of that free; what is held, damped or rounded may take of it, and no more.
const mostPlannedPart = 1.0

// manner is how demands go to the solution.
type manner int

const (
	// paced is by what growth, caches and the dead-band allow each of them.
	paced manner = iota
	// waiting: what load alone would move stays where it is, and only what is displaced moves.
	waiting
	// together: all go the whole way at once, since the solution has room for all of them where they go.
	together
)

// settle decides what becomes of the solution for all demands, and sees to it that no survivor of a loss is planned
// above what it can do. Each demand goes to the solution at a pace of its own; so one may come to a site before another,
// which was to make room there, has left. Where that is too much for a site, load alone moves nothing; where it still is,
// all move together; and what is too much then is shed. Where nothing is lost routers' queues and ceilings see to that.
func (w *world) settle(demands []*demand, in Input) {
	best := w.proceed(demands, in, paced)
	if best == 0 || !in.Warm || !anyLost(demands) {
		return
	}
	how := paced
	for _, m := range []manner{waiting, together} {
		if over := w.proceed(demands, in, m); over < best {
			best, how = over, m
		}
		if best == 0 {
			return
		}
	}
	if how != together {
		w.proceed(demands, in, how)
	}
	w.cut(demands)
	for _, d := range demands {
		if d.least != nil {
			d.settle(w, in)
		}
	}
}

// proceed settles all demands in a manner, and tells how much sites are planned to have above what they can do, in sizes
// of sites.
func (w *world) proceed(demands []*demand, in Input, how manner) float64 {
	for _, d := range demands {
		d.manner = how
		d.settle(w, in)
	}
	over := 0.0
	for i, x := range w.planned(demands) {
		over += max(x-mostPlannedPart, 0) * w.sites[i].weight
	}
	return over
}

func anyLost(demands []*demand) bool {
	for _, d := range demands {
		if d.lost {
			return true
		}
	}
	return false
}

// planned is what part of its capacity each site would use with the weights that have been decided on, what is cold
// counted and what is shed taken off.
func (w *world) planned(demands []*demand) []float64 {
	out := make([]float64, len(w.sites))
	for _, d := range demands {
		served := 1 - d.refuses(d.refused)
		for i, r := range d.routes {
			out[r.site.index] += served * d.takes(i)
		}
	}
	return out
}

// takes is what part of its capacity a route's site would use if nothing of the demand was shed. Where all is barred, no
// site is known to have anything to do with it.
func (d *demand) takes(route int) float64 {
	if d.work <= 0 || !d.usable() {
		return 0
	}
	r := d.routes[route]
	share := find(d.out, string(r.site.id), route).GetWeight()
	return shift.Share(share, r.known/(1-d.unknown), r.moved) * r.use
}

// cut decides what has to be shed so that no site has more than it can do: the lowest priority first of all that comes to
// it, and of one priority the same part.
func (w *world) cut(demands []*demand) {
	load := w.planned(demands)
	for _, s := range w.sites {
		for _, name := range policy.Tiers() {
			if load[s.index] <= mostPlannedPart {
				break
			}
			w.cutTier(demands, s, policy.TierPriority(name), load)
		}
	}
}

// cutTier sheds as much of one priority as a site has too much, as far as that goes.
func (w *world) cutTier(demands []*demand, s *site, priority int32, load []float64) {
	type share struct {
		d *demand
		// of the tier that is shed, and of the site that all of the tier takes.
		part, takes float64
	}
	var all []share
	for _, d := range demands {
		if d.guessed() {
			continue // what there is room for is not known
		}
		for i, r := range d.routes {
			if r.site != s {
				continue
			}
			if x := d.takes(i) * d.tierPart(priority); x > 0 {
				all = append(all, share{d, partOf(d.refusing(), priority), x})
			}
		}
	}
	for part := shedGrain; ; part += shedGrain {
		part = min(math.Round(part/shedGrain)*shedGrain, 1)
		frees := 0.0
		for _, x := range all {
			frees += max(part-x.part, 0) * x.takes
		}
		if load[s.index]-frees > mostPlannedPart && part < 1 {
			continue
		}
		for _, x := range all {
			if part <= x.part {
				continue
			}
			was := x.d.refuses(x.d.refusing())
			x.d.least = ladder(priority, part)
			for i, r := range x.d.routes {
				load[r.site.index] += (was - x.d.refuses(x.d.least)) * x.d.takes(i)
			}
		}
		return
	}
}
