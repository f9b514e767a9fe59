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
	case *ClusterSpec:
		c.cluster(r.Metadata.Name, s)
	case *ModelSpec:
		c.model(r.Metadata.Name, s)
	case *TenantSpec:
		c.tenant(r.Metadata.Name, s)
	case *TrafficPolicySpec:
		c.policy(r.Metadata.Name, s)
	case *QuotaSpec:
		c.quota(s)
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
		c.add(field, fmt.Sprintf("there is no %s %q", k, clip(name)), c.offer(k, name))
	}
}

func (c *check) offer(k Kind, name string) string {
	var names []string
	for _, r := range c.all.List(k) {
		names = append(names, r.Metadata.Name)
	}
	if near := nearest(name, names); near != "" {
		return fmt.Sprintf("did you mean %q? or create the %s first", near, k)
	}
	return fmt.Sprintf("create the %s first, or name one that exists", k)
}

func (c *check) cluster(name string, s *ClusterSpec) {
	c.exists("spec.region", KindRegion, s.Region)
	for i, m := range s.Models {
		c.exists(fmt.Sprintf("spec.models[%d]", i), KindModel, m)
	}
	urls := map[string]string{}
	for _, o := range c.all.List(KindCluster) {
		if o.Metadata.Name == name {
			continue
		}
		for _, e := range o.Spec.(*ClusterSpec).Endpoints {
			urls[e.URL] = o.Metadata.Name
		}
	}
	for i, e := range s.Endpoints {
		if other := urls[e.URL]; other != "" {
			c.add(fmt.Sprintf("spec.endpoints[%d].url", i), fmt.Sprintf("is already an endpoint of cluster %q", other), "let each model server belong to one cluster")
		}
	}
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
			c.add("spec.adapters", fmt.Sprintf("quota %q is for %q, which this change removes", q.Metadata.Name, m), "delete the quota first, or keep the name")
		}
	}
}

// servable: some model has the name, or has an adapter of the name.
func (c *check) servable(name string) bool {
	if _, ok := c.all.Get(KindModel, name); ok {
		return true
	}
	for _, m := range c.all.List(KindModel) {
		if slices.Contains(m.Spec.(*ModelSpec).Adapters, name) {
			return true
		}
	}
	return false
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
			c.add(fmt.Sprintf("spec.apiKeys[%d].sha256", i), fmt.Sprintf("is already a key of tenant %q", other), "give each tenant keys of its own")
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

// residents complains of tenants whose residency the present regions do not hold any more.
func (c *check) residents(what string) {
	for _, t := range c.all.List(KindTenant) {
		for i, place := range t.Spec.(*TenantSpec).Residency {
			if !c.place(place) {
				c.add("spec.zone", fmt.Sprintf("%s leaves spec.residency[%d] %q of tenant %q without a place", what, i, place, t.Metadata.Name), "change the tenant first")
			}
		}
	}
}

func (c *check) policy(name string, s *TrafficPolicySpec) {
	for i, w := range s.Regions {
		c.exists(fmt.Sprintf("spec.regions[%d].region", i), KindRegion, w.Region)
	}
	for i, m := range s.Models {
		c.exists(fmt.Sprintf("spec.models[%d]", i), KindModel, m)
	}
	for _, o := range c.all.List(KindTrafficPolicy) {
		other := o.Spec.(*TrafficPolicySpec)
		if o.Metadata.Name == name || other.Class != s.Class {
			continue
		}
		if len(s.Models) == 0 && len(other.Models) == 0 {
			c.add("spec.models", fmt.Sprintf("is empty, and policy %q already speaks of all other models of class %q", o.Metadata.Name, s.Class), "name models, or use another class")
		}
		for i, m := range s.Models {
			if slices.Contains(other.Models, m) {
				c.add(fmt.Sprintf("spec.models[%d]", i), fmt.Sprintf("policy %q already speaks of %q in class %q", o.Metadata.Name, clip(m), s.Class), "let one policy of a class speak of a model")
			}
		}
	}
}

func (c *check) quota(s *QuotaSpec) {
	c.exists("spec.tenant", KindTenant, s.Tenant)
	if s.Model != "" && !c.servable(s.Model) {
		c.add("spec.model", fmt.Sprintf("there is no model or adapter %q", clip(s.Model)), c.offer(KindModel, s.Model))
	}
}

// CheckDelete says who still refers to a resource; empty: it may go.
func CheckDelete(kind Kind, name string, all Lookup) []Problem {
	c := check{all: without{kind, name, all}}
	using := func(by *Resource, field string) {
		c.add("metadata.name", fmt.Sprintf("%s %q still names it in %s", by.Kind, by.Metadata.Name, field), "change or delete that first")
	}
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
		c.residents("deleting region " + name)
	case KindModel:
		c.modelUsers(name, all, using)
	case KindTenant:
		for _, o := range all.List(KindQuota) {
			if o.Spec.(*QuotaSpec).Tenant == name {
				using(o, "spec.tenant")
			}
		}
	}
	return c.problems
}

func (c *check) modelUsers(name string, all Lookup, using func(*Resource, string)) {
	for _, o := range all.List(KindCluster) {
		if i := slices.Index(o.Spec.(*ClusterSpec).Models, name); i >= 0 {
			using(o, fmt.Sprintf("spec.models[%d]", i))
		}
	}
	for _, o := range all.List(KindTrafficPolicy) {
		if i := slices.Index(o.Spec.(*TrafficPolicySpec).Models, name); i >= 0 {
			using(o, fmt.Sprintf("spec.models[%d]", i))
		}
	}
	for _, o := range all.List(KindQuota) {
		if m := o.Spec.(*QuotaSpec).Model; m != "" && !c.servable(m) {
			using(o, "spec.model")
		}
	}
}
