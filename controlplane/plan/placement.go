package plan

import (
	"cmp"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
)

// lowerBand is by how much more load must still do with fewer replicas before fewer are wanted.
const lowerBand = 0.1

// leastNeed is the least share of a demand that a cluster is needed for: less is rounding.
const leastNeed = 1e-3

// placement is where work would be if there were room everywhere, without a loss and with each that counts.
type placement struct {
	in    Input
	o     CapacityOptions
	world *world
	// survive and outlook by model.
	survive map[fleet.ModelID]string
	outlook map[fleet.ModelID]DemandOutlook
	// demands without a loss, and their shares.
	demands []*demand
	before  []map[fleet.ClusterID]float64
	// loads of clusters: the first without a loss.
	loads map[fleet.ClusterID][]burden
	// objectives of clusters, the strictest of all that come there with or without a loss.
	objectives map[fleet.ClusterID]objective
	// needed by some demand, be there work or not.
	needed map[fleet.ClusterID]bool
}

// burden is what a cluster has to do, with a loss or without.
type burden struct {
	lost Loss
	// work by model, cold ones included, and the cold part of all.
	work map[fleet.ModelID]float64
	cold float64
}

func newPlacement(in Input, o CapacityOptions) *placement {
	p := &placement{
		in: in, o: o, world: survey(in),
		survive: map[fleet.ModelID]string{}, outlook: map[fleet.ModelID]DemandOutlook{},
		loads: map[fleet.ClusterID][]burden{}, objectives: map[fleet.ClusterID]objective{}, needed: map[fleet.ClusterID]bool{},
	}
	for m := range p.world.specs {
		p.survive[m] = cmp.Or(o.Survive, p.world.surviveOf(m))
	}
	return p
}

// losses are those that some model must survive.
func (p *placement) losses() []Loss {
	clusters, regions := false, false
	for _, s := range p.survive {
		clusters, regions = clusters || s == policy.SurviveCluster, regions || s == policy.SurviveRegion
	}
	var out []Loss
	for _, l := range lossesOf(p.world, SurvivalOptions{}) {
		if len(l.Regions) > 0 && regions || len(l.Clusters) > 0 && clusters {
			out = append(out, l)
		}
	}
	return out
}

// covers says whether a model must survive a loss. A region that is to be survived has clusters that are.
func (p *placement) covers(m fleet.ModelID, l Loss) bool {
	switch {
	case len(l.Regions) > 0:
		return p.survive[m] == policy.SurviveRegion
	case len(l.Clusters) > 0:
		return p.survive[m] == policy.SurviveCluster
	}
	return true
}

// place finds what clusters would have to do with a loss.
func (p *placement) place(l Loss) {
	w := p.world
	if p.demands != nil {
		w = survey(p.in.without(l, p.world.sites))
	}
	demands := w.demands(p.in)
	for _, d := range demands {
		d.roomy()
	}
	w.solve(demands)
	even(demands, func(d *demand) float64 { return p.outlookOf(d).CountedPerS })
	first := p.demands == nil
	if first {
		p.demands, p.before = demands, sharesOfAll(demands)
		p.count()
	}
	work, cold := map[fleet.ClusterID]map[fleet.ModelID]float64{}, map[fleet.ClusterID]float64{}
	for i, d := range demands {
		if !d.usable() {
			continue
		}
		wanted := p.outlookOf(d).CountedPerS
		for _, r := range d.routes {
			share := r.share
			if !p.covers(d.model, l) {
				share = p.before[i][r.site.id]
			}
			if !r.best && share < leastNeed {
				continue
			}
			extra := max(share-p.before[i][r.site.id], 0) * wanted * (p.cold(d.model) - 1)
			if work[r.site.id] == nil {
				work[r.site.id] = map[fleet.ModelID]float64{}
			}
			work[r.site.id][d.model] += share*wanted + extra
			cold[r.site.id] += extra
			p.need(d, r, first || wanted > 0)
		}
	}
	for _, s := range w.sites {
		if !l.takes(s) || first {
			p.loads[s.id] = append(p.loads[s.id], burden{l, work[s.id], cold[s.id]})
		}
	}
}

// need notes that a demand goes to a cluster, or would.
func (p *placement) need(d *demand, r *route, needed bool) {
	p.needed[r.site.id] = p.needed[r.site.id] || needed
	if p.outlookOf(d).CountedPerS > 0 {
		if of, known := p.objectives[r.site.id]; !known || d.policy.TTFTObjectiveMs < of.ms {
			p.objectives[r.site.id] = objective{d.policy.TTFTObjectiveMs, d.class}
		}
	}
}

// roomy makes a demand so small beside what sites can do that none of them is congested by it.
func (d *demand) roomy() {
	for _, r := range d.routes {
		r.use *= 1e-9
	}
}

// cold is how much more work a model's requests are where no cache knows them.
func (p *placement) cold(m fleet.ModelID) float64 {
	return coldFactor(p.o.Cold, m)
}

// count adds up the demand of models.
func (p *placement) count() {
	for _, d := range p.demands {
		sum, one := p.outlook[d.model], p.outlookOf(d)
		sum.NowPerS += one.NowPerS
		sum.RisePerS += one.RisePerS
		sum.PeakPerS += one.PeakPerS
		sum.CountedPerS += one.CountedPerS
		sum.Basis = one.Basis
		p.outlook[d.model] = sum
	}
}

// outlookOf is what is known of one demand.
func (p *placement) outlookOf(d *demand) DemandOutlook {
	return p.o.Outlook.of(demandID{d.model, d.class, d.source}, d.work, p.in.Now, p.o.Peak)
}
