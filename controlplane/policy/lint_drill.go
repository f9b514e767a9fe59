package policy

import (
	"fmt"
	"slices"
	"time"

	"anabranch/failover/drill"
)

// lintFrom is where schedules are looked at from: warnings must not depend on when they are asked for. It is long
// enough ago that every schedule that ever comes has come.
var lintFrom = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// drill: a plan that can't do what it seems to.
func (l *lint) drill(r *Resource) {
	s := r.Spec.(*DrillPlanSpec)
	l.steps(s)
	l.never(s)
	if drill.Kind(s.Kind).Removes() {
		l.onlyPlace(s)
	}
	if protected := DrillRulesOf(l.all).Protected; len(protected) > 0 {
		for i, t := range s.Tenants {
			for _, p := range protected {
				if string(p) == t {
					l.warn(fmt.Sprintf("spec.tenants[%d]", i), "a safety rule protects the tenant from drills: none of this plan can begin", "leave the tenant out")
				}
			}
		}
	}
	takes := func(name string, c *ClusterSpec) bool { return s.targets(name, c) }
	switch all, drained := l.clusters(takes); {
	case all == 0 || !s.targeted():
	case s.Kind == string(drill.FailbackOnly) && drained < all:
		l.warn("spec.target", "not all of it is drained, and kind failback-only brings traffic back to what is", "drain it first")
	case s.Kind != string(drill.FailbackOnly) && drained == all:
		l.warn("spec.target", "all of it is drained already: there is nothing to take out", "end the drain, or rehearse the way back by kind failback-only")
	}
}

// targets says whether the drill is of a cluster.
func (s *DrillPlanSpec) targets(name string, c *ClusterSpec) bool {
	return s.targeted() && (c.Region == s.Target.Region || name == s.Target.Cluster || slices.Contains(s.Target.Clusters, name))
}

// steps: those that do not rise.
func (l *lint) steps(s *DrillPlanSpec) {
	for i := 1; i < len(s.Steps); i++ {
		if was, is := s.Steps[i-1].Percent, s.Steps[i].Percent; is <= was {
			l.warn(fmt.Sprintf("spec.steps[%d].percent", i), fmt.Sprintf("%g %% comes after %g %%: traffic goes back and forth", is, was), "let the steps rise")
		}
	}
	if n := len(s.Steps); n > 0 && s.Steps[n-1].Percent < 100 {
		l.warn(fmt.Sprintf("spec.steps[%d].percent", n-1), fmt.Sprintf("is the last step, and leaves %g %% where they are", 100-s.Steps[n-1].Percent), "end with 100 %; use spec.percent to take fewer requests")
	}
}

// never: a schedule whose every time is in a blackout.
func (l *lint) never(s *DrillPlanSpec) {
	c, err := s.Calendar()
	if err != nil || c == nil {
		return
	}
	if _, ok := c.Next(lintFrom); !ok {
		l.warn("spec.schedule", "every time that it names is within a blackout: no drill ever begins", "change the time, or the blackouts")
		return
	}
	rules := DrillRulesOf(l.all)
	p := s.Plan()
	for at, n := lintFrom, 0; n < 400; n++ { // more than a year of days
		next, ok := c.Next(at)
		if !ok {
			return
		}
		if rules.InTime(p, next) == nil {
			return
		}
		at = next
	}
	l.warn("spec.schedule", "safety rules allow drills at none of its times", "change the time, or spec.drills.windows or blackouts of the rules")
}

// onlyPlace: what is taken out is all that a residency zone, or a model, has.
func (l *lint) onlyPlace(s *DrillPlanSpec) {
	zones := map[string]bool{} // by zone: something is left
	models := map[string]bool{}
	for _, r := range l.all.List(KindCluster) {
		c := r.Spec.(*ClusterSpec)
		if c.Drained {
			continue
		}
		left := !s.targets(r.Metadata.Name, c)
		zone := c.Region
		if region, ok := l.all.Get(KindRegion, c.Region); ok {
			zone = region.Spec.(*RegionSpec).Zone
		}
		zones[zone] = zones[zone] || left
		for _, m := range c.Models {
			if len(s.Models) == 0 || slices.Contains(s.Models, m) {
				models[m] = models[m] || left
			}
		}
	}
	var alone, lost []string
	for _, z := range sortedKeys(zones) {
		if !zones[z] {
			alone = append(alone, z)
		}
	}
	for _, m := range sortedKeys(models) {
		if !models[m] {
			lost = append(lost, m)
		}
	}
	if len(alone) > 0 {
		l.warn("spec.target", fmt.Sprintf("is all that zone %s has: requests that may be served there alone stay where they are", some(alone)), "drill a part of it, or add a cluster to the zone")
	}
	if len(lost) > 0 {
		l.warn("spec.target", fmt.Sprintf("is all that serves %s: requests for that stay where they are", some(lost)), "leave the model out by spec.models, or serve it elsewhere too")
	}
}
