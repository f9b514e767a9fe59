package plan

import (
	"math"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/failover"
	"anabranch/failover/shift"
)

// aftermath is how long after a loss what moved is looked at for being cold. Where little moved, caches take that long to
// know it, and there is room anyway.
const aftermath = 10 * shift.WarmAfter

// displace finds what a lost site did and others have to do now: the sessions come to caches that don't know them, and
// are more work there until they do. What a site's caches know is what it has done of the demand lately, beside the
// others. Losses that nobody says the time of are over. What makes room for it elsewhere comes cold there too: it is
// counted so where survivors have too much, see cut, and moves by itself as caches fill.
func displace(demands []*demand, in Input) {
	returns(demands, in.Now)
	last := time.Duration(math.MaxInt64)
	for _, d := range demands {
		if d.since, d.lost = d.loses(in.Now); d.lost {
			last = min(last, d.since)
		}
	}
	for _, d := range demands {
		since := d.since
		if !d.lost {
			since = last
		}
		if since >= aftermath || d.cold <= 1 || d.before == nil {
			continue
		}
		d.know()
		for _, r := range d.routes {
			if !direct(r.site.spec) {
				r.moved, r.apart = r.movedFactor(d, since), d.lost
			}
		}
	}
}

// loses says whether a site is lost, or is being left, that did some of the demand, and for how long the last of them
// has been.
func (d *demand) loses(now time.Time) (since time.Duration, lost bool) {
	for _, r := range d.routes {
		if r.served <= 0 && r.before <= 0 || r.excluded {
			continue
		}
		after, gone := r.gone(now)
		if r.site.gone(d.model) { // for a drill, whose way begins when it is found
			after, gone = 0, true
		}
		if gone && after < aftermath && (!lost || after < since) {
			since, lost = after, true
		}
	}
	return since, lost
}

// gone says whether a site is lost to the model or being left, by its health or an operator, and for how long it has been;
// one that nobody says the time of has been for long. An order that health has not taken in yet is new.
func (r *route) gone(now time.Time) (time.Duration, bool) {
	switch health := wellOr(r.health); health.State {
	case failover.FailingOver, failover.Evacuated, failover.Draining, failover.Drained:
		if health.Since.IsZero() {
			return aftermath, true
		}
		return max(now.Sub(health.Since), 0), true
	}
	return 0, r.site.spec.Drained && r.site.was != nil && !r.site.was.GetDrained()
}

// know finds the share of the demand that each site's caches know. Where nobody has counted what sites did, these are
// the weights in force.
func (d *demand) know() {
	sum := 0.0
	for _, r := range d.routes {
		sum += r.served
	}
	for _, r := range d.routes {
		if r.known = r.before; sum > 0 {
			r.known = r.served / sum
		}
	}
}

// refused takes off of what caches know what is shed of it, and says whether that has changed anything: routers shed by
// priority, not by who is known where.
func refused(demands []*demand) bool {
	found := false
	for _, d := range demands {
		part := min(d.excess(), 1-shedGrain)
		if d.coldest() <= 1 || math.Abs(part-d.unknown) < shedGrain {
			continue
		}
		found = true
		for _, r := range d.routes {
			r.known *= (1 - part) / (1 - d.unknown)
		}
		d.unknown = part
	}
	return found
}

// movedFactor is how many times as much work what has moved to a site is, so long after the loss: caches fill by the
// work that is done of it, of which what is shed is none.
func (r *route) movedFactor(d *demand, since time.Duration) float64 {
	does := max(r.before-r.known, 0) * r.use * (1 - d.refuses(d.before.GetShed())) // of its capacity
	filled := min(since.Seconds()*does/shift.WarmAfter.Seconds(), r.warmth())
	return 1 + (d.cold-1)*(1-filled)
}

// refuses is the part of the demand that is shed where routers are told to shed so much.
func (d *demand) refuses(all []*routerpb.Shed) float64 {
	sum := 0.0
	for _, s := range all {
		sum += d.tierPart(s.GetPriority()) * s.GetPart()
	}
	return min(sum, 1)
}

// split says whether some of what a loss moves to a site is cold there.
func (r *route) split() bool { return r.apart && r.moved > 1 && r.known < 1 }

// coldest is how many times as much work what has moved is where it is most; 1: nothing has, or caches are warm.
func (d *demand) coldest() float64 {
	most := 1.0
	for _, r := range d.routes {
		if r.split() && r.bound > r.known {
			most = max(most, r.moved)
		}
	}
	return most
}

// marginalUse is the part of the site's capacity that the whole demand would take if all of it were as what comes next.
func (r *route) marginalUse() float64 {
	if r.split() {
		return min(r.use*r.moved, mostUse)
	}
	return r.use
}

// returns forgets what sites that come back did before they went away: a ramp is by time, and what a site may get in it
// is also no more than its caches have warmed up to by the work that it has done since.
func returns(demands []*demand, now time.Time) {
	type at struct {
		*site
		model fleet.ModelID
	}
	sent := map[at]float64{} // by the weights in force
	for _, d := range demands {
		for _, r := range d.routes {
			if r.returning() {
				sent[at{r.site, d.model}] += r.before * d.load
			}
		}
	}
	for _, d := range demands {
		for _, r := range d.routes {
			if !r.returning() {
				continue
			}
			does := 0.0
			if all := sent[at{r.site, d.model}]; all > 0 {
				does = r.before * d.load * min(r.site.ability[d.model].Finished/all, 1)
			}
			r.served = min(r.served, does*max(now.Sub(wellOr(r.health).Since).Seconds(), 0))
		}
	}
}

// returning says that a site is in its ramp, since a time that is known.
func (r *route) returning() bool {
	health := wellOr(r.health)
	return health.State == failover.Ramping && !health.Since.IsZero() && !direct(r.site.spec)
}
