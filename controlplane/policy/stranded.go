package policy

import (
	"slices"
	"strings"
	"time"
)

// Stranded are the tenants that had a place for a model before a change of resources and would have none after it, with
// these models, sorted. It goes by residency, drains, pins of clusters to nothing, and the policy that speaks of the model
// for all tenants; what a policy with a match steers is not looked at. Both are never nil.
func Stranded(before, after Lookup, now time.Time) map[string][]string {
	was, willBe := newReach(before, now), newReach(after, now)
	rules, then := was.general(), willBe.general()
	known := map[string][]string{} // by residency before and after
	out := map[string][]string{}
	for _, r := range before.List(KindTenant) {
		next, there := after.Get(KindTenant, r.Metadata.Name)
		if !there {
			continue // it is gone, and asks for nothing
		}
		a, b := r.Spec.(*TenantSpec).Residency, next.Spec.(*TenantSpec).Residency
		key := strings.Join(a, " ") + "\n" + strings.Join(b, " ")
		models, told := known[key]
		if !told {
			for _, m := range sortedKeys(was.servers) {
				if was.has(a, m, rules) && !willBe.has(b, m, then) {
					models = append(models, m)
				}
			}
			known[key] = models
		}
		if len(models) > 0 {
			out[r.Metadata.Name] = models
		}
	}
	return out
}

// general are the policies without a match, in the order in which they are tried.
func (l *reach) general() []*Resource {
	var out []*Resource
	policies(l.all, func(r *Resource, s *TrafficPolicySpec) {
		if len(s.Match) == 0 {
			out = append(out, r)
		}
	})
	slices.SortFunc(out, CompareTraffic)
	return out
}

// has says whether who may be served in some places has one for a model now.
func (l *reach) has(places []string, model string, rules []*Resource) bool {
	var s TrafficPolicySpec
	for _, r := range rules {
		if of := r.Spec.(*TrafficPolicySpec); len(of.Models) == 0 || slices.Contains(of.Models, model) {
			s = *of
			break
		}
	}
	return slices.ContainsFunc(l.servers[model], func(c site) bool {
		return c.idle == "" && l.within(places, c.spec.Region) && l.within(s.Residency, c.spec.Region) &&
			(len(s.Clusters) == 0 || slices.Contains(s.Clusters, c.name))
	})
}
