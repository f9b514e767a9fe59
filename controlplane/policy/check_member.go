package policy

import (
	"fmt"
	"slices"
)

func (c *check) member(name string, s *ClusterSpec) {
	c.exists("spec.region", KindRegion, s.Region)
	for i, m := range s.Models {
		c.exists(fmt.Sprintf("spec.models[%d]", i), KindModel, m)
	}
	for _, called := range sortedKeys(s.ModelNames) {
		if base, ok := c.base(called); !ok || !slices.Contains(s.Models, base) {
			c.add(fmt.Sprintf("spec.modelNames[%s]", clip(called)), "is no model of the cluster and no adapter of one", "name one of spec.models, or an adapter of one")
		}
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
	if s.Type == TypeRouter {
		if r, ok := c.all.Get(KindRegion, s.Region); ok && len(r.Spec.(*RegionSpec).PeerURLs) == 0 {
			c.add("spec.region", fmt.Sprintf("region %q has no peerURLs, by which its routers are reached", s.Region), "give the region peerURLs first")
		}
	}
	c.regionOnce(name, s)
}

// regionOnce: a region is one member for a model, or the clusters in it are; as both, its capacity
// would count twice.
func (c *check) regionOnce(name string, s *ClusterSpec) {
	for _, o := range c.all.List(KindCluster) {
		other := o.Spec.(*ClusterSpec)
		if o.Metadata.Name == name || other.Region != s.Region || s.Type != TypeRouter && other.Type != TypeRouter {
			continue
		}
		if s.Type == TypeProvider || other.Type == TypeProvider {
			continue // runs nothing in the region
		}
		for i, m := range s.Models {
			if slices.Contains(other.Models, m) {
				c.add(fmt.Sprintf("spec.models[%d]", i), fmt.Sprintf("cluster %q of type %s serves %q in region %q too, and one of both stands for all of the region", o.Metadata.Name, other.Type, m, s.Region),
					"list the region as a whole or its clusters")
			}
		}
	}
}

// entered complains of a region that is a member as a whole and can't be entered any more.
func (c *check) entered(name string, s *RegionSpec) {
	if len(s.PeerURLs) > 0 {
		return
	}
	for _, o := range c.all.List(KindCluster) {
		if spec := o.Spec.(*ClusterSpec); spec.Type == TypeRouter && spec.Region == name {
			c.add("spec.peerURLs", fmt.Sprintf("is empty, and cluster %q of type router is reached by them", o.Metadata.Name), "keep at least one, or delete the cluster first")
		}
	}
}

// base is the base model that a model or adapter stands for.
func (c *check) base(name string) (model string, ok bool) {
	if _, ok := c.all.Get(KindModel, name); ok {
		return name, true
	}
	for _, m := range c.all.List(KindModel) {
		if slices.Contains(m.Spec.(*ModelSpec).Adapters, name) {
			return m.Metadata.Name, true
		}
	}
	return "", false
}

// servable: some model has the name, or has an adapter of the name.
func (c *check) servable(name string) bool {
	_, ok := c.base(name)
	return ok
}
