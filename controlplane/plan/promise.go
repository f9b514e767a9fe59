package plan

import (
	"fmt"
	"slices"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
)

// Overpromised warns of quotas that allow more than the clusters which may serve them can do, by what was
// measured of these, or what they are believed to do until it is. In the order of names.
func Overpromised(in Input) []policy.Warning {
	w := survey(in)
	residency := map[string][]string{}
	for _, r := range in.Resources.List(policy.KindTenant) {
		if spec, ok := r.Spec.(*policy.TenantSpec); ok {
			residency[r.Metadata.Name] = spec.Residency
		}
	}
	var out []policy.Warning
	for _, r := range in.Resources.List(policy.KindQuota) {
		spec, ok := r.Spec.(*policy.QuotaSpec)
		if !ok {
			continue
		}
		model := fleet.ModelID(spec.Model)
		if base, adapter := w.adapters[spec.Model]; adapter {
			model = base
		}
		work, weight := w.atMost(model, residency[spec.Tenant])
		for i, l := range spec.Limits {
			most := work * 60
			switch l.Kind {
			case "output-tokens":
				most /= weight
			case "input-tokens", "total-tokens":
			default:
				continue
			}
			if most > 0 && float64(l.PerMinute) > most {
				out = append(out, policy.Warning{
					Resource: policy.Plural(policy.KindQuota) + "/" + r.Metadata.Name, Field: fmt.Sprintf("spec.limits[%d].perMinute", i),
					Reason: fmt.Sprintf("allows %d %s a minute, and the clusters that may serve them do about %.0f", l.PerMinute, l.Kind, most),
					Fix:    "lower it, or add capacity: until then the fleet is the limit, for other tenants too",
				})
			}
		}
	}
	return out
}

// atMost is the work per second that the clusters do which serve a model (empty: any, each what it does
// best) in some places (none: all), and the least weight of an output token among the models.
func (w *world) atMost(model fleet.ModelID, places []string) (work, weight float64) {
	for _, s := range w.sites {
		if s.spec.Drained || len(places) > 0 && !slices.Contains(places, string(s.region)) && !slices.Contains(places, w.zones[s.region]) {
			continue
		}
		best := 0.0
		for m, capacity := range s.capacity {
			if model == "" || m == model {
				best = max(best, capacity)
			}
		}
		work += best
	}
	for m, spec := range w.specs {
		if of := spec.OutputWeight; of > 0 && (model == "" || m == model) && (weight == 0 || of < weight) {
			weight = of
		}
	}
	if weight == 0 {
		weight = policy.DefaultOutputWeight
	}
	return work, weight
}
