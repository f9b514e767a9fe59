package plan

import (
	"math"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan/flow"
)

const (
	// tiltMs is a cost of concentrating a demand, relative to sizes: too small to matter beside a
	// millisecond's distance, it makes the solution unique, and splits an idle fleet by capacity.
	tiltMs = 1
	// giveMs is by how much a site must cost less than what the policy wants before its weights and limits give
	// way: when nothing else has room, and before anything is shed.
	giveMs = 13_000
	// leastServed is the part of a demand by which its weights are told from what is served. Where less is, they are where it
	// would be cheapest.
	leastServed = 1e-3
	// grain is what shares are brought to multiples of, so that they don't depend on where the search began.
	grain = 1e-9
)

// sweep finds the shares of all demands that together cost least within the bounds of their routes, and what of
// them can't be served at all.
func (w *world) sweep(demands []*demand) {
	heavy := w.heaviness()
	sites := make([]flow.Site, len(w.sites))
	for i, s := range w.sites {
		sites[i] = flow.Site{Curve: s.curve.made, Limit: loadMax, Size: s.weight}
	}
	p := flow.NewProblem(sites)
	ways := 0
	for _, d := range demands {
		ways += 2*len(d.routes) + 2
	}
	p.Grow(len(demands), ways)
	var b basin
	for _, d := range demands {
		b.put(p, d, heavy[d.model])
	}
	w.solution = flow.Solve(p, w.solution)
	for i, s := range w.sites {
		s.load, s.congestionMs = w.solution.Load[i], w.solution.CongestionMs[i]
	}
	for i, d := range demands {
		d.read(w.solution, i)
	}
}

// congestion of each site, for the next plan to begin from.
func (w *world) congestion() map[fleet.ClusterID]float64 {
	out := map[fleet.ClusterID]float64{}
	for _, s := range w.sites {
		out[s.id] = s.congestionMs
	}
	return out
}

// recall begins from the congestion that an earlier plan found; a site that it knew nothing of is idle.
func (w *world) recall(congestion map[fleet.ClusterID]float64) {
	if congestion == nil {
		return
	}
	w.solution = &flow.Solution{CongestionMs: make([]float64, len(w.sites))}
	for i, s := range w.sites {
		w.solution.CongestionMs[i] = congestion[s.id]
	}
}

// basin is room to write a demand of the flow in.
type basin struct {
	arcs  []flow.Arc
	steps []flow.Step
}

// put adds a demand to the flow. Its load weighs as much as the work takes of sites, whatever the model. What has moved to
// a route and is cold there goes on an arc of its own, on which it takes more of the site.
func (b *basin) put(p *flow.Problem, d *demand, heavy float64) {
	load := d.load * heavy
	b.arcs, b.steps = b.arcs[:0], b.steps[:0]
	bounds := d.bounds()
	bound := func(i int) float64 {
		if bounds != nil {
			return bounds[i]
		}
		return d.routes[i].bound
	}
	for i, r := range d.routes {
		most := bound(i)
		if r.split() {
			most = min(most, r.known)
		}
		a := flow.Arc{Site: r.site.index, CostMs: r.costMs, Use: r.use / load, Floor: min(r.floor, most), Bound: most, TiltMs: tiltMs / r.size}
		b.arcs = append(b.arcs, a)
		r.gain = r.site.weight * a.Use
	}
	for _, r := range d.routes {
		if bounds == nil && r.gives() {
			b.arcs = append(b.arcs, flow.Arc{Site: r.site.index, CostMs: r.costMs + giveMs, Use: r.marginalUse() / load, Bound: 1 - r.bound, TiltMs: tiltMs / r.size})
		}
	}
	for i, r := range d.routes {
		if r.split() {
			a := b.arcs[i]
			a.CostMs += a.Bound * a.TiltMs
			a.Use, a.Floor, a.Bound = r.marginalUse()/load, max(min(r.floor, bound(i))-a.Floor, 0), bound(i)-a.Bound
			b.arcs = append(b.arcs, a)
		}
	}
	for _, t := range d.tiers {
		b.steps = append(b.steps, t.step(d.coldest()))
	}
	p.Add(flow.Demand{Load: load, Arcs: b.arcs, Shed: b.steps})
}

// gives says that a route's bound is one that gives way when nothing else has room.
func (r *route) gives() bool {
	return r.elastic && !r.stuck && r.bound < 1 && (r.outweighed || r.limited)
}

// read takes a demand's part of a solution.
func (d *demand) read(s *flow.Solution, index int) {
	d.levelMs = s.LevelMs[index]
	served, next := 0.0, len(d.routes)
	roomy := d.bounds() == nil
	shares := s.Shares(index)
	for i, r := range d.routes {
		r.fits, r.over = shares[i], 0
		if roomy && r.gives() {
			r.over = shares[next]
			r.fits += r.over
			next++
		}
	}
	for _, r := range d.routes {
		if r.crossed = false; r.split() {
			r.fits += shares[next]
			r.crossed = shares[next] > 0
			next++
		}
		served += r.fits
	}
	d.shed = d.shed[:0]
	for i, t := range d.tiers {
		if x := s.Shed(index)[i]; x > quantum*t.part && t.part > 0 {
			d.shed = append(d.shed, shed{t.priority, min(x/t.part, 1)})
		}
	}
	for _, r := range d.routes {
		if r.crossed || r.split() && r.known <= 0 {
			r.gain *= r.moved
		}
		r.congestionMs = r.gain * r.site.congestionMs
	}
	if served < leastServed {
		d.wait()
	} else {
		d.spread(served)
	}
	for _, r := range d.routes {
		r.share = math.Round(r.share/grain) * grain
	}
}
