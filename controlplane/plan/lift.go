package plan

import (
	"maps"
	"slices"

	"anabranch/controlplane/policy"
	"anabranch/failover"
)

// rules says what a cluster would get if what binds it was lifted.
func (p prober) rules(e *ExplainedRoute, base float64) []Lever {
	var out []Lever
	seen := map[string]bool{}
	for _, c := range e.Constraints {
		in, kind, of, possible := p.without(c.Kind, e)
		if !possible || seen[of] {
			continue
		}
		seen[of] = true
		shares := p.shares(in)
		if shares == nil {
			return out
		}
		l := Lever{Kind: kind, Of: of, Share: shares[e.Cluster], Gains: shares[e.Cluster] >= base+leverPoint}
		l.Text = l.words(base)
		out = append(out, l)
	}
	return out
}

// without is the input without a constraint of a cluster, and what that would mean to change.
func (p prober) without(kind ConstraintKind, e *ExplainedRoute) (in Input, lever LeverKind, of string, possible bool) {
	in = p.in
	switch kind {
	case ConstraintHealth, ConstraintRamp:
		in.Health = maps.Clone(in.Health) // it speaks of the place
		in.Health[failover.Place{Cluster: e.Cluster, Model: p.d.model}] = failover.Cluster{}
		return in, LeverHealth, string(e.Cluster), true
	case ConstraintDrain:
		spec := *p.d.routeTo(e.Cluster).site.spec
		spec.Drained = false
		by := &policy.Resource{Kind: policy.KindCluster, Metadata: policy.Metadata{Name: string(e.Cluster)}, Spec: &spec}
		in.Resources = replaced{in.Resources, by}
		return in, LeverRule, "Cluster " + string(e.Cluster) + " spec.drained", true
	}
	spec := *p.d.policy
	var field string
	switch kind {
	case ConstraintPin:
		spec.Clusters, spec.Split, field = nil, slices.Clone(spec.Split), "spec.clusters"
		for i := range spec.Split {
			spec.Split[i].Clusters = nil
		}
	case ConstraintResidency:
		spec.Residency, field = nil, "spec.residency"
	case ConstraintSpill:
		spec.Spill, field = policy.SpillAllowed, "spec.spill"
	case ConstraintPremium:
		spec.MaxPremium, field = nil, "spec.maxPremium"
	case ConstraintMinShare:
		spec.Regions, field = slices.Clone(spec.Regions), "spec.regions[].minShare"
		for i := range spec.Regions {
			spec.Regions[i].MinShare = 0
		}
	case ConstraintWeight, ConstraintMaxShare:
		spec.Regions, field = slices.Clone(spec.Regions), "spec.regions"
		for i := range spec.Regions {
			if kind == ConstraintWeight {
				spec.Regions[i].Weight = nil
			}
			if spec.Regions[i].Region == string(e.Region) {
				spec.Regions[i].MaxShare = nil
			}
		}
	default:
		return in, "", "", false
	}
	for _, r := range p.in.Resources.List(policy.KindTrafficPolicy) {
		if r.Metadata.Name == p.d.governed {
			by := *r
			by.Spec = &spec
			in.Resources = replaced{in.Resources, &by}
			return in, LeverRule, "TrafficPolicy " + p.d.governed + " " + field, true
		}
	}
	return in, "", "", false
}
