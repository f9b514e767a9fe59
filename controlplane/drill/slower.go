package drill

import (
	"cmp"
	"math"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/costmodel"
	"anabranch/failover/drill"
)

// mostSlower bounds the tenants that are named.
const mostSlower = 100

// slower are the tenants of the scope whose first tokens would come later than they are owed by the distance alone to
// where their requests would move: the 95th percentile of now, and the round trip on top. It is arithmetic, so that it is
// told where nothing is simulated too. A tenant with a residency goes to the nearest of what the plan uses where it may
// go, else to the nearest at all; one that has no such place is stranded, and is told of as that.
func slower(in DryInput, e plan.Effect, r drill.Resolved) []drill.Slower {
	w := wayfinder{in: in, drilled: r.Clusters, regions: map[fleet.RegionID]*policy.RegionSpec{}, objectives: map[fleet.ClassID]float64{}}
	for _, res := range in.View.List(policy.KindRegion) {
		if spec, ok := res.Spec.(*policy.RegionSpec); ok {
			w.regions[fleet.RegionID(res.Metadata.Name)] = spec
		}
	}
	for _, c := range in.View.Table().GetClasses() {
		w.objectives[fleet.ClassID(c.GetId())] = c.GetTtftObjectiveMs()
	}
	var out []drill.Slower
	for _, now := range e.Before.Demands {
		i := slices.IndexFunc(e.After.Demands, func(d plan.DemandPicture) bool {
			return d.Model == now.Model && d.Class == now.Class && d.Source == now.Source
		})
		if i < 0 || w.objectives[now.Class] <= 0 || len(now.Shares) == 0 {
			continue
		}
		for _, id := range askers(in.View.Account(), in.Signals.At, now, r) {
			if s, late := w.judge(now, e.After.Demands[i], id); late {
				out = append(out, s)
			}
		}
	}
	slices.SortFunc(out, func(a, b drill.Slower) int {
		return cmp.Or(cmp.Compare(b.TTFTMs/b.ObjectiveMs, a.TTFTMs/a.ObjectiveMs), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Source, b.Source))
	})
	return out[:min(len(out), mostSlower)]
}

// askers are the tenants of the scope that made a demand in the last hour, sorted; a single one without a name stands for
// all if nobody is known to have.
func askers(a account.Account, now time.Time, d plan.DemandPicture, r drill.Resolved) []fleet.TenantID {
	rows, err := a.Ask(account.Query{From: now.Add(-time.Hour), Until: now, By: costmodel.ByTenant | costmodel.ByModel | costmodel.ByClass | costmodel.BySource})
	if err != nil || len(rows.Rows) == 0 {
		return []fleet.TenantID{""}
	}
	var out []fleet.TenantID
	for _, row := range rows.Rows {
		class := cmp.Or(row.Key.Class, fleet.DefaultClass)
		if row.Key.Model == d.Model && class == d.Class && row.Key.Source == d.Source && (len(r.Tenants) == 0 || slices.Contains(r.Tenants, row.Key.Tenant)) {
			out = append(out, row.Key.Tenant)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// wayfinder knows distances, residencies and what classes are owed.
type wayfinder struct {
	in         DryInput
	drilled    []fleet.ClusterID
	regions    map[fleet.RegionID]*policy.RegionSpec
	objectives map[fleet.ClassID]float64
}

func (w *wayfinder) judge(now, then plan.DemandPicture, id fleet.TenantID) (s drill.Slower, late bool) {
	before, there := w.distance(now, id, false)
	after, stays := w.distance(then, id, true)
	added := after - before
	if !there || !stays || added < 1 {
		return s, false
	}
	s = drill.Slower{
		Tenant: id, Model: now.Model, Class: now.Class, Source: now.Source, AddedMs: math.Round(added), ObjectiveMs: w.objectives[now.Class],
		TTFTMs: math.Round(w.first(now) + added),
	}
	return s, s.TTFTMs > s.ObjectiveMs
}

// distance is the mean round trip of a demand to where a tenant may be served of what it uses, else to the nearest place
// that it may use, of those that stay where only these count; false: there is none.
func (w *wayfinder) distance(d plan.DemandPicture, id fleet.TenantID, staying bool) (ms float64, ok bool) {
	residency := w.residency(id)
	sum, used, nearest := 0.0, 0.0, math.Inf(1)
	for _, r := range w.in.View.List(policy.KindCluster) {
		spec, known := r.Spec.(*policy.ClusterSpec)
		cluster := fleet.ClusterID(r.Metadata.Name)
		if !known || spec.Drained || !slices.Contains(spec.Models, string(d.Model)) || !w.allows(residency, spec.Region) || staying && slices.Contains(w.drilled, cluster) {
			continue
		}
		rtt := w.rtt(d.Source, fleet.RegionID(spec.Region))
		nearest = min(nearest, rtt)
		if i := slices.IndexFunc(d.Shares, func(c plan.ClusterShare) bool { return c.Cluster == cluster }); i >= 0 {
			sum, used = sum+d.Shares[i].Share*rtt, used+d.Shares[i].Share
		}
	}
	if used > 0 {
		return sum / used, true
	}
	return nearest, !math.IsInf(nearest, 1)
}

func (w *wayfinder) residency(id fleet.TenantID) []string {
	if r, ok := w.in.View.Get(policy.KindTenant, string(id)); ok {
		if spec, is := r.Spec.(*policy.TenantSpec); is {
			return spec.Residency
		}
	}
	return nil
}

func (w *wayfinder) allows(residency []string, region string) bool {
	zone := region
	if spec := w.regions[fleet.RegionID(region)]; spec != nil {
		zone = cmp.Or(spec.Zone, region)
	}
	return len(residency) == 0 || slices.Contains(residency, region) || slices.Contains(residency, zone)
}

// rtt between two regions, as the planner takes it.
func (w *wayfinder) rtt(a, b fleet.RegionID) float64 {
	if a == b {
		return 0
	}
	for _, pair := range [][2]fleet.RegionID{{a, b}, {b, a}} {
		if spec := w.regions[pair[0]]; spec != nil {
			if ms, ok := spec.RTTMs[string(pair[1])]; ok {
				return ms
			}
		}
	}
	return policy.DefaultRTTMs
}

// first is the 95th percentile of the first token that routers of a demand's region tell of the place that most of it
// goes to, in ms; 0: nobody does.
func (w *wayfinder) first(d plan.DemandPicture) (ms float64) {
	most := slices.MaxFunc(d.Shares, func(a, b plan.ClusterShare) int {
		return cmp.Or(cmp.Compare(a.Share, b.Share), cmp.Compare(b.Cluster, a.Cluster))
	})
	for _, s := range w.in.Signals.Sights(most.Cluster) {
		if s.Region == d.Source && fleet.ModelID(s.Signal.GetModel()) == d.Model && signal.FreshnessOf(s.Age) == signal.Fresh {
			ms = max(ms, signal.Number(s.Signal.GetTtftP95Ms()))
		}
	}
	return ms
}
