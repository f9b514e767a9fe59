package plan

import (
	"fmt"
	"strings"

	"anabranch/controlplane/policy"
)

// Unsurvived warns of policies that want to survive the loss of a cluster or a region (spec.survive) and would not for the
// demand of now: some of their class would have no place, or what is left could not do all the work within its objectives.
// It plans each loss as [Survive] does, and tells nothing where that would take too long or nobody wants it.
func Unsurvived(in Input) []policy.Warning {
	wanted := false
	for _, r := range in.Resources.List(policy.KindTrafficPolicy) {
		s, ok := r.Spec.(*policy.TrafficPolicySpec)
		wanted = wanted || ok && (s.Survive == policy.SurviveRegion || s.Survive == policy.SurviveCluster)
	}
	if !wanted {
		return nil
	}
	matrix, err := Survive(in, SurvivalOptions{})
	if err != nil {
		return nil // too many routes: plan survive says so to whoever asks
	}
	var out []policy.Warning
	for _, r := range in.Resources.List(policy.KindTrafficPolicy) {
		s, ok := r.Spec.(*policy.TrafficPolicySpec)
		if !ok {
			continue
		}
		if why := unsurvived(s, matrix.Rows); why != "" {
			out = append(out, policy.Warning{
				Resource: policy.Plural(policy.KindTrafficPolicy) + "/" + r.Metadata.Name, Field: "spec.survive",
				Reason: fmt.Sprintf("%s is not kept for the demand of now: %s", s.Survive, why),
				Fix:    "add capacity elsewhere, let more clusters serve it, or ask for less",
			})
		}
	}
	return out
}

// unsurvived says what becomes of a policy's class in the losses that it wants to survive; empty: nothing bad.
func unsurvived(s *policy.TrafficPolicySpec, rows []SurvivalRow) string {
	const most = 3
	var parts []string
	for i := range rows {
		row := &rows[i]
		region := len(row.Lost.Regions) == 1 && len(row.Lost.Clusters) == 0
		cluster := len(row.Lost.Clusters) == 1 && len(row.Lost.Regions) == 0
		wanted := cluster && (s.Survive == policy.SurviveCluster || s.Survive == policy.SurviveRegion) || region && s.Survive == policy.SurviveRegion
		if !wanted || len(parts) == most {
			continue
		}
		if why := row.denies(s.Class); why != "" {
			parts = append(parts, fmt.Sprintf("without %s %s", row.Lost, why))
		}
	}
	return strings.Join(parts, "; ")
}

// denies says what of a class is not served in a row, batch tiers left out; empty: all is.
func (r *SurvivalRow) denies(class string) string {
	var parts []string
	for _, x := range r.Stranded {
		if string(x.Class) == class {
			parts = append(parts, fmt.Sprintf("%s has no place", x.Model))
		}
	}
	for _, t := range r.Shed {
		if t.Priority >= 0 && t.PerS >= 0.5 {
			parts = append(parts, fmt.Sprintf("%.0f work/s are more than what is left can do within the objectives", t.PerS))
		}
	}
	return strings.Join(parts, ", ")
}
