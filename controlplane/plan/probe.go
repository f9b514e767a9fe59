package plan

import (
	"cmp"
	"slices"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
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
	type key struct {
		site  *site
		model fleet.ModelID
	}
	perMinute := map[key]float64{}
	probed := map[key]bool{}
	may := map[key][]*route{}
	of := map[*route]*demand{}
	var keys []key
	for _, d := range demands {
		for _, r := range d.routes {
			k := key{r.site, d.model}
			perMinute[k] += 60 * d.requests * r.share
			probed[k] = probed[k] || r.probes(d)
			if !d.probesTo(r) {
				continue
			}
			if may[k] == nil {
				keys = append(keys, k)
			}
			may[k], of[r] = append(may[k], r), d
		}
	}
	for _, k := range keys {
		need := probeNeed
		if probed[k] {
			need *= 2
		}
		if perMinute[k] >= need {
			continue
		}
		best := slices.MinFunc(may[k], func(a, b *route) int {
			return cmp.Or(cmp.Compare(rank(a, of[a]), rank(b, of[b])), cmp.Compare(of[a].class, of[b].class), cmp.Compare(of[a].source, of[b].source))
		})
		best.probe = true
	}
	for _, d := range demands {
		d.trickle()
	}
}

// probes says that the site is being probed by the demand.
func (r *route) probes(d *demand) bool {
	return r.before > 0 && slices.ContainsFunc(d.before.GetClusters(), func(c *routerpb.ClusterWeight) bool {
		return c.GetCluster() == string(r.site.id) && c.GetReason() == probing
	})
}

// probesTo says whether a demand may probe a site: the policy and the site's health let it have a share without
// conditions, there are enough requests, and the way is short beside what they may wait. Where latency is said
// to come first it is not crossed between regions: one request in a hundred is what a P99 looks at.
func (d *demand) probesTo(r *route) bool {
	flow := probeFlow
	if r.probes(d) {
		flow /= 2
	}
	switch {
	case direct(r.site.spec) || r.barred != "" || r.factor < 1 || r.reserve || r.last || r.limited || !r.site.health.MayGrow():
		return false
	case 60*d.requests < flow || r.rttMs > probeReach*d.policy.TTFTObjectiveMs:
		return false
	case d.policy.Objective == policy.LatencyFirst && r.site.region != d.source:
		return false
	}
	// A ramp gets exactly its part of what a site would get.
	return !slices.ContainsFunc(d.routes, func(o *route) bool { return o.barred == "" && o.factor < 1 })
}

// rank orders those who could probe a site: who does already, then whose way is shortest beside what its requests
// may wait.
func rank(r *route, d *demand) float64 {
	if r.probes(d) {
		return -1
	}
	return r.rttMs / max(d.policy.TTFTObjectiveMs, 1)
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
		return r.probe && r.before < r.share/2 || !r.probe && r.probes(d)
	})
}

// reprobed are the weights in force with the probes of the solution.
func (d *demand) reprobed(before, target []float64) []float64 {
	next := slices.Clone(before)
	fixed, others := 0.0, 0.0
	for i, r := range d.routes {
		if r.probe || r.probes(d) {
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
		if !r.probe && !r.probes(d) {
			next[i] *= (1 - fixed) / others
		}
	}
	round(next)
	return next
}
