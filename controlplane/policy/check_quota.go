package policy

import (
	"fmt"
	"slices"
)

// CheckQuotas says what [Check] does of quotas: what is wrong between r and the others that builds before
// organisations did not look for. It is apart because replicas of such builds must come to the same verdicts:
// it is asked when a change is proposed, and when it is applied only once all replicas know it.
func CheckQuotas(r *Resource, all Lookup) []Problem {
	c := check{all: with{r, all}}
	switch s := r.Spec.(type) {
	case *QuotaSpec:
		c.leased(r.Metadata.Name, s, all)
	case *TenantSpec:
		c.belonging(r, s, all)
	case *RegionSpec:
		if s.QuotaStore == nil {
			c.homes(r.Metadata.Name, func(q *Resource) {
				c.addOf(Ref{KindQuota, q.Metadata.Name}, "spec.quotaStore", fmt.Sprintf("quota %q has its home here, and this change removes it", q.Metadata.Name), "give its organization another home first")
			})
		}
	}
	return c.problems
}

// homes calls f for the quotas whose home a region is.
func (c *check) homes(region string, f func(*Resource)) {
	for _, q := range c.all.List(KindQuota) {
		if q.Spec.(*QuotaSpec).HomeRegion == region {
			f(q)
		}
	}
}

// of is the organisation of a quota; empty: its tenant is not there.
func (c *check) of(s *QuotaSpec) string {
	if s.Organization != "" {
		return s.Organization
	}
	if t, ok := c.all.Get(KindTenant, s.Tenant); ok {
		return OrganizationOf(t)
	}
	return ""
}

func (c *check) leased(name string, s *QuotaSpec, before Lookup) {
	var tenants []*Resource
	if s.Organization != "" {
		tenants = slices.DeleteFunc(slices.Clone(c.all.List(KindTenant)), func(t *Resource) bool { return OrganizationOf(t) != s.Organization })
		if len(tenants) == 0 {
			c.add("spec.organization", fmt.Sprintf("no tenant is of organization %q", clip(s.Organization)), "name it in spec.organization of a Tenant first, or name a tenant that has none")
		}
	} else if t, ok := c.all.Get(KindTenant, s.Tenant); ok {
		tenants = []*Resource{t}
	}
	if s.Model != "" {
		if _, base := c.all.Get(KindModel, s.Model); !base && c.servable(s.Model) {
			c.add("spec.model", fmt.Sprintf("%q is an adapter, and quotas count by base model", clip(s.Model)), "name the base model, or leave it out")
		}
	}
	if s.Key != "" && len(tenants) == 1 && len(s.Keys(tenants[0].Spec.(*TenantSpec))) == 0 {
		c.addOf(Ref{KindTenant, s.Tenant}, "spec.key", fmt.Sprintf("tenant %q has no API key %q", clip(s.Tenant), clip(s.Key)), "name one of spec.apiKeys[].id of the tenant")
	}
	if s.HomeRegion != "" {
		c.home(name, s)
	}
	c.crowds("spec.limits", tenants, before)
}

// home complains of a home that can't be one, or of which other quotas of the organisation say something else.
func (c *check) home(name string, s *QuotaSpec) {
	r, ok := c.all.Get(KindRegion, s.HomeRegion)
	switch {
	case !ok:
		near, fix := c.offer(KindRegion, s.HomeRegion)
		c.addOf(near, "spec.homeRegion", fmt.Sprintf("there is no Region %q", clip(s.HomeRegion)), fix)
		return
	case r.Spec.(*RegionSpec).QuotaStore == nil:
		c.addOf(Ref{KindRegion, s.HomeRegion}, "spec.homeRegion", fmt.Sprintf("region %q has no quota store", s.HomeRegion), "give the Region spec.quotaStore, or name one that has it")
	}
	of := c.of(s)
	for _, q := range c.all.List(KindQuota) {
		o := q.Spec.(*QuotaSpec)
		if q.Metadata.Name != name && o.HomeRegion != "" && o.HomeRegion != s.HomeRegion && c.of(o) == of {
			c.addOf(Ref{KindQuota, q.Metadata.Name}, "spec.homeRegion", fmt.Sprintf("quota %q of organization %q says %q", q.Metadata.Name, of, o.HomeRegion), "name the same in all quotas of an organization, or in one of them only")
			return
		}
	}
}

