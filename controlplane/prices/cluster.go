package prices

import (
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/costmodel"
)

// Cluster is what a cluster costs at a moment.
type Cluster struct {
	ID     fleet.ClusterID
	Region fleet.RegionID
	// Count of its GPUs. 0: it has none that are paid for by the hour, or does not tell.
	Count int
	// Hour is what an hour of its GPUs costs, worked or not. Marginal is the part that it costs more than
	// nothing to use: of those on demand and spot.
	Hour, Marginal costmodel.Priced
	GPUs           []GPUs
}

// GPUs are those of a cluster that are bought in one way.
type GPUs struct {
	costmodel.GPUs
	// Price of one instance; not Known: there is none, and they are left out of the cluster's sums.
	Price costmodel.Found
	Known bool
}

// Clusters tells what each cluster costs, by name, at the prices that plans and bills go by.
func Clusters(resources plan.Lookup, offers []costmodel.Offer, now time.Time) []Cluster {
	book := plan.Prices(resources, offers, now)
	list := resources.List(policy.KindCluster)
	all := make([]Cluster, 0, len(list))
	for _, r := range list {
		spec, ok := r.Spec.(*policy.ClusterSpec)
		if !ok {
			continue
		}
		bought := spec.Bought()
		c := Cluster{
			ID: fleet.ClusterID(r.Metadata.Name), Region: fleet.RegionID(spec.Region),
			Hour: book.Bill(spec.Region, bought, now, now.Add(time.Hour)), Marginal: book.ClusterHour(spec.Region, bought),
		}
		for _, g := range bought {
			found, known := book.Find(costmodel.Want{Class: g.Class, Region: spec.Region, Instance: g.Instance, Zone: g.Zone, Purchase: g.Purchase})
			c.Count += max(g.Count, 0)
			c.GPUs = append(c.GPUs, GPUs{g, found, known})
		}
		all = append(all, c)
	}
	return all
}

// PerGPUHour is the mean of what its GPUs cost for an hour. Not ok: it has none, or the price of one is not
// known.
func (c Cluster) PerGPUHour() (cost costmodel.Micros, ok bool) {
	if c.Count == 0 || c.Hour.Unpriced {
		return 0, false
	}
	return (c.Hour.Cost + costmodel.Micros(c.Count) - 1) / costmodel.Micros(c.Count), true
}

// Fits says whether an instance type with GPUs of a class may be what is needed.
func (n Need) Fits(instance, class string) bool {
	return n.Class == strings.ToLower(class) && (n.Instance == "" || n.Instance == instance)
}
