package reconcile

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/costmodel"
)

// goods are GPUs of a cluster of which a bill may tell, and what an hour of them costs.
type goods struct {
	instance string
	perHour  costmodel.Micros
}

// bought tells a cluster's GPUs apart: those that a bill may tell of, and what an hour of those costs that
// somebody owns, which no bill tells of. Not all: the instance type of some is not told, or their price is not
// known, so that they can't be found in one.
func bought(book costmodel.Book, spec *policy.ClusterSpec) (owned costmodel.Micros, list []goods, all bool) {
	all = true
	for _, g := range spec.Bought() {
		price, known := book.Find(costmodel.Want{Class: g.Class, Region: spec.Region, Instance: g.Instance, Zone: g.Zone, Purchase: g.Purchase})
		switch {
		case g.Count <= 0:
		case g.Purchase == costmodel.Owned && known:
			owned += price.GPUsPerHour(g.Count)
		case g.Purchase == costmodel.Owned:
		case g.Instance == "" || !known:
			all = false
		default:
			list = append(list, goods{g.Instance, price.GPUsPerHour(g.Count)})
		}
	}
	return owned, list, all
}

// Counted is what the account says that instances cost in a time, by region and type: what each cluster cost is
// split over its instances by their prices. Clusters of which some GPUs can't be found in a bill are left out;
// they are named, in order. Regions are what sellers call them, by regionOf.
func Counted(resources plan.Lookup, book costmodel.Book, report account.Report, regionOf func(fleet.RegionID) string) (charges []costmodel.Charge, leftOut []fleet.ClusterID) {
	spent := costmodel.Rollup{}
	for _, row := range report.Rows {
		spent.Add(costmodel.Key{Cluster: row.Key.Cluster}, costmodel.Sum{Cost: row.Cost, Idle: row.Idle})
	}
	sums := map[costmodel.Charge]costmodel.Micros{} // by region and instance, at no cost
	for _, r := range resources.List(policy.KindCluster) {
		spec, ok := r.Spec.(*policy.ClusterSpec)
		if !ok {
			continue
		}
		id := fleet.ClusterID(r.Metadata.Name)
		owned, list, all := bought(book, spec)
		switch {
		case !all:
			leftOut = append(leftOut, id)
			continue
		case len(list) == 0:
			continue
		}
		weights := []costmodel.Work{costmodel.Work(owned)}
		for _, g := range list {
			weights = append(weights, costmodel.Work(g.perHour))
		}
		for i, part := range costmodel.Split(spent[costmodel.Key{Cluster: id}].Paid(), weights)[1:] {
			sums[costmodel.Charge{Region: regionOf(fleet.RegionID(spec.Region)), Instance: list[i].instance}] += part
		}
	}
	for c := range maps.Keys(sums) {
		charges = append(charges, costmodel.Charge{Region: c.Region, Instance: c.Instance, Cost: sums[c]})
	}
	slices.SortFunc(charges, func(a, b costmodel.Charge) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Instance, b.Instance))
	})
	return charges, leftOut
}

// complete says whether the account has counted all of a day.
func complete(report account.Report, day time.Time) bool {
	return report.Complete && !report.From.After(day) && !report.Until.Before(day.AddDate(0, 0, 1))
}
