package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/costmodel"
)

// Change is what [WhatIf] supposes; its parts are combined. The zero Change changes nothing.
type Change struct {
	// WithoutRegions lose all their clusters but providers, see Lost, and WithoutClusters are lost. Their clients go
	// on asking, from where they are.
	WithoutRegions  []fleet.RegionID  `json:"withoutRegions,omitempty"`
	WithoutClusters []fleet.ClusterID `json:"withoutClusters,omitempty"`
	// Prices of GPUs; of two for the same GPUs the later one holds, and a factor is one of what held before it.
	Prices []PriceChange `json:"prices,omitempty"`
	// Demand is multiplied, several times where several entries speak of it.
	Demand []DemandChange `json:"demand,omitempty"`
	// Capacity is multiplied, measured or not.
	Capacity []CapacityChange `json:"capacity,omitempty"`
}

// PriceChange is what a GPU costs for an hour: of one cluster, in one region or, everywhere, of one class.
// That of all has a factor and names none of them.
type PriceChange struct {
	Cluster fleet.ClusterID `json:"cluster,omitempty"`
	Region  fleet.RegionID  `json:"region,omitempty"`
	Class   string          `json:"class,omitempty"`
	// USDPerHour is the price, or Factor, above 0, what it is multiplied by; a price that is not known stays so.
	USDPerHour float64 `json:"usdPerHour,omitempty"`
	Factor     float64 `json:"factor,omitempty"`
}

// DemandChange is by how much more, or less, clients of a region ask for.
type DemandChange struct {
	// Region where they ask; empty: everywhere.
	Region fleet.RegionID `json:"region,omitempty"`
	// Factor >= 0.
	Factor float64 `json:"factor"`
}

// CapacityChange is by how much more, or less, a cluster can do.
type CapacityChange struct {
	Cluster fleet.ClusterID `json:"cluster"`
	// Factor > 0.
	Factor float64 `json:"factor"`
}

// Bounds of a change.
const (
	mostChanges = 1000
	mostFactor  = 1e6
	mostUSD     = 1e6
)

func (c PriceChange) of(id fleet.ClusterID, in fleet.RegionID, class string) bool {
	switch {
	case c.Cluster != "":
		return c.Cluster == id
	case c.Region != "":
		return c.Region == in
	}
	return c.Class == "" || strings.EqualFold(c.Class, class)
}

// Empty says that nothing is supposed.
func (c Change) Empty() bool {
	return len(c.WithoutRegions)+len(c.WithoutClusters)+len(c.Prices)+len(c.Demand)+len(c.Capacity) == 0
}

// Lost says whether a cluster is. A provider is an API somewhere, which routers of all regions call: it does not go down
// with the region whose jurisdiction it is under.
func (c Change) Lost(id fleet.ClusterID, spec *policy.ClusterSpec) bool {
	return slices.Contains(c.WithoutClusters, id) ||
		slices.Contains(c.WithoutRegions, fleet.RegionID(spec.Region)) && spec.Type != policy.TypeProvider
}

// DemandFactor is by how much more clients of a region ask for.
func (c Change) DemandFactor(source fleet.RegionID) float64 {
	factor := 1.0
	for _, d := range c.Demand {
		if d.Region == "" || d.Region == source {
			factor *= max(d.Factor, 0)
		}
	}
	return factor
}

// CapacityFactor is by how much more a cluster can do.
func (c Change) CapacityFactor(id fleet.ClusterID) float64 {
	factor := 1.0
	for _, k := range c.Capacity {
		if k.Cluster == id {
			factor *= max(k.Factor, 0)
		}
	}
	return factor
}

// Book is what holds for a cluster instead of a book of prices.
func (c Change) Book(id fleet.ClusterID, spec *policy.ClusterSpec, book costmodel.Book, now time.Time) costmodel.Book {
	if offers, changed := c.repriced(id, spec, book); changed {
		return costmodel.NewBook(now, offers)
	}
	return book
}

// repriced are offers for a cluster's GPUs at supposed prices, and at those of the book where nothing is
// supposed of them; there is none for those that have no price.
func (c Change) repriced(id fleet.ClusterID, spec *policy.ClusterSpec, book costmodel.Book) (offers []costmodel.Offer, changed bool) {
	for _, g := range spec.Bought() {
		found, known := book.Find(costmodel.Want{Class: g.Class, Region: spec.Region, Instance: g.Instance, Zone: g.Zone, Purchase: g.Purchase})
		o := found.Offer
		for _, p := range c.Prices {
			switch {
			case !p.of(id, fleet.RegionID(spec.Region), g.Class):
			case p.Factor > 0 && known:
				o.PerHour, o.Source, changed = costmodel.FromUSD(o.PerHour.USD()*p.Factor), "supposed", true
			case p.Factor <= 0:
				o = costmodel.Offer{PerHour: costmodel.FromUSD(max(p.USDPerHour, 0)), Origin: costmodel.Override, Source: "supposed"}
				known, changed = true, true
			}
		}
		if known { // for these very GPUs
			o.Class, o.Region, o.Instance, o.Zone, o.Purchase = g.Class, spec.Region, g.Instance, g.Zone, g.Purchase
			offers = append(offers, o)
		}
	}
	return offers, changed
}

