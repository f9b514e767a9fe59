package policy

import (
	"cmp"
	"fmt"
	"slices"
)

// pin is a list of clusters that a policy allows, and whose copies or arm it is for.
type pin struct {
	field    string
	clusters []string
}

// pins are the lists of clusters in a policy, empty ones left out.
func (s *TrafficPolicySpec) pins() []pin {
	all := []pin{{"spec.clusters", s.Clusters}}
	for i, a := range s.Split {
		all = append(all, pin{fmt.Sprintf("spec.split[%d].clusters", i), a.Clusters})
	}
	if s.Shadow != nil {
		all = append(all, pin{"spec.shadow.clusters", s.Shadow.Clusters})
	}
	return slices.DeleteFunc(all, func(p pin) bool { return len(p.clusters) == 0 })
}

// ask is a model or adapter that a policy asks for by name.
type ask struct{ field, model string }

// asked are the models and adapters that a policy asks for instead of what clients do.
func (s *TrafficPolicySpec) asked() []ask {
	var all []ask
	if s.Rewrite != nil {
		all = append(all, ask{"spec.rewrite.model", s.Rewrite.Model})
	}
	for i, a := range s.Split {
		all = append(all, ask{fmt.Sprintf("spec.split[%d].model", i), a.Model})
	}
	if s.Shadow != nil {
		all = append(all, ask{"spec.shadow.model", s.Shadow.Model})
	}
	return slices.DeleteFunc(all, func(a ask) bool { return a.model == "" })
}

func (c *check) traffic(r *Resource, s *TrafficPolicySpec) {
	for i, w := range s.Regions {
		c.exists(fmt.Sprintf("spec.regions[%d].region", i), KindRegion, w.Region)
	}
	for i, m := range s.Models {
		c.exists(fmt.Sprintf("spec.models[%d]", i), KindModel, m)
	}
	for i, m := range s.Match {
		for j, t := range m.Tenants {
			c.exists(fmt.Sprintf("spec.match[%d].tenants[%d]", i, j), KindTenant, t)
		}
	}
	for _, a := range s.asked() {
		if !c.servable(a.model) {
			near, fix := c.offer(KindModel, a.model)
			c.addOf(near, a.field, fmt.Sprintf("there is no model or adapter %q", clip(a.model)), fix)
		}
	}
	for _, p := range s.pins() {
		for i, name := range p.clusters {
			c.exists(fmt.Sprintf("%s[%d]", p.field, i), KindCluster, name)
		}
	}
	for i, place := range s.Residency {
		if !c.place(place) {
			c.add(fmt.Sprintf("spec.residency[%d]", i), fmt.Sprintf("there is no zone or region %q", clip(place)), "name a zone or region that exists: otherwise no request could be served")
		}
	}
	if len(c.problems) == 0 { // of names that lead nowhere nothing more can be said
		for _, h := range c.holes(s) {
			c.add(h.Field, h.Reason, h.Fix)
		}
	}
	c.alone(r.Metadata.Name, s)
	c.order(r, s)
}

// alone: one policy of a class speaks of a model.
func (c *check) alone(name string, s *TrafficPolicySpec) {
	policies(c.all, func(o *Resource, other *TrafficPolicySpec) {
		if o.Metadata.Name == name || other.Class != s.Class {
			return
		}
		if len(s.Models) == 0 && len(other.Models) == 0 {
			c.add("spec.models", fmt.Sprintf("is empty, and policy %q already speaks of all other models of class %q", o.Metadata.Name, s.Class), "name models, or use another class")
		}
		for i, m := range s.Models {
			if slices.Contains(other.Models, m) {
				c.add(fmt.Sprintf("spec.models[%d]", i), fmt.Sprintf("policy %q already speaks of %q in class %q", o.Metadata.Name, clip(m), s.Class), "let one policy of a class speak of a model, and give this one another class")
			}
		}
	})
}

// way is what a policy makes of some requests: what is asked for, and where that may be served.
type way struct {
	field     string // that decides of it
	model     string // empty: not known
	pin       pin
	residency [][]string // all of them hold
}

