package ours

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/dataplane/table"
	"anabranch/sim/world"
)

// catalog is all that operators have written, by kind, sorted by name.
type catalog map[policy.Kind][]*policy.Resource

// List implements plan.Lookup.
func (c catalog) List(k policy.Kind) []*policy.Resource { return c[k] }

// put adds a resource, or replaces the one of the name.
func (c catalog) put(r *policy.Resource) {
	list := c[r.Kind]
	i, found := slices.BinarySearchFunc(list, r.Metadata.Name, func(r *policy.Resource, name string) int {
		return cmp.Compare(r.Metadata.Name, name)
	})
	if found {
		list[i] = r
		return
	}
	c[r.Kind] = slices.Insert(list, i, r)
}

// written is a resource with its defaults.
func written(kind policy.Kind, name string, revision uint64, spec any) *policy.Resource {
	r := &policy.Resource{
		APIVersion: policy.APIVersion, Kind: kind, Metadata: policy.Metadata{Name: name, Revision: revision}, Spec: spec,
	}
	policy.Defaults(r)
	return r
}

// configure writes the resources that describe the fleet of a spec, and puts those of the operator
// beside them. All have revision 1.
func configure(spec *world.Spec, own []*policy.Resource) catalog {
	c := catalog{}
	for i := range spec.Regions {
		r := &spec.Regions[i]
		rtt := map[string]float64{}
		for j := range spec.Regions {
			if other := spec.Regions[j].ID; other != r.ID {
				rtt[string(other)] = spec.Between(r.ID, other).Seconds() * 1e3
			}
		}
		var peers []string
		for n := range r.Routers {
			peers = append(peers, fmt.Sprintf("https://router-%d.%s.example", n, r.ID))
		}
		c.put(written(policy.KindRegion, string(r.ID), 1, &policy.RegionSpec{Zone: r.Zone, PeerURLs: peers, RTTMs: rtt}))
	}
	for i := range spec.Models {
		c.put(written(policy.KindModel, string(spec.Models[i].ID), 1, &policy.ModelSpec{OutputWeight: spec.Models[i].OutputWeight}))
	}
	for i := range spec.Clusters {
		c.put(written(policy.KindCluster, string(spec.Clusters[i].ID), 1, clusterSpec(&spec.Clusters[i], spec.Events)))
	}
	for i := range spec.Tenants {
		t := &spec.Tenants[i]
		// Requests say their priority themselves, and a tenant's tier would lower it.
		c.put(written(policy.KindTenant, string(t.ID), 1, &policy.TenantSpec{Tier: policy.TierTop, Residency: t.Residency}))
	}
	for i, q := range spec.Quotas {
		c.put(written(policy.KindQuota, fmt.Sprintf("%s-%d", q.Tenant, i), 1, &policy.QuotaSpec{
			Tenant: string(q.Tenant),
			Limits: []policy.LimitSpec{{Kind: "total-tokens", PerMinute: q.Tokens, Burst: q.Burst}},
		}))
	}
	for _, r := range own {
		r := *r
		r.Metadata.Revision = 1
		c.put(&r)
	}
	c.objectives(spec)
	if card := rateCard(spec, 0); card != nil {
		c.put(written(policy.KindRateCard, cardName, 1, card))
	}
	return c
}

// objectives writes a policy for each model of which none speaks yet.
func (c catalog) objectives(spec *world.Spec) {
	for i := range spec.Models {
		m := &spec.Models[i]
		spoken := slices.ContainsFunc(c[policy.KindTrafficPolicy], func(r *policy.Resource) bool {
			s, ok := r.Spec.(*policy.TrafficPolicySpec)
			return ok && len(s.Match) == 0 && (len(s.Models) == 0 || slices.Contains(s.Models, string(m.ID)))
		})
		if !spoken {
			c.put(written(policy.KindTrafficPolicy, fmt.Sprintf("model-%d", i), 1, &policy.TrafficPolicySpec{
				Models: []string{string(m.ID)}, TTFTObjectiveMs: m.FirstToken.Seconds() * 1e3,
			}))
		}
	}
}

// clusterSpec is a cluster as its operator would write it: by the addresses of its pods, or, where they
// come and go, as something to be found.
func clusterSpec(c *world.Cluster, e events) *policy.ClusterSpec {
	spec := &policy.ClusterSpec{Region: string(c.Region), Models: []string{string(c.Model)}}
	for i, k := range c.Pods {
		spec.GPUs = append(spec.GPUs, policy.GPUSpec{Class: priceClass(c.ID, i), Count: k.Count})
	}
	all := endpoints(c)
	if e.scales(c.ID) {
		spec.Discovery = &policy.DiscoverySpec{Kind: policy.DiscoverDNS, Name: string(c.ID) + ".example"}
		spec.PriorWork = policy.DefaultPriorWork * float64(len(all))
		return spec
	}
	for _, e := range all {
		spec.Endpoints = append(spec.Endpoints, policy.EndpointSpec{ID: string(e.ID), URL: e.URL, Class: e.Class})
	}
	return spec
}

// endpoints are the pods that a cluster has from the beginning.
func endpoints(c *world.Cluster) (all []table.Endpoint) {
	for i := range c.Pods {
		for range c.Pods[i].Count {
			all = append(all, podEndpoint(c, len(all)))
		}
	}
	return all
}

// podEndpoint is a pod by its number. Those that come later are of the first kind.
func podEndpoint(c *world.Cluster, pod int) table.Endpoint {
	class, before := c.Pods[0].Class, 0
	for i := range c.Pods {
		if before += c.Pods[i].Count; pod < before {
			class = c.Pods[i].Class
			break
		}
	}
	return table.Endpoint{
		ID: podID(pod), Class: class, URL: fmt.Sprintf("http://pod-%d.%s.example:8000", pod, c.ID),
	}
}

// podID names a pod by its number, and podNumber is that of a name.
func podID(pod int) fleet.EndpointID { return fleet.EndpointID("pod-" + strconv.Itoa(pod)) }

func podNumber(id fleet.EndpointID) int {
	n, err := strconv.Atoi(string(id[len("pod-"):]))
	if err != nil {
		return -1 // can't be: all names are of podID
	}
	return n
}

// cardName is the rate card of the fleet.
const cardName = "fleet"

// priceClass is the class of GPU that the pods of one kind in one cluster are bought as.
func priceClass(c fleet.ClusterID, kind int) string { return fmt.Sprintf("%s-%d", c, kind) }

// rateCard is what pods cost at a time; nil: nothing is said.
func rateCard(spec *world.Spec, now time.Duration) *policy.RateCardSpec {
	card := &policy.RateCardSpec{Source: "the world's spec"}
	for i := range spec.Clusters {
		c := &spec.Clusters[i]
		factor := events(spec.Events).price(c, now)
		for j, k := range c.Pods {
			if k.PriceMicroUSD > 0 {
				card.GPUs = append(card.GPUs, policy.GPUPrice{
					Class: priceClass(c.ID, j), Region: string(c.Region), Purchase: policy.DefaultPurchase, USDPerHour: factor * float64(k.PriceMicroUSD) / 1e6,
				})
			}
		}
	}
	if len(card.GPUs) == 0 {
		return nil
	}
	return card
}
