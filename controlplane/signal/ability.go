package signal

import (
	"math"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

const (
	// falling and rising are the time constants by which a measured capacity is believed to have fallen or
	// risen: what is lost is missed within seconds, what comes back may go again. So one that flips with each
	// report counts for little more than its lower value, and stays there. While it has not been measured for
	// as long as rising takes, what it rises by counts as fast as it was measured: an average over all of it.
	falling = 5 * time.Second
	rising  = time.Minute
	// heat is how long half of what was served lately is remembered: caches lose it to newer prompts, and
	// conversations end.
	heat = 10 * time.Minute
	// fame is how long half of the best that was seen finished is remembered, and grudge how long half of
	// the doubt about a claim that was found wrong. Both are long beside a rush hour's minutes, so that
	// what was found out is not forgotten and found out again each few minutes.
	fame   = time.Hour
	grudge = time.Hour
	// calmDrift is how long it takes until the least wait that was seen may count double: what is usual
	// changes with models and prompts.
	calmDrift = time.Hour
)

// What contradicts a claim.
const (
	// idle is the saturation below which a cluster's own router finds it to have room, and full that from
	// which on it works as hard as it can.
	idle = 0.8
	full = 0.95
	// slowFactor and slowMs: requests from elsewhere wait for so many times as long as they did at best, and
	// so many ms longer. At least slowRequests of them in a report.
	slowFactor   = 3
	slowMs       = 250
	slowRequests = 3
	// shortfall is the part of its claim that a cluster finishes at least while it works as hard as it can.
	// With cold caches it does not finish more than 1/1.7 of it.
	shortfall = 0.5
	// A claim must be contradicted for so long to be doubted: by waits, and by what is finished, of which the
	// average takes twice as long as smoothing to see a cluster that has just come to be full.
	waits   = 10 * time.Second
	matures = 2 * smoothing
)

// Ability is what is known of how much of a model a cluster can do, in work units per second. The zero Ability
// knows nothing.
type Ability struct {
	// Capacity as routers of its region measure it, smoothed: it falls within seconds and rises within a
	// minute. 0: never measured.
	Capacity float64
	// Age is how long ago it was last measured, and Since how long it has been since the first time.
	Age, Since time.Duration
	// Finished is what is finished there as its own region's routers count it, an average over 15 s; Most the
	// best that was seen of that, half of which is forgotten in an hour.
	Finished, Most float64
	// Doubt, 0..1, of the capacity: 1 while what the cluster's own router says is contradicted, by how long
	// requests from elsewhere wait or by how little is finished at full load; half as much an hour later.
	Doubt float64
}

// Ability of a cluster for a model, however old what is known of it.
func (s Snapshot) Ability(cluster fleet.ClusterID, model fleet.ModelID) Ability {
	return s.abilities[place{cluster, model}]
}

// Served is the work for a model that a cluster did lately for requests that came in at a region, in work units:
// half of it is forgotten in ten minutes. It says how warm the cluster's caches are for these.
func (s Snapshot) Served(source fleet.RegionID, cluster fleet.ClusterID, model fleet.ModelID) float64 {
	return s.served[routeKey{source, place{cluster, model}}]
}

// spot is what one router saw of one model on one cluster, over time.
type spot struct {
	// capacity as it measures it, smoothed; since when, and when last.
	capacity  float64
	first, at time.Time
	// finished work/s, an average; served, in work units, fading.
	finished, served float64
	// own: the router stands beside the cluster. Sighted: it has just found how saturated that is.
	own, sighted bool
	saturation   float64
	// calm is the least wait in ms that requests from elsewhere met, drifting upwards; slow: now they wait for
	// much longer.
	calm float64
	slow bool
}

// see takes in a report's word some time after the one before.
func (p spot) see(c *routerpb.ClusterSignal, now time.Time, after, span time.Duration) spot {
	work := Number(c.GetLoadWork())
	p.finished += weightOf(after, smoothing) * (work - p.finished)
	p.served = p.served*halved(after, heat) + work*span.Seconds()
	if p.own = c.GetScraped(); p.own {
		p.saturation = Number(c.GetSaturation())
		p.sighted = c.GetAgeMs() >= 0 && c.GetAgeMs() <= FreshFor.Milliseconds()
		p.measure(Number(c.GetCapacityWork()), now, after)
		return p
	}
	ttft := Number(c.GetTtftP50Ms())
	p.slow = false
	if ttft <= 0 || c.GetRequests() < slowRequests {
		return p
	}
	if p.calm > 0 {
		p.calm /= max(halved(after, calmDrift), 0.5)
	}
	if p.calm <= 0 || ttft < p.calm {
		p.calm = ttft
	}
	p.slow = ttft > max(slowFactor*p.calm, p.calm+slowMs)
	return p
}

// measure takes in a measured capacity; 0 is none.
func (p *spot) measure(work float64, now time.Time, after time.Duration) {
	switch {
	case work <= 0:
	case p.capacity <= 0:
		p.capacity, p.first, p.at = work, now, now
	default:
		constant := falling
		if work > p.capacity {
			constant = max(min(now.Sub(p.first), rising), falling)
		}
		p.capacity += weightOf(after, constant) * (work - p.capacity)
		p.at = now
	}
}

// halved is what is left after a time of what halves in another.
func halved(after, half time.Duration) float64 {
	return math.Exp2(-max(after.Seconds(), 0) / half.Seconds())
}

// belief is what is known of one model on one cluster whoever said it, over time.
type belief struct {
	work      float64 // capacity, the largest of its routers'
	first, at time.Time
	most      float64   // finished in a second, fading from mostAt
	mostAt    time.Time // when most was last looked at
	// wrong is since when what its routers claim is contradicted, doubted when it last was for long enough to
	// be doubted; zero: it is not, it never was.
	wrong, doubted time.Time
}

func (b belief) ability(now time.Time) Ability {
	a := Ability{Capacity: b.work, Most: b.most * halved(now.Sub(b.mostAt), fame)}
	if b.work > 0 {
		a.Age, a.Since = max(now.Sub(b.at), 0), max(now.Sub(b.first), 0)
	}
	if !b.doubted.IsZero() {
		a.Doubt = halved(now.Sub(b.doubted), grudge)
	}
	return a
}

// chorus is what all routers say of one place.
type chorus struct {
	own                         bool
	finished, claim, saturation float64
	sighted                     bool
	slow, elsewhere             int // routers elsewhere that find it slow, and all that know
	first, at                   time.Time
}

func (x chorus) with(p spot) chorus {
	if !p.own {
		if p.calm > 0 {
			x.elsewhere++
		}
		if p.slow {
			x.slow++
		}
		return x
	}
	x.own = true
	x.finished += p.finished
	x.sighted = x.sighted || p.sighted
	x.saturation = max(x.saturation, p.saturation)
	x.claim = max(x.claim, p.capacity)
	if p.at.After(x.at) {
		x.at = p.at
	}
	if p.capacity > 0 && (x.first.IsZero() || p.first.Before(x.first)) {
		x.first = p.first
	}
	return x
}

// wrong says that what the routers beside it claim of a cluster can't be, if that lasts for a while.
func (x chorus) wrong() (wrong bool, after time.Duration) {
	switch {
	case x.claim <= 0 || !x.sighted:
		return false, 0
	case x.saturation < idle:
		return 2*x.slow > x.elsewhere, waits
	}
	return x.saturation >= full && x.finished < shortfall*x.claim, matures
}

// learn puts together what all routers say of each place. The caller holds the lock.
func (s *Store) learn(now time.Time) {
	s.learnt = now
	all := map[place]chorus{}
	for _, m := range s.sorted() { // sums of floats depend on the order
		if m.obs.Freshness(now) != Absent {
			for at, p := range m.spots {
				all[at] = all[at].with(p)
			}
		}
	}
	for at, x := range all {
		b, known := s.capacity[at]
		if !x.own || !known && len(s.capacity) >= maxPlaces {
			continue
		}
		b.most, b.mostAt = max(b.most*halved(now.Sub(b.mostAt), fame), x.finished), now
		if x.claim > 0 {
			if b.work, b.at = x.claim, x.at; b.first.IsZero() {
				b.first = x.first
			}
		}
		switch wrong, after := x.wrong(); {
		case !wrong:
			b.wrong = time.Time{}
		case b.wrong.IsZero():
			b.wrong = now
		case now.Sub(b.wrong) >= after:
			b.doubted = now
		}
		s.capacity[at] = b
	}
}
