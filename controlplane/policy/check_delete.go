package policy

import (
	"fmt"
	"slices"
)

// CheckDelete says who still refers to a resource; empty: it may go.
func CheckDelete(kind Kind, name string, all Lookup) []Problem {
	c := check{all: without{kind, name, all}}
	using := func(by *Resource, field string) {
		c.addOf(Ref{by.Kind, by.Metadata.Name}, "metadata.name", fmt.Sprintf("%s %q still names it in %s", by.Kind, by.Metadata.Name, field), "change or delete that first")
	}
	drillUsers(kind, name, all, using)
	switch kind {
	case KindRegion:
		for _, o := range all.List(KindCluster) {
			if o.Spec.(*ClusterSpec).Region == name {
				using(o, "spec.region")
			}
		}
		for _, o := range all.List(KindTrafficPolicy) {
			for i, w := range o.Spec.(*TrafficPolicySpec).Regions {
				if w.Region == name {
					using(o, fmt.Sprintf("spec.regions[%d].region", i))
				}
			}
		}
		c.homes(name, func(q *Resource) { using(q, "spec.homeRegion") })
		c.residents("deleting region " + name)
	case KindModel:
		c.modelUsers(name, all, using)
	case KindCluster:
		policies(all, func(r *Resource, s *TrafficPolicySpec) {
			for _, pin := range s.pins() {
				if i := slices.Index(pin.clusters, name); i >= 0 {
					using(r, fmt.Sprintf("%s[%d]", pin.field, i))
				}
			}
		})
	case KindTenant:
		for _, o := range all.List(KindQuota) {
			if o.Spec.(*QuotaSpec).Tenant == name {
				using(o, "spec.tenant")
			}
		}
		if t, ok := all.Get(KindTenant, name); ok {
			c.orphans("metadata.name", OrganizationOf(t), func(q *Resource) (string, string) {
				return fmt.Sprintf("it is the last tenant of organization %q, which quota %q is for", OrganizationOf(t), q.Metadata.Name), "delete the quota first"
			})
		}
		policies(all, func(r *Resource, s *TrafficPolicySpec) {
			for i, m := range s.Match {
				if j := slices.Index(m.Tenants, name); j >= 0 {
					using(r, fmt.Sprintf("spec.match[%d].tenants[%d]", i, j))
				}
			}
		})
	}
	return c.problems
}

func (c *check) modelUsers(name string, all Lookup, using func(*Resource, string)) {
	for _, o := range all.List(KindCluster) {
		if i := slices.Index(o.Spec.(*ClusterSpec).Models, name); i >= 0 {
			using(o, fmt.Sprintf("spec.models[%d]", i))
		}
	}
	policies(all, func(r *Resource, s *TrafficPolicySpec) {
		if i := slices.Index(s.Models, name); i >= 0 {
			using(r, fmt.Sprintf("spec.models[%d]", i))
		}
		for _, x := range s.asked() {
			if !c.servable(x.model) {
				using(r, x.field)
			}
		}
	})
	for _, o := range all.List(KindQuota) {
		if m := o.Spec.(*QuotaSpec).Model; m != "" && !c.servable(m) {
			using(o, "spec.model")
		}
	}
}

// policies calls f for each TrafficPolicy.
func policies(all Lookup, f func(*Resource, *TrafficPolicySpec)) {
	for _, r := range all.List(KindTrafficPolicy) {
		f(r, r.Spec.(*TrafficPolicySpec))
	}
}