// Check names every field that can't be supposed of the resources, and what could be written instead.
func (c Change) Check(resources Lookup) []policy.Problem {
	k := checker{regions: namesOf(resources.List(policy.KindRegion)), clusters: map[string]*policy.ClusterSpec{}}
	for _, r := range resources.List(policy.KindCluster) {
		if spec, ok := r.Spec.(*policy.ClusterSpec); ok {
			k.clusters[r.Metadata.Name] = spec
			k.clusterNames = append(k.clusterNames, r.Metadata.Name)
			for _, g := range spec.GPUs {
				k.classes = append(k.classes, strings.ToLower(g.Class))
			}
		}
	}
	slices.Sort(k.classes)
	k.classes = slices.Compact(k.classes)
	for field, n := range map[string]int{
		"withoutRegions": len(c.WithoutRegions), "withoutClusters": len(c.WithoutClusters), "prices": len(c.Prices),
		"demand": len(c.Demand), "capacity": len(c.Capacity),
	} {
		if n > mostChanges {
			return []policy.Problem{{Field: field, Reason: fmt.Sprintf("holds %d entries, the limit is %d", n, mostChanges), Fix: "suppose less at a time"}}
		}
	}
	for i, r := range c.WithoutRegions {
		k.region(fmt.Sprintf("withoutRegions[%d]", i), r)
	}
	for i, id := range c.WithoutClusters {
		k.cluster(fmt.Sprintf("withoutClusters[%d]", i), id)
	}
	for i, p := range c.Prices {
		k.price(fmt.Sprintf("prices[%d]", i), p)
	}
	for i, d := range c.Demand {
		at := fmt.Sprintf("demand[%d]", i)
		if d.Region != "" {
			k.region(at+".region", d.Region)
		}
		k.number(at+".factor", d.Factor, 0, mostFactor)
	}
	for i, x := range c.Capacity {
		at := fmt.Sprintf("capacity[%d]", i)
		k.cluster(at+".cluster", x.Cluster)
		k.number(at+".factor", x.Factor, 1/mostFactor, mostFactor)
	}
	return k.problems
}

// checker gathers what is wrong with a change.
type checker struct {
	regions, clusterNames, classes []string
	clusters                       map[string]*policy.ClusterSpec
	problems                       []policy.Problem
}

func (k *checker) add(field, reason, fix string) {
	k.problems = append(k.problems, policy.Problem{Field: field, Reason: reason, Fix: fix})
}

func (k *checker) region(field string, id fleet.RegionID) {
	if !slices.Contains(k.regions, string(id)) {
		k.add(field, fmt.Sprintf("there is no region %.64q", string(id)), "use one of "+some(k.regions))
	}
}

func (k *checker) cluster(field string, id fleet.ClusterID) {
	if k.clusters[string(id)] == nil {
		k.add(field, fmt.Sprintf("there is no cluster %.64q", string(id)), "use one of "+some(k.clusterNames))
	}
}

func (k *checker) price(at string, p PriceChange) {
	spec := k.clusters[string(p.Cluster)]
	named := 0
	for _, name := range []string{string(p.Cluster), string(p.Region), p.Class} {
		if name != "" {
			named++
		}
	}
	switch {
	case named > 1 || named == 0 && p.Factor == 0:
		k.add(at, fmt.Sprintf("names %d of cluster, region and class of GPU", named), "name one of them; only a factor may be of all GPUs")
	case named == 0:
	case p.Region != "":
		k.region(at+".region", p.Region)
	case p.Class != "" && !slices.Contains(k.classes, strings.ToLower(p.Class)):
		k.add(at+".class", fmt.Sprintf("no cluster has GPUs of class %.64q", p.Class), "use one of "+some(k.classes))
	case p.Class != "":
	case spec == nil:
		k.cluster(at+".cluster", p.Cluster)
	case spec.Type == policy.TypeProvider:
		k.add(at+".cluster", fmt.Sprintf("%s is paid by the token and not by the hour", p.Cluster), "change the model's price in a RateCard, and try that with anabranch plan -f")
	case len(spec.GPUs) == 0:
		k.add(at+".cluster", fmt.Sprintf("nobody has written down which GPUs %s has, so that a price says nothing", p.Cluster), "write spec.gpus of the cluster")
	}
	k.number(at+".usdPerHour", p.USDPerHour, 0, mostUSD)
	if p.Factor != 0 {
		k.number(at+".factor", p.Factor, 1/mostFactor, mostFactor)
		if p.USDPerHour != 0 {
			k.add(at, "has a price and a factor", "give one of usdPerHour and factor")
		}
	}
}

func (k *checker) number(field string, x, least, most float64) {
	if math.IsNaN(x) || x < least || x > most {
		k.add(field, fmt.Sprintf("%g is out of range", x), fmt.Sprintf("give a number from %g to %g", least, most))
	}
}

// some are names for people, not too many of them.
func some(names []string) string {
	const most = 12
	switch n := len(names); {
	case n == 0:
		return "those that there are, which are none"
	case n > most:
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", n-most)
	}
	return strings.Join(names, ", ")
}

func namesOf(list []*policy.Resource) []string {
	out := make([]string, 0, len(list))
	for _, r := range list {
		out = append(out, r.Metadata.Name)
	}
	slices.Sort(out)
	return out
}
