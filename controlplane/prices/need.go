package prices

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/costmodel"
)

// Need is a kind of GPU that a cluster has, for which a price is wanted.
type Need struct {
	// Region is what clusters and offers call it, Class is in lower case.
	Region, Class string
	// Instance and Zone are empty where the cluster does not tell: any.
	Instance, Zone string
	Purchase       costmodel.Purchase
}

// Needs are what the clusters of a configuration have, each once, sorted. What nobody sells to anybody else
// (owned, reserved by contract) is among them: a price file may know it.
func Needs(resources plan.Lookup) []Need {
	seen := map[Need]bool{}
	var all []Need
	for _, r := range resources.List(policy.KindCluster) {
		spec, ok := r.Spec.(*policy.ClusterSpec)
		if !ok {
			continue
		}
		for _, g := range spec.Bought() {
			n := Need{spec.Region, strings.ToLower(g.Class), g.Instance, g.Zone, cmp.Or(g.Purchase, costmodel.OnDemand)}
			if !seen[n] {
				seen[n] = true
				all = append(all, n)
			}
		}
	}
	slices.SortFunc(all, Need.compare)
	return all
}

func (n Need) compare(m Need) int {
	return cmp.Or(
		cmp.Compare(n.Region, m.Region), cmp.Compare(n.Class, m.Class), cmp.Compare(n.Instance, m.Instance),
		cmp.Compare(n.Zone, m.Zone), cmp.Compare(n.Purchase, m.Purchase),
	)
}

// Takes says whether an offer may be of what is needed.
func (n Need) Takes(o costmodel.Offer) bool {
	either := func(a, b string) bool { return a == "" || b == "" || a == b }
	return n.Region == o.Region && n.Class == strings.ToLower(o.Class) && n.Purchase == cmp.Or(o.Purchase, costmodel.OnDemand) &&
		either(n.Instance, o.Instance) && either(n.Zone, o.Zone)
}

// needed says whether any of the needs takes an offer.
func needed(needs []Need, o costmodel.Offer) bool {
	return slices.ContainsFunc(needs, func(n Need) bool { return n.Takes(o) })
}

// fingerprint tells sets of needs apart; it is not 0.
func fingerprint(needs []Need) uint64 {
	h := fnv.New64a()
	for _, n := range needs {
		_, _ = fmt.Fprintf(h, "%q", n) // a hash takes anything
	}
	return h.Sum64() | 1
}