// ways are those of a policy for which the models are known.
func (c *check) ways(s *TrafficPolicySpec) []way {
	asked := s.Models
	if s.Rewrite != nil {
		asked = []string{s.Rewrite.Model}
	}
	if len(asked) == 0 {
		asked = []string{""}
	}
	places := [][]string{s.Residency}
	for _, m := range s.Match {
		for _, t := range m.Tenants {
			if r, ok := c.all.Get(KindTenant, t); ok && len(r.Spec.(*TenantSpec).Residency) > 0 {
				places = append(places, r.Spec.(*TenantSpec).Residency)
			}
		}
	}
	var out []way
	add := func(field, model string, to pin) {
		for _, p := range places {
			out = append(out, way{field, model, to, [][]string{s.Residency, p}})
		}
	}
	own := pin{"spec.clusters", s.Clusters}
	for _, model := range asked {
		switch {
		case len(s.Split) > 0:
		case len(s.Clusters) > 0:
			add(own.field, model, own)
		default:
			add("spec.residency", model, own)
		}
		for i, a := range s.Split {
			at, to := fmt.Sprintf("spec.split[%d]", i), own
			if len(a.Clusters) > 0 {
				to = pin{at + ".clusters", a.Clusters}
			}
			add(at, cmp.Or(a.Model, model), to)
		}
		if s.Shadow != nil {
			add("spec.shadow", cmp.Or(s.Shadow.Model, model), pin{"spec.shadow.clusters", s.Shadow.Clusters})
		}
	}
	return out
}

// holes are the ways of a policy on which no request could be served, whatever is alive, though the
// model is served somewhere; and clusters that serve nothing of what is sent to them.
func (c *check) holes(s *TrafficPolicySpec) []Problem {
	var f finding
	told := map[string]bool{}
	useful := map[string]bool{} // by pin and cluster
	ways := c.ways(s)
	for _, w := range ways {
		base, _ := c.base(w.model)
		somewhere, here := false, false
		for _, o := range c.all.List(KindCluster) {
			spec := o.Spec.(*ClusterSpec)
			if base != "" && !slices.Contains(spec.Models, base) {
				continue
			}
			somewhere = true
			useful[w.pin.field+" "+o.Metadata.Name] = true
			pinned := len(w.pin.clusters) == 0 || slices.Contains(w.pin.clusters, o.Metadata.Name)
			here = here || pinned && !slices.ContainsFunc(w.residency, func(places []string) bool { return !c.within(places, spec.Region) })
		}
		if somewhere && !here && !told[w.field] {
			told[w.field] = true
			what := "any model"
			if w.model != "" {
				what = fmt.Sprintf("%q", clip(w.model))
			}
			f.add(w.field, "no cluster that is left serves "+what, "allow a cluster that serves it, in a place where the policy's and its tenants' residency let it be served")
		}
	}
	if len(f.problems) > 0 {
		return f.problems
	}
	for _, w := range ways {
		for i, name := range w.pin.clusters {
			at := fmt.Sprintf("%s[%d]", w.pin.field, i)
			if w.model != "" && !useful[w.pin.field+" "+name] && !told[at] {
				told[at] = true
				f.add(at, fmt.Sprintf("cluster %q serves nothing of what is sent there", clip(name)), "remove it, or let it serve the model")
			}
		}
	}
	return f.problems
}

// within: the places hold a region, by its name or zone. No places hold all.
func (c *check) within(places []string, region string) bool {
	if len(places) == 0 {
		return true
	}
	zone := ""
	if r, ok := c.all.Get(KindRegion, region); ok {
		zone = r.Spec.(*RegionSpec).Zone
	}
	return slices.ContainsFunc(places, func(p string) bool { return p == region || p == zone })
}

// lost complains of policies that a change leaves without a place, and that had one before.
func (c *check) lost(field string, before Lookup) {
	former := check{all: before}
	policies(c.all, func(r *Resource, s *TrafficPolicySpec) {
		if h := c.holes(s); len(h) > 0 && len(former.holes(s)) == 0 {
			c.add(field, fmt.Sprintf("in policy %q %s: %s", r.Metadata.Name, h[0].Field, h[0].Reason), "change the policy first")
		}
	})
}

// rewritten complains of policies that ask for what is not there any more.
func (c *check) rewritten(field, what string) {
	policies(c.all, func(r *Resource, s *TrafficPolicySpec) {
		for _, a := range s.asked() {
			if !c.servable(a.model) {
				c.add(field, fmt.Sprintf("policy %q asks in %s for %q, which %s", r.Metadata.Name, a.field, clip(a.model), what), "change the policy first, or keep the name")
			}
		}
	})
}
