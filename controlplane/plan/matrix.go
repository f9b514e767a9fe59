package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
)

// matrix is what the rows of one [Survival] have in common.
type matrix struct {
	in Input
	o  SurvivalOptions
	// sites are all that there are.
	sites []*site
	// before are the shares without a loss, of demands by their place in the list.
	before []map[fleet.ClusterID]float64
}

// sharesOfAll are the shares of demands by cluster.
func sharesOfAll(demands []*demand) []map[fleet.ClusterID]float64 {
	out := make([]map[fleet.ClusterID]float64, len(demands))
	for i, d := range demands {
		out[i] = map[fleet.ClusterID]float64{}
		for _, r := range d.routes {
			out[i][r.site.id] = r.share
		}
	}
	return out
}

// solved is the solution with a loss. Grown is by how much each demand is more than what is asked for; nil: it
// is not.
func (m *matrix) solved(l Loss, grown []float64) (*world, []*demand) {
	w := survey(m.in.without(l, m.sites))
	demands := w.demands(m.in)
	if m.o.Model != "" {
		demands = related(demands, m.o.Model)
	}
	for i, d := range demands {
		if grown != nil {
			d.load *= grown[i]
			for _, r := range d.routes {
				r.use = min(r.use*grown[i], mostUse)
			}
		}
	}
	w.solve(demands)
	return w, demands
}

