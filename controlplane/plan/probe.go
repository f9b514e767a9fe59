package plan

import (
	"cmp"
	"slices"

	"anabranch/controlplane/policy"
)

const (
	// probePart of a demand goes to each site that it keeps measured, and probeMost to all of them together.
	probePart = 0.01
	probeMost = 0.03
	// probeFlow is how many requests a minute a demand must have to probe, so that its part is one at least:
	// with less it would be slowed down for nothing. Who probes does so until it has half of that.
	probeFlow = 100.0
	// probeNeed is how many requests a minute of a model a site must get by the solution to need no probes.
	// One that is probed is until it gets twice that.
	probeNeed = 1.0
	// probeReach is the part of its objective for the first token that a probe's way may take.
	probeReach = 0.25
)

// probing is the reason of a probe's share. It is also how the next plan knows of it.
const probing = "probe: keeps its measurements fresh"

// probe gives each site that is in full use, and gets next to nothing of a model by the solution, a trickle of
// one demand: else nobody would notice that it has become faster, or slower, until it is needed. Sites that
// routers reach directly are left out: nothing is measured there, and each request costs money.
func (w *world) probe(demands []*demand) {
	spots := make([]spot, len(w.sites))
	for rest := demands; len(rest) > 0; { // those of a model come together
		n := 1
		for n < len(rest) && rest[n].model == rest[0].model {
			n++
		}
		clear(spots)
		for _, d := range rest[:n] {
			for _, r := range d.routes {
				spots[r.site.index].count(d, r)
			}
		}
		for i := range spots {
			spots[i].choose()
		}
		rest = rest[n:]
	}
	for _, d := range demands {
		d.trickle()
	}
}

// spot is a model on a site, as far as probes go.
type spot struct {
	perMinute float64
	probed    bool
	may       []candidate
}

// candidate is a demand that may probe the site of a route.
type candidate struct {
	*demand
	*route
}

func (s *spot) count(d *demand, r *route) {
	s.perMinute += 60 * d.requests * r.share
	s.probed = s.probed || r.probes()
	if d.probesTo(r) {
		s.may = append(s.may, candidate{d, r})
	}
}

// choose lets the best candidate probe, if that is needed.
func (s *spot) choose() {
	need := probeNeed
	if s.probed {
		need *= 2
	}
	if s.perMinute >= need || len(s.may) == 0 {
		return
	}
	best := slices.MinFunc(s.may, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.class, b.class), cmp.Compare(a.source, b.source))
	})
	best.probe = true
}

// rank orders those who could probe a site: who does already, then whose way is shortest beside what its requests
// may wait.
func (p candidate) rank() float64 {
	if p.probes() {
		return -1
	}
	return p.rttMs / max(p.policy.TTFTObjectiveMs, 1)
}

// probes says that the site is being probed by the demand.
func (r *route) probes() bool {
	return r.before > 0 && r.was.GetReason() == probing
}

// probesTo says whether a demand may probe a site: the policy and the site's health let it have a share without
// conditions, there are enough requests, and the way is short beside what they may wait. Where latency is said
// to come first it is not crossed between regions: one request in a hundred is what a P99 looks at.
func (d *demand) probesTo(r *route) bool {
	flow := probeFlow
	if r.probes() {
		flow /= 2
	}
	switch {
	case direct(r.site.spec) || r.barred != "" || r.dear || r.factor < 1 || r.reserve || r.last || r.limited || !r.mayGrow():
		return false
	case 60*d.requests < flow || r.rttMs > probeReach*d.policy.TTFTObjectiveMs:
		return false
	case d.policy.Objective == policy.LatencyFirst && r.site.region != d.source:
		return false
	}
	// A ramp gets exactly its part of what a site would get.
	return !slices.ContainsFunc(d.routes, func(o *route) bool { return o.barred == "" && o.factor < 1 })
}

// trickle makes room for the probes of a demand in the solution.
func (d *demand) trickle() {
	n, others := 0, 0.0
	for _, r := range d.routes {
		if r.probe {
			n++
		} else {
			others += r.share
		}
	}
	if n == 0 || others <= 0 {
		return
	}
	part := min(probePart, probeMost/float64(n))
	for _, r := range d.routes {
		if r.probe {
			r.share = part
		} else {
			r.share *= (1 - float64(n)*part) / others
		}
	}
}

// unprobed says that a probe is missing from the weights in force, or not needed there any more: both are within
// the dead-band.
func (d *demand) unprobed() bool {
	return slices.ContainsFunc(d.routes, func(r *route) bool {
		return r.probe && r.before < r.share/2 || !r.probe && r.probes()
	})
}

// reprobed are the weights in force with the probes of the solution.
func (d *demand) reprobed(before, target []float64) []float64 {
	next := slices.Clone(before)
	fixed, others := 0.0, 0.0
	for i, r := range d.routes {
		if r.probe || r.probes() {
			next[i] = target[i]
			fixed += next[i]
		} else {
			others += next[i]
		}
	}
	if others <= 0 {
		return target
	}
	for i, r := range d.routes {
		if !r.probe && !r.probes() {
			next[i] *= (1 - fixed) / others
		}
	}
	round(next)
	return next
}