// belonging: what a tenant takes part in, and what it takes along.
func (c *check) belonging(r *Resource, s *TenantSpec, before Lookup) {
	name, of := r.Metadata.Name, OrganizationOf(r)
	former := ""
	if old, ok := before.Get(KindTenant, name); ok {
		former = OrganizationOf(old)
	}
	for _, q := range c.all.List(KindQuota) {
		o := q.Spec.(*QuotaSpec)
		if o.Tenant != name {
			continue
		}
		if o.Key != "" && len(o.Keys(s)) == 0 {
			c.addOf(Ref{KindQuota, q.Metadata.Name}, "spec.apiKeys", fmt.Sprintf("quota %q is for the key %q, which this change removes", q.Metadata.Name, o.Key), "delete the quota first, or keep the key")
		}
		if former != of && o.HomeRegion != "" {
			c.agrees(of, q.Metadata.Name, o.HomeRegion)
		}
	}
	if former == of {
		return
	}
	c.orphans("spec.organization", former, func(q *Resource) (string, string) {
		return fmt.Sprintf("quota %q is of organization %q, which this change leaves without tenants", q.Metadata.Name, former), "delete the quota first"
	})
	c.crowds("spec.organization", []*Resource{r}, before)
}

// agrees complains if a quota that comes to an organisation brings another home.
func (c *check) agrees(organization, name, home string) {
	for _, q := range c.all.List(KindQuota) {
		o := q.Spec.(*QuotaSpec)
		if o.HomeRegion != "" && o.HomeRegion != home && c.of(o) == organization {
			c.addOf(Ref{KindQuota, q.Metadata.Name}, "spec.organization", fmt.Sprintf("quota %q has its home in %q, and quota %q of organization %q in %q", name, home, q.Metadata.Name, organization, o.HomeRegion), "let all of them name the same home first")
			return
		}
	}
}

// orphans complains of quotas of an organisation that has no tenants.
func (c *check) orphans(field, organization string, say func(*Resource) (reason, fix string)) {
	if organization == "" || slices.ContainsFunc(c.all.List(KindTenant), func(t *Resource) bool { return OrganizationOf(t) == organization }) {
		return
	}
	for _, q := range c.all.List(KindQuota) {
		if q.Spec.(*QuotaSpec).Organization == organization {
			reason, fix := say(q)
			c.addOf(Ref{KindQuota, q.Metadata.Name}, field, reason, fix)
		}
	}
}

// crowds looks at how many limits the requests of some tenants pass, as it was and as it is to be.
func (c *check) crowds(field string, tenants []*Resource, before Lookup) {
	if len(tenants) == 0 {
		return
	}
	was, is := narrows(before, tenants), narrows(c.all, tenants)
	for _, t := range tenants {
		c.crowded(field, t.Metadata.Name, was[t.Metadata.Name], is[t.Metadata.Name])
	}
}

// narrows are the quotas that hold for some tenants' requests, by tenant.
func narrows(all Lookup, tenants []*Resource) map[string][]Narrow {
	out := make(map[string][]Narrow, len(tenants))
	members := map[string][]string{}
	for _, t := range tenants {
		now, ok := all.Get(KindTenant, t.Metadata.Name)
		if !ok {
			continue
		}
		out[t.Metadata.Name] = nil
		members[OrganizationOf(now)] = append(members[OrganizationOf(now)], t.Metadata.Name)
	}
	for _, q := range all.List(KindQuota) {
		s := q.Spec.(*QuotaSpec)
		if s.Organization == "" {
			if list, ok := out[s.Tenant]; ok {
				out[s.Tenant] = append(list, NarrowOf(s))
			}
			continue
		}
		for _, t := range members[s.Organization] {
			out[t] = append(out[t], NarrowOf(s))
		}
	}
	return out
}
