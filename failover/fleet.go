package failover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"anabranch/api/fleet"
)

// StepAll moves all clusters on together, which is needed for the two judgements that no cluster
// can make by itself: whether too much turned bad at once to be believed, and whether evacuating
// one more would leave a second region empty. Clusters without evidence are left out of the result;
// those without a state begin healthy. Config gives each cluster's numbers; those of correlated
// change are taken from [DefaultConfig] merged with the first cluster's. The transitions are
// sorted by cluster.
func StepAll(
	states map[fleet.ClusterID]Cluster, evidence map[fleet.ClusterID]Evidence,
	config func(fleet.ClusterID) Config, now time.Time,
) (map[fleet.ClusterID]Cluster, []Transition) {
	next := make(map[fleet.ClusterID]Cluster, len(evidence))
	var changes []Transition
	ids := slices.Sorted(maps.Keys(evidence))
	if len(ids) == 0 {
		return next, nil
	}
	frozen := correlated(ids, states, evidence, config, now)
	gone := map[fleet.RegionID]int{}  // clusters out of use, so far
	total := map[fleet.RegionID]int{} // clusters
	for _, id := range ids {
		region := evidence[id].Region
		if evidence[id].Drained {
			continue // neither in use nor taken out of it on evidence
		}
		total[region]++
		if states[id].Gone() {
			gone[region]++
		}
	}
	for _, id := range ids {
		in := evidence[id]
		in.Frozen = frozen
		if empty := emptied(gone, total, in.Region); empty != "" && gone[in.Region]+1 >= total[in.Region] {
			in.Blocked = fmt.Sprintf("region %s is evacuated already, and this is the last cluster of %s", empty, in.Region)
		}
		c, change := Step(states[id], in, config(id), now)
		if c.Gone() && !states[id].Gone() {
			gone[in.Region]++
		}
		next[id] = c
		if change != (Transition{}) {
			change.Cluster = id
			changes = append(changes, change)
		}
	}
	return next, changes
}

// emptied names another region without a cluster in use, or "".
func emptied(gone, total map[fleet.RegionID]int, except fleet.RegionID) fleet.RegionID {
	for _, region := range slices.Sorted(maps.Keys(total)) {
		if region != except && gone[region] >= total[region] {
			return region
		}
	}
	return ""
}

// correlated says why what turns bad now is not to be believed, or "". Turning bad is hard
// evidence that began within the last [Config.Correlated]; a region turns bad when more than half
// of its capacity does.
func correlated(
	ids []fleet.ClusterID, states map[fleet.ClusterID]Cluster, evidence map[fleet.ClusterID]Evidence,
	config func(fleet.ClusterID) Config, now time.Time,
) string {
	cfg := config(ids[0]).ready()
	bad := map[fleet.RegionID]float64{}
	total := map[fleet.RegionID]float64{}
	var badAll, all float64
	for _, id := range ids {
		in := evidence[id]
		weight := max(in.Capacity, 1e-9)
		total[in.Region] += weight
		all += weight
		if turnsBad(states[id], judge(in, config(id).ready()), cfg, now) {
			bad[in.Region] += weight
			badAll += weight
		}
	}
	var regions []fleet.RegionID
	for region, weight := range bad {
		if 2*weight > total[region] {
			regions = append(regions, region)
		}
	}
	slices.SortFunc(regions, cmp.Compare)
	switch {
	case len(regions) >= 2:
		return fmt.Sprintf("%d regions turned bad within %s: %v", len(regions), cfg.Correlated, regions)
	case len(ids) > 1 && badAll > cfg.CorrelatedShare*all:
		return fmt.Sprintf("%.0f %% of capacity turned bad within %s", 100*badAll/all, cfg.Correlated)
	}
	return ""
}

func turnsBad(c Cluster, v verdict, cfg Config, now time.Time) bool {
	switch {
	case c.State == FailingOver:
		return now.Sub(c.Since) <= cfg.Correlated-cfg.Confirm
	case !v.hard || c.Cap() == 0:
		return false
	default:
		return c.BadSince.IsZero() || now.Sub(c.BadSince) <= cfg.Correlated
	}
}
