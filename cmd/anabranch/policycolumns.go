package main

import (
	"fmt"
	"strings"

	"anabranch/controlplane/policy"
)

// trafficColumns are those of a TrafficPolicy after its class, priority and models.
func trafficColumns(s *policy.TrafficPolicySpec) []string {
	var matches, regions []string
	for _, m := range s.Match {
		matches = append(matches, matchText(m))
	}
	for _, r := range s.Regions {
		text := r.Region
		if r.Weight != nil && *r.Weight != 1 {
			text += fmt.Sprintf("=%g", *r.Weight)
		}
		if r.MaxShare != nil && *r.MaxShare < 1 {
			text += fmt.Sprintf("≤%g%%", 100**r.MaxShare)
		}
		if r.MinShare > 0 {
			text += fmt.Sprintf("≥%g%%", 100*r.MinShare)
		}
		regions = append(regions, text)
	}
	return []string{
		dash(strings.Join(matches, " or ")), dash(strings.Join(deeds(s), ", ")), dash(strings.Join(regions, ",")),
		fmt.Sprintf("%g", s.TTFTObjectiveMs), policy.ObjectiveTitle(s.CostPreference), dash(s.Spill),
	}
}

// matchText is a match in a few words: tenants, paths, and headers as name=value, name=value* for a
// beginning, or the name alone.
func matchText(m policy.MatchSpec) string {
	parts := []string{strings.Join(m.Tenants, "|"), strings.Join(m.Paths, "|")}
	for _, h := range m.Headers {
		text := h.Name
		switch h.Type {
		case policy.HeaderPresent:
		case policy.HeaderPrefix:
			text += "=" + h.Value + "*"
		default:
			text += "=" + h.Value
		}
		parts = append(parts, text)
	}
	return join("+", parts...)
}

// deeds are what a policy does with its requests beside giving them objectives.
func deeds(s *policy.TrafficPolicySpec) []string {
	var out []string
	add := func(ok bool, format string, args ...any) {
		if ok {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if s.Rewrite != nil {
		add(true, "ask for %s", s.Rewrite.Model)
	}
	var arms []string
	for _, a := range s.Split {
		arms = append(arms, fmt.Sprintf("%s=%g", a.Name, a.Weight))
	}
	add(len(arms) > 0, "split %s", strings.Join(arms, ":"))
	add(len(s.Clusters) > 0, "pin to %s", strings.Join(s.Clusters, "|"))
	add(len(s.Residency) > 0, "keep in %s", strings.Join(s.Residency, "|"))
	if s.Shadow != nil {
		add(true, "copy %g%%", s.Shadow.Percent)
	}
	add(s.PickMode != "predicted-ttft", "pick by %s", s.PickMode)
	add(s.Hedge.On(), "hedge")
	add(s.Rescue, "rescue")
	return out
}
