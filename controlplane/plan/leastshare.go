package plan

import (
	"maps"
	"slices"

	"anabranch/api/fleet"
)

// wishes is what a policy wants of regions at least, and what these have of its traffic.
type wishes struct {
	least, has map[fleet.RegionID]float64 // in work
	total      float64
}

// spare is what a region has of the policy's traffic beyond what it is to have at least.
func (s *wishes) spare(region fleet.RegionID) float64 {
	return max(s.has[region]-s.least[region], 0)
}

// lacking is the first region, by name, that has less than it is to have and that some demand could reach.
func (s *wishes) lacking(demands []*demand) (region fleet.RegionID, lack float64) {
	for _, id := range slices.Sorted(maps.Keys(s.least)) {
		if lack := s.least[id] - s.has[id]; lack > 1e-6*s.total && slices.ContainsFunc(demands, func(d *demand) bool { return d.reaches(id) }) {
			return id, lack
		}
	}
	return "", 0
}

// reaches says whether a demand could go to a region by its policy and by health.
func (d *demand) reaches(region fleet.RegionID) bool {
	return slices.ContainsFunc(d.routes, func(r *route) bool { return r.elastic && r.site.region == region })
}

// leastShares lowers bounds elsewhere so that a region gets as much of a policy's traffic as the policy wants it to
// have at least, one region of each policy at a time, and says whether that changed anything. All sources that reach
// the region send it the same part of what they send to regions that have enough. Bounds that are lowered give
// way as those of limits do: when the region has no more room.
func leastShares(demands []*demand) bool {
	type group struct {
		governed string
		class    fleet.ClassID
	}
	members := map[group][]*demand{}
	for _, d := range demands {
		if d.wantsShares() {
			g := group{d.governed, d.class}
			members[g] = append(members[g], d)
		}
	}
	changed := false
	for _, list := range members { // groups share no routes, so that their order does not matter
		s := wishesOf(list)
		if region, lack := s.lacking(list); region != "" && s.draw(list, region, lack) {
			changed = true
		}
	}
	return changed
}

// wantsShares says whether the policy wants a least share of any region.
func (d *demand) wantsShares() bool {
	for _, wish := range d.policy.Regions {
		if wish.MinShare > 0 {
			return true
		}
	}
	return false
}

func wishesOf(demands []*demand) *wishes {
	s := &wishes{least: map[fleet.RegionID]float64{}, has: map[fleet.RegionID]float64{}}
	for _, d := range demands {
		s.total += d.load
		for _, r := range d.routes {
			s.has[r.site.region] += d.load * r.share
		}
		for _, wish := range d.policy.Regions {
			if wish.MinShare > 0 {
				s.least[fleet.RegionID(wish.Region)] += d.load * min(wish.MinShare, 1)
			}
		}
	}
	return s
}

// draw lowers bounds so that so much of what demands send elsewhere goes to a region. It says whether it lowered any.
func (s *wishes) draw(demands []*demand, to fleet.RegionID, lack float64) bool {
	sent := map[fleet.RegionID]float64{} // by those that reach the region
	for _, d := range demands {
		for _, r := range d.routes {
			if r.site.region != to && d.reaches(to) {
				sent[r.site.region] += d.load * max(r.share-r.over, 0)
			}
		}
	}
	spare := 0.0
	for _, region := range slices.Sorted(maps.Keys(sent)) {
		spare += min(s.spare(region), sent[region])
	}
	if spare <= 0 {
		return false
	}
	changed := false
	for _, d := range demands {
		for _, r := range d.routes {
			from := r.site.region
			if from == to || !d.reaches(to) || s.has[from] < s.least[from] {
				continue
			}
			part := 1.0
			if sent[from] > 0 {
				part = max(1-min(lack/spare, 1)*min(s.spare(from), sent[from])/sent[from], 0)
			}
			if bound := r.share * part; bound < r.bound-1e-6 {
				r.bound, changed = bound, true
				r.limited, r.drawn = true, to
			}
		}
	}
	return changed
}
