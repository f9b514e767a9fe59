package plan

import (
	"cmp"
	"slices"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/ratelimit"
)

const (
	// leastShare is the part of a limit, in ratelimit.ShareParts, that a region has which uses nothing: its
	// first requests after a while must not be denied because it is cut off.
	leastShare = 20_000
	// steadyShare is by how much a region's part may be off before the parts are changed: each change is a table.
	steadyShare = 50_000
)

// Usage is how much of an organisation's limits the routers of each region use, in any one unit; below 0
// counts as 0.
type Usage map[fleet.RegionID]float64

// RegionShares splits an organisation's limits among regions, for when they are cut off from the quota
// store: by usage, above a floor, evenly if there is none. What was shared out before stays while it is about
// right, and while usage is not known (nil). Of more than [ratelimit.MaxShares] regions those have a share that use
// most. The result is sorted by region.
func RegionShares(regions []fleet.RegionID, usage Usage, before []*routerpb.Share) []*routerpb.Share {
	sharing := slices.Clone(regions)
	slices.Sort(sharing)
	sharing = slices.Compact(sharing)
	if len(sharing) > ratelimit.MaxShares {
		slices.SortStableFunc(sharing, func(a, b fleet.RegionID) int { return cmp.Compare(usage[b], usage[a]) })
		sharing = sharing[:ratelimit.MaxShares]
		slices.Sort(sharing)
	}
	same := slices.EqualFunc(sharing, before, func(r fleet.RegionID, s *routerpb.Share) bool { return string(r) == s.GetRegion() })
	if same && usage == nil {
		return before
	}
	var most float64
	for _, r := range sharing {
		most = max(most, usage[r])
	}
	units := make([]int64, len(sharing))
	for i, r := range sharing {
		if most > 0 {
			units[i] = int64(max(usage[r], 0) / most * 1e9)
		}
	}
	shares := make([]*routerpb.Share, len(sharing))
	for i, parts := range ratelimit.Shares(units, leastShare) {
		shares[i] = &routerpb.Share{Region: string(sharing[i]), Parts: uint32(parts)}
		same = same && max(parts, int64(before[i].GetParts()))-min(parts, int64(before[i].GetParts())) <= steadyShare
	}
	if same {
		return before
	}
	return shares
}
