package bound

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"anabranch/sim/world"
)

// RegionPeaks are the [Peaks] of a run's regions: what pods its work takes, counted as in [FromResult], if
// each region has what its own busiest interval needs, or all together what the busiest of all needs,
// within residency. A pod does what the mean one of the run does at prefill. A run without work needs none.
func RegionPeaks(r *world.Result, every time.Duration) (Peak, error) {
	type origin struct{ region, tenant int32 }
	var rate, pods float64
	for _, c := range r.Spec.Clusters {
		for _, kind := range c.Pods {
			rate += float64(kind.Count) * kind.Options.Profile.PrefillRate(1)
			pods += float64(kind.Count)
		}
	}
	var sums []map[origin]int64
	for i := range r.Records {
		x := &r.Records[i]
		if x.Cluster < 0 {
			continue
		}
		at := int((x.At - r.Records[0].At) / every)
		for len(sums) <= at {
			sums = append(sums, map[origin]int64{})
		}
		sums[at][origin{x.Region, x.Tenant}] += work(r, x)
	}
	var intervals []Interval
	for _, of := range sums {
		in := Interval{Length: every}
		for _, o := range slices.SortedFunc(maps.Keys(of), func(a, b origin) int {
			return cmp.Or(cmp.Compare(a.region, b.region), cmp.Compare(a.tenant, b.tenant))
		}) {
			in.Demands = append(in.Demands, Demand{Work: of[o], Home: int(o.region), May: mayRegions(r, o.tenant)})
		}
		intervals = append(intervals, in)
	}
	return Peaks(len(r.Spec.Regions), rate/max(1, pods), intervals)
}

// mayRegions are the regions where the tenant may be served.
func mayRegions(r *world.Result, tenant int32) []int {
	regions := []int{}
	for i := range r.Spec.Regions {
		if r.Spec.May(residency(r, tenant), i) {
			regions = append(regions, i)
		}
	}
	return regions
}
