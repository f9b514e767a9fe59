package leader

import (
	"maps"
	"math"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/signal"
	"anabranch/ratelimit"
)

const (
	// usageSmoothing is the time constant of the average over which usage is told.
	usageSmoothing = time.Minute
	// usageEvery is how often it is told anew. Nothing is told before the first time: a new leader has seen
	// too little.
	usageEvery = time.Minute
	// holdSilent is how long a region keeps its part that is not heard. The longer, the longer the tenants
	// of a region that has died do without its part elsewhere; what is cut off from control plane and quota
	// store and serves on for longer than this gets more than the rest leaves it.
	holdSilent = time.Minute
)

// usage averages what parts of organisations' limits are used in which region.
type usage struct {
	at, told time.Time
	heard    map[fleet.RegionID]time.Time // when a region was last fresh, or first missed
	average  map[string]plan.Usage
	// latest is what was told last; it is not written to. Nil: nothing yet.
	latest map[string]plan.Usage
}

// see takes in what routers say now; table is the one in force.
//
// A region that falls silent keeps its part for holdSilent: it may be cut off from the quota store too, and
// goes on by the part that it knows of, which must not be given to others meanwhile.
func (u *usage) see(s signal.Snapshot, table *routerpb.Table) {
	if u.average == nil {
		u.average, u.told, u.heard = map[string]plan.Usage{}, s.At, map[fleet.RegionID]time.Time{}
	}
	weight := 1 - math.Exp(-max(s.At.Sub(u.at), 0).Seconds()/usageSmoothing.Seconds())
	u.at = s.At
	silent := u.listen(s, table)
	before := map[string][]*routerpb.Share{}
	for _, o := range table.GetOrganisations() {
		before[o.GetId()] = o.GetShares()
	}
	maps.DeleteFunc(u.average, func(organisation string, _ plan.Usage) bool { _, there := before[organisation]; return !there })
	limits := s.AllLimits()
	for organisation, shares := range before {
		parts := partsOf(limits[organisation])
		if parts == nil {
			continue
		}
		a := u.average[organisation]
		if a == nil {
			a = plan.Usage{}
			for _, share := range shares {
				a[fleet.RegionID(share.GetRegion())] = float64(share.GetParts()) / ratelimit.ShareParts
			}
			u.average[organisation] = a
		}
		follow(a, parts, weight, silent)
	}
	if s.At.Sub(u.told) >= usageEvery {
		u.told, u.latest = s.At, make(map[string]plan.Usage, len(u.average))
		for organisation, a := range u.average {
			u.latest[organisation] = maps.Clone(a)
		}
	}
}

// listen gives the regions that are silent, but not for so long that nobody waits for them.
func (u *usage) listen(s signal.Snapshot, table *routerpb.Table) map[fleet.RegionID]bool {
	silent := map[fleet.RegionID]bool{}
	for _, r := range table.GetRegions() {
		id := fleet.RegionID(r.GetId())
		if s.Region(id).Freshness == signal.Fresh || u.heard[id].IsZero() {
			u.heard[id] = s.At
		}
		silent[id] = s.Region(id).Freshness != signal.Fresh && s.At.Sub(u.heard[id]) < holdSilent
	}
	return silent
}

// partsOf gives each region its part of what is used, the mean over all limits of which something is: their
// units can't be added up. Nil: nothing is used.
func partsOf(limits []signal.Limit) plan.Usage {
	parts, n := plan.Usage{}, 0
	for _, l := range limits {
		var sum float64
		for _, t := range l.Regions {
			sum += t.UsedPerS
		}
		if sum <= 0 {
			continue
		}
		n++
		for region, t := range l.Regions {
			parts[region] += t.UsedPerS / sum
		}
	}
	if n == 0 {
		return nil
	}
	for region := range parts {
		parts[region] /= float64(n)
	}
	return parts
}

// follow moves an average towards what is seen now. What silent regions have stays theirs, and the others
// share the rest.
func follow(average, now plan.Usage, weight float64, silent map[fleet.RegionID]bool) {
	rest, seen := 1.0, 0.0
	for region, part := range average {
		if silent[region] {
			rest -= part
		}
	}
	for region, part := range now {
		if _, known := average[region]; !known {
			average[region] = 0
		}
		if !silent[region] {
			seen += part
		}
	}
	if seen <= 0 || rest <= 0 {
		return
	}
	for region, part := range average {
		if !silent[region] {
			average[region] = part + weight*(now[region]/seen*rest-part)
		}
	}
}
