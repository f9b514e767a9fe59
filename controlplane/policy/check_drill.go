package policy

import "fmt"

// drillNames complains of names that a drill plan gives and that nothing has.
func (c *check) drillNames(s *DrillPlanSpec) {
	if t := s.Target; t.Region != "" {
		c.exists("spec.target.region", KindRegion, t.Region)
		if !c.anyCluster(t.Region) {
			c.addOf(Ref{KindRegion, t.Region}, "spec.target.region", fmt.Sprintf("region %q has no clusters", clip(t.Region)), "name a region that has some")
		}
	}
	if s.Target.Cluster != "" {
		c.exists("spec.target.cluster", KindCluster, s.Target.Cluster)
	}
	region := ""
	for i, name := range s.Target.Clusters {
		at := fmt.Sprintf("spec.target.clusters[%d]", i)
		c.exists(at, KindCluster, name)
		r, ok := c.all.Get(KindCluster, name)
		if !ok {
			continue
		}
		own := r.Spec.(*ClusterSpec).Region
		if region != "" && own != region {
			c.addOf(Ref{KindRegion, own}, at, fmt.Sprintf("stands in %q, and those before it in %q", clip(own), clip(region)), "name clusters of one region: others need a plan of their own")
		}
		region = own
	}
	for i, m := range s.Models {
		c.exists(fmt.Sprintf("spec.models[%d]", i), KindModel, m)
	}
	for i, t := range s.Tenants {
		c.exists(fmt.Sprintf("spec.tenants[%d]", i), KindTenant, t)
	}
}

func (c *check) anyCluster(region string) bool {
	for _, r := range c.all.List(KindCluster) {
		if r.Spec.(*ClusterSpec).Region == region {
			return true
		}
	}
	return false
}

// drillRules complains of names that the rules for drills give and that nothing has.
func (c *check) drillRules(d *DrillRulesSpec) {
	for i, pair := range d.Forbidden {
		for j, region := range pair {
			c.exists(fmt.Sprintf("spec.drills.forbidden[%d][%d]", i, j), KindRegion, region)
		}
	}
	for i, t := range d.ProtectedTenants {
		c.exists(fmt.Sprintf("spec.drills.protectedTenants[%d]", i), KindTenant, t)
	}
}

// drillUsers finds the plans and rules of drills that name a resource.
func drillUsers(kind Kind, name string, all Lookup, using func(*Resource, string)) {
	is := func(of Kind, n string) bool { return kind == of && n == name }
	for _, r := range all.List(KindDrillPlan) {
		s := r.Spec.(*DrillPlanSpec)
		switch {
		case is(KindRegion, s.Target.Region):
			using(r, "spec.target.region")
		case is(KindCluster, s.Target.Cluster):
			using(r, "spec.target.cluster")
		}
		for _, list := range []struct {
			field string
			of    Kind
			names []string
		}{
			{"spec.target.clusters", KindCluster, s.Target.Clusters}, {"spec.models", KindModel, s.Models}, {"spec.tenants", KindTenant, s.Tenants},
		} {
			for i, n := range list.names {
				if is(list.of, n) {
					using(r, fmt.Sprintf("%s[%d]", list.field, i))
				}
			}
		}
	}
	for _, r := range all.List(KindSafetyRule) {
		d := r.Spec.(*SafetyRuleSpec).Drills
		if d == nil {
			continue
		}
		for i, pair := range d.Forbidden {
			for j, n := range pair {
				if is(KindRegion, n) {
					using(r, fmt.Sprintf("spec.drills.forbidden[%d][%d]", i, j))
				}
			}
		}
		for i, n := range d.ProtectedTenants {
			if is(KindTenant, n) {
				using(r, fmt.Sprintf("spec.drills.protectedTenants[%d]", i))
			}
		}
	}
}