// related are the demands for a model, and for all that share clusters with it, or with what does.
func related(demands []*demand, model fleet.ModelID) []*demand {
	models, found := map[fleet.ModelID]bool{model: true}, true
	for found {
		found = false
		for _, d := range demands {
			for _, r := range d.routes {
				for m := range r.site.capacity {
					if models[d.model] && !models[m] {
						models[m], found = true, true
					}
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(demands), func(d *demand) bool { return !models[d.model] })
}

// cold is how much more work a model's requests are where caches don't know them.
func (m *matrix) cold(model fleet.ModelID) float64 { return coldFactor(m.o.Cold, model) }

// moved is the part of a demand that goes to a route and did not before.
func (m *matrix) moved(i int, r *route) float64 {
	return max(r.share-m.before[i][r.site.id], 0)
}

// row tries one loss.
func (m *matrix) row(l Loss) SurvivalRow {
	w, demands := m.solved(l, nil)
	grown := make([]float64, len(demands))
	for i, d := range demands {
		part := 0.0
		for _, r := range d.routes {
			part += m.moved(i, r)
		}
		grown[i] = 1 + (m.cold(d.model)-1)*part
	}
	if slices.ContainsFunc(grown, func(x float64) bool { return x > 1 }) {
		w, demands = m.solved(l, grown)
	}
	row := SurvivalRow{Lost: l, Clusters: []Headroom{}, Shed: []Tier{}, Stranded: []Stranded{}}
	m.travel(w, demands, &row)
	for _, h := range m.headrooms(w, demands) {
		if m.shows(w, h.Cluster) {
			row.Clusters = append(row.Clusters, h)
		}
	}
	row.Shed = shedOf(demands, row.Clusters)
	row.Stranded = m.stranded(demands)
	row.Tenants = m.tenants(w)
	row.SpendPerHour = m.spend(w, demands, l)
	row.judge()
	return row
}

// shows says whether a cluster has to do with the model that the matrix is narrowed to.
func (m *matrix) shows(w *world, id fleet.ClusterID) bool {
	return m.o.Model == "" || slices.ContainsFunc(w.sites, func(s *site) bool {
		_, serves := s.capacity[m.o.Model]
		return s.id == id && serves
	})
}

// about says whether a demand is for the model that the matrix is narrowed to.
func (m *matrix) about(d *demand) bool { return m.o.Model == "" || d.model == m.o.Model }

// travel tells what moves, and how much further it goes.
func (m *matrix) travel(w *world, demands []*demand, row *SurvivalRow) {
	far := 0.0
	for i, d := range demands {
		if !m.about(d) || !d.usable() {
			continue
		}
		var left, from, moved, to float64
		for _, r := range d.routes {
			rtt := w.rtt(d.source, r.site.region)
			gone := max(m.before[i][r.site.id]-r.share, 0)
			left, from = left+gone, from+gone*rtt
			moved, to = moved+m.moved(i, r), to+m.moved(i, r)*rtt
		}
		if left <= 0 || moved <= 0 {
			continue
		}
		row.MovedPerS += d.work * moved
		row.ColdPerS += d.work * moved * (m.cold(d.model) - 1)
		far += d.work * moved * (to/moved - from/left)
	}
	if row.MovedPerS > 0 {
		row.ExtraRTTMs = far / row.MovedPerS
	}
}

// leastPart of what it could do is the least that a site which is in use at all is taken to do.
const leastPart = 1e-4

// headrooms are those of all sites that are left.
func (m *matrix) headrooms(w *world, demands []*demand) []Headroom {
	work, cold, load := map[*site]float64{}, map[*site]float64{}, map[*site]float64{}
	for i, d := range demands {
		for _, r := range d.routes {
			extra := d.work * m.moved(i, r) * (m.cold(d.model) - 1)
			cold[r.site] += extra
			work[r.site] += d.work*r.share + extra
			load[r.site] += (d.work*r.share + extra) / r.site.capacity[d.model]
		}
	}
	objectives := w.objectives(demands)
	var out []Headroom
	for _, s := range w.sites {
		if s.cap() <= 0 {
			continue
		}
		h := Headroom{
			Cluster: s.id, Region: s.region, WorkPerS: work[s], ColdPerS: cold[s],
			ObjectiveMs: objectives[s].ms, Class: objectives[s].class, Measured: m.in.measured(s),
		}
		if load[s] > 0 {
			h.CapacityPerS = work[s] / load[s] // of the mix that it has
		} else {
			h.CapacityPerS = slices.Max(slices.Collect(maps.Values(s.capacity)))
		}
		most, _ := promptnessOf(m.in.endpoints(s)).within(h.ObjectiveMs)
		h.CanPerS = most * max(s.cap(), leastPart) * h.CapacityPerS
		h.HeadroomPerS = h.CanPerS - h.WorkPerS
		h.Headroom = h.HeadroomPerS / h.CanPerS
		out = append(out, h)
	}
	return out
}

// shedOf divides what is too much for clusters among the priorities of what comes there, the lowest first.
func shedOf(demands []*demand, all []Headroom) []Tier {
	come := map[fleet.ClusterID]map[int]float64{}
	for _, d := range demands {
		for _, r := range d.routes {
			for _, t := range d.tiers {
				if come[r.site.id] == nil {
					come[r.site.id] = map[int]float64{}
				}
				come[r.site.id][int(t.priority)] += d.work * r.share * t.part
			}
		}
	}
	shed := map[int]float64{}
	for _, h := range all {
		sum := 0.0
		for _, x := range come[h.Cluster] {
			sum += x
		}
		left := max(-h.HeadroomPerS, 0)
		for _, priority := range slices.Sorted(maps.Keys(come[h.Cluster])) {
			of := min(left, come[h.Cluster][priority]/max(sum, 1e-9)*h.WorkPerS) // with what is cold of it
			shed[priority] += of
			left -= of
		}
	}
	out := []Tier{}
	for _, priority := range slices.Sorted(maps.Keys(shed)) {
		if shed[priority] > 0 {
			out = append(out, Tier{priority, shed[priority]})
		}
	}
	return out
}

// stranded gathers what may go nowhere, by model and class.
func (m *matrix) stranded(demands []*demand) []Stranded {
	out := []Stranded{}
	for i, d := range demands {
		could := slices.ContainsFunc(slices.Collect(maps.Values(m.before[i])), func(x float64) bool { return x > 0 })
		if !m.about(d) || d.usable() || d.work <= 0 && !could {
			continue
		}
		if n := len(out); n == 0 || out[n-1].Model != d.model || out[n-1].Class != d.class {
			out = append(out, Stranded{Model: d.model, Class: d.class, Why: d.stranded()})
		}
		last := &out[len(out)-1]
		last.Sources = append(last.Sources, d.source)
		last.PerS += d.work
	}
	return out
}

// tenants are those whose residency leaves no cluster for models that others, or they, had one for.
func (m *matrix) tenants(w *world) []StrandedTenant {
	out := []StrandedTenant{}
	for _, r := range m.in.Resources.List(policy.KindTenant) {
		spec, ok := r.Spec.(*policy.TenantSpec)
		if !ok || len(spec.Residency) == 0 {
			continue
		}
		had, has := map[fleet.ModelID]bool{}, map[fleet.ModelID]bool{}
		for _, s := range w.sites {
			if !slices.Contains(spec.Residency, string(s.region)) && !slices.Contains(spec.Residency, w.zones[s.region]) {
				continue
			}
			for model := range s.capacity {
				had[model] = true
				has[model] = has[model] || s.capOf(model) > 0
			}
		}
		t := StrandedTenant{Tenant: fleet.TenantID(r.Metadata.Name), Batch: spec.Tier == policy.TierBatch}
		for _, model := range slices.Sorted(maps.Keys(had)) {
			if !has[model] && (m.o.Model == "" || m.o.Model == model) {
				t.Models = append(t.Models, model)
			}
		}
		if len(t.Models) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// spend is what the hour costs.
func (m *matrix) spend(w *world, demands []*demand, l Loss) Money {
	var sum Money
	for _, s := range w.sites {
		if !m.shows(w, s.id) {
			continue
		}
		bill := w.prices(s).Bill(string(s.region), s.spec.Bought(), m.in.Now, m.in.Now.Add(time.Hour))
		usd := bill.Cost.USD()
		if l.takes(s) { // what is paid all the same
			usd -= w.prices(s).ClusterHour(string(s.region), s.spec.Bought()).Cost.USD()
		}
		sum.add(max(usd, 0), bill.Estimate, bill.Unpriced)
	}
	for _, d := range demands {
		for _, r := range d.routes {
			if r.site.spec.Type == policy.TypeProvider && m.about(d) && r.share*d.work > 0 {
				perHour := w.marginal(r.site, d.model).USD() / 1e6 * d.work * r.share * time.Hour.Seconds()
				sum.add(perHour, false, w.unpriced(r.site, d.model))
			}
		}
	}
	return sum
}

// Hide leaves tenants out of a row, also of its verdict.
func (r *SurvivalRow) Hide(hidden func(fleet.TenantID) bool) {
	r.Tenants = slices.DeleteFunc(slices.Clone(r.Tenants), func(t StrandedTenant) bool { return hidden(t.Tenant) })
	if r.Tenants == nil {
		r.Tenants = []StrandedTenant{}
	}
	r.judge()
}

// judge gives the verdict and its reasons.
func (r *SurvivalRow) judge() {
	var worst, batch []string
	for _, s := range r.Stranded {
		worst = append(worst, fmt.Sprintf("%s in class %s: %s", s.Model, s.Class, s.Why))
	}
	for _, t := range r.Shed {
		switch {
		case t.PerS < 0.5: // nobody would see it
		case t.Priority < 0:
			batch = append(batch, fmt.Sprintf("%.0f work/s of %s more than the objectives allow", t.PerS, tierName(int32(t.Priority))))
		default:
			worst = append(worst, fmt.Sprintf("%.0f work/s of %s more than the objectives allow", t.PerS, tierName(int32(t.Priority))))
		}
	}
	for _, t := range r.Tenants {
		why := fmt.Sprintf("residency leaves %s no place", t.Tenant)
		if t.Batch {
			batch = append(batch, why)
		} else {
			worst = append(worst, why)
		}
	}
	switch {
	case len(worst) > 0:
		r.Verdict = Fails
	case len(batch) > 0:
		r.Verdict = Degrades
	default:
		r.Verdict = Survives
	}
	r.Why = strings.Join(slices.Concat(worst, batch), "; ")
	if r.Why == "" {
		tightest := Headroom{Headroom: math.Inf(1)}
		for _, h := range r.Clusters {
			if h.Headroom < tightest.Headroom {
				tightest = h
			}
		}
		r.Why = fmt.Sprintf("%s has the least headroom, %.0f %%", cmp.Or(string(tightest.Cluster), "no cluster"), 100*tightest.Headroom)
	}
}
