package plan

import (
	"anabranch/controlplane/signal"
)

// listen finds out whether a region with weight is silent, and sets the goals that load which can't wait has. Where
// one is silent nothing goes there or leaves there by what was last known of it; but what sites elsewhere have too
// much still leaves them for others that are heard, as far as the solution has these get more.
func (d *demand) listen(in Input) {
	for _, r := range d.routes {
		r.goal = r.share
		if d.silent == "" && r.before > 0 && !r.heard(in.Signals) {
			d.silent = r.site.region
		}
	}
	if d.silent == "" {
		return
	}
	less, more := 0.0, 0.0
	asked := in.Signals.Region(d.source).Freshness == signal.Fresh
	for _, r := range d.routes {
		by := r.share - r.before
		switch {
		case !asked || !r.heard(in.Signals), by < 0 && r.site.inForce <= rhoMax+excess:
			r.goal = r.before
		case by < 0:
			less -= by
		default:
			more += by
		}
	}
	part := min(less, more)
	for _, r := range d.routes {
		switch by := r.goal - r.before; {
		case by < 0:
			r.goal = r.before + by*part/less
		case by > 0:
			r.goal = r.before + by*part/more
		}
	}
}

// heard says that what a site does is known: its region reports, or a node polls it, or nobody of ours stands beside
// it at all.
func (r *route) heard(s signal.Snapshot) bool {
	return direct(r.site.spec) || s.Region(r.site.region).Freshness == signal.Fresh || watched(r.site, s)
}

// watched says that a site's region has no router, and a node polls the site itself. Routers that have
// fallen silent are another matter: what their clients ask for is not known then, whatever polls say.
func watched(site *site, s signal.Snapshot) bool {
	for _, o := range s.Routers {
		if o.Region() == site.region {
			return false
		}
	}
	load := s.Cluster(site.id, "")
	return load.By == signal.ByPolls && load.Freshness == signal.Fresh
}

// deaf is why a demand is held.
func (d *demand) deaf() string { return "held: no fresh report from " + string(d.silent) }

// relieve takes away what sites have too much, and holds all else.
func (d *demand) relieve(before []float64, in Input) {
	goal := make([]float64, len(d.routes))
	for i, r := range d.routes {
		goal[i] = r.goal
	}
	next := towards(before, goal, d.urgent)
	if distance(before, next) < quantum/2 {
		d.keep(in, d.deaf())
		return
	}
	d.take(next, d.deaf()+", but for what a cluster has too much: "+d.describe())
}
