package policy

import (
	"fmt"
	"slices"
)

// Lookup finds resources; lists are sorted by name. What it gives must not be changed.
type Lookup interface {
	Get(Kind, string) (*Resource, bool)
	List(Kind) []*Resource
}

// Check says what is wrong between r and the other resources, as if r were stored: names that it
// refers to and that are missing, names that it takes and that others hold, and what others refer to
// and would lose by this change.
func Check(r *Resource, all Lookup) []Problem {
	c := check{all: with{r, all}}
	switch s := r.Spec.(type) {
	case *RegionSpec:
		c.residents("changing the zone of region " + r.Metadata.Name)
		c.entered(r.Metadata.Name, s)
	case *ClusterSpec:
		c.member(r.Metadata.Name, s)
		c.lost("spec.models", all)
	case *ModelSpec:
		c.model(r.Metadata.Name, s)
		c.rewritten("spec.adapters", "this change removes")
	case *TenantSpec:
		c.tenant(r.Metadata.Name, s)
		c.lost("spec.residency", all)
	case *TrafficPolicySpec:
		c.traffic(r, s)
	case *QuotaSpec:
		c.quota(s)
	case *DrillPlanSpec:
		c.drillNames(s)
	case *SafetyRuleSpec:
		if s.Drills != nil {
			c.drillRules(s.Drills)
		}
	}
	return c.problems
}

// with is a Lookup in which r stands as given.
type with struct {
	r   *Resource
	all Lookup
}

func (w with) Get(k Kind, name string) (*Resource, bool) {
	if k == w.r.Kind && name == w.r.Metadata.Name {
		return w.r, true
	}
	return w.all.Get(k, name)
}

func (w with) List(k Kind) []*Resource {
	list := w.all.List(k)
	if k != w.r.Kind {
		return list
	}
	list = slices.DeleteFunc(slices.Clone(list), func(o *Resource) bool { return o.Metadata.Name == w.r.Metadata.Name })
	return append(list, w.r)
}

// without is a Lookup in which one resource is gone.
type without struct {
	kind Kind
	name string
	all  Lookup
}

func (w without) Get(k Kind, name string) (*Resource, bool) {
	if k == w.kind && name == w.name {
		return nil, false
	}
	return w.all.Get(k, name)
}

func (w without) List(k Kind) []*Resource {
	list := w.all.List(k)
	if k != w.kind {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(o *Resource) bool { return o.Metadata.Name == w.name })
}

type check struct {
	finding
	all Lookup
}

// exists complains of a missing resource.
func (c *check) exists(field string, k Kind, name string) {
	if _, ok := c.all.Get(k, name); !ok {
		near, fix := c.offer(k, name)
		c.addOf(near, field, fmt.Sprintf("there is no %s %q", k, clip(name)), fix)
	}
}

// offer says what to do about a name that nothing has, and what it names for that, if anything.
func (c *check) offer(k Kind, name string) (Ref, string) {
	var names []string
	for _, r := range c.all.List(k) {
		names = append(names, r.Metadata.Name)
	}
	if near := nearest(name, names); near != "" {
		return Ref{k, near}, fmt.Sprintf("did you mean %q? or create the %s first", near, k)
	}
	return Ref{}, fmt.Sprintf("create the %s first, or name one that exists", k)
}

// model: names that clients may write belong to one model each.
func (c *check) model(name string, s *ModelSpec) {
	owner := map[string]string{}
	for _, o := range c.all.List(KindModel) {
		if o.Metadata.Name == name {
			continue
		}
		spec := o.Spec.(*ModelSpec)
		owner[o.Metadata.Name] = "the model " + o.Metadata.Name
		for _, a := range spec.Aliases {
			owner[a] = "an alias of " + o.Metadata.Name
		}
		for _, a := range spec.Adapters {
			owner[a] = "an adapter of " + o.Metadata.Name
		}
	}
	taken := func(field, n string) {
		if o := owner[n]; o != "" {
			c.add(field, fmt.Sprintf("%q is already %s", clip(n), o), "choose a name that no other model, alias or adapter has")
		}
	}
	taken("metadata.name", name)
	for i, a := range s.Aliases {
		taken(fmt.Sprintf("spec.aliases[%d]", i), a)
	}
	for i, a := range s.Adapters {
		taken(fmt.Sprintf("spec.adapters[%d]", i), a)
	}
	for _, q := range c.all.List(KindQuota) {
		if m := q.Spec.(*QuotaSpec).Model; m != "" && !c.servable(m) {
			c.addOf(Ref{KindQuota, q.Metadata.Name}, "spec.adapters", fmt.Sprintf("quota %q is for %q, which this change removes", q.Metadata.Name, m), "delete the quota first, or keep the name")
		}
	}
}

func (c *check) tenant(name string, s *TenantSpec) {
	for i, place := range s.Residency {
		if !c.place(place) {
			c.add(fmt.Sprintf("spec.residency[%d]", i), fmt.Sprintf("there is no zone or region %q", clip(place)), "name a zone or region that exists: otherwise no request of the tenant could be served")
		}
	}
	owner := map[string]string{}
	for _, o := range c.all.List(KindTenant) {
		if o.Metadata.Name == name {
			continue
		}
		for _, k := range o.Spec.(*TenantSpec).APIKeys {
			owner[k.SHA256] = o.Metadata.Name
		}
	}
	for i, k := range s.APIKeys {
		if other := owner[k.SHA256]; other != "" {
			c.addOf(Ref{KindTenant, other}, fmt.Sprintf("spec.apiKeys[%d].sha256", i), fmt.Sprintf("is already a key of tenant %q", other), "give each tenant keys of its own")
		}
	}
}

// place: a region or a zone has the name.
func (c *check) place(name string) bool {
	for _, r := range c.all.List(KindRegion) {
		if r.Metadata.Name == name || r.Spec.(*RegionSpec).Zone == name {
			return true
		}
	}
	return false
}

// residents complains of tenants and policies whose residency the present regions do not hold any
// more.
func (c *check) residents(what string) {
	for _, t := range c.all.List(KindTenant) {
		for i, place := range t.Spec.(*TenantSpec).Residency {
			if !c.place(place) {
				c.addOf(Ref{KindTenant, t.Metadata.Name}, "spec.zone", fmt.Sprintf("%s leaves spec.residency[%d] %q of tenant %q without a place", what, i, place, t.Metadata.Name), "change the tenant first")
			}
		}
	}
	for _, p := range c.all.List(KindTrafficPolicy) {
		for i, place := range p.Spec.(*TrafficPolicySpec).Residency {
			if !c.place(place) {
				c.add("spec.zone", fmt.Sprintf("%s leaves spec.residency[%d] %q of policy %q without a place", what, i, place, p.Metadata.Name), "change the policy first")
			}
		}
	}
}

func (c *check) quota(s *QuotaSpec) {
	if s.Organization == "" {
		c.exists("spec.tenant", KindTenant, s.Tenant)
	}
	if s.Model != "" && !c.servable(s.Model) {
		near, fix := c.offer(KindModel, s.Model)
		c.addOf(near, "spec.model", fmt.Sprintf("there is no model or adapter %q", clip(s.Model)), fix)
	}
}
