package plan

import (
	"fmt"
	"math"
	"slices"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
)

// NotNeeded explains a share of nothing that nothing forbids: others are nearer, or cost less.
const NotNeeded = "not needed"

// What a share is explained by where no order, policy or health does. The texts of all constraints
// are free of figures that load moves: a reason that differs is a change of the table.
const (
	notNeeded = NotNeeded
	local     = "local"
	spill     = "spill" // home has no room at this distance
	cheaper   = "costs less than home"
	dearer    = "costs more than elsewhere"
	warming   = "caches are cold: gets more as it has done more"
)

// reason is the constraint that binds a share.
func (r *route) reason(d *demand, share float64) string {
	home := r.site.region == d.source
	ruled, note := r.ruled(d, share), r.note(share)
	switch {
	case ruled != "":
		return ruled
	case note != "":
		return note
	case share == 0 && home && slices.ContainsFunc(d.routes, func(o *route) bool { return o.share > 0 && o.costMs < r.costMs }):
		return dearer
	case share == 0:
		return notNeeded
	case home:
		return local
	}
	for _, h := range d.routes {
		switch {
		case h.barred != "" || h.site.region != d.source:
		case h.limited && (h.drawn == "" || h.drawn == r.site.region):
			return h.limit()
		case h.wish < r.wish && share > r.natural+deadBand:
			return r.weight()
		case h.factor == 1 && h.costMs > r.costMs:
			return cheaper
		}
	}
	return spill
}

// still is the reason of a share that stays: the one in force as long as it may be true. Which of
// several constraints binds depends on load, and must not change with every breath of it.
func (r *route) still(d *demand, share float64, former string) string {
	now := r.reason(d, share)
	if ruled := r.ruled(d, share); ruled != "" || former == now {
		return now
	}
	home := r.site.region == d.source
	may := map[string]bool{
		notNeeded:  share == 0,
		dearer:     share == 0 && home && d.priced,
		local:      share > 0 && home,
		spill:      share > 0 && !home,
		cheaper:    share > 0 && !home && d.priced,
		warming:    r.cold,
		r.stall():  !r.mayGrow(),
		r.weight(): r.outweighed,
		r.limit():  d.limits(r),
	}
	if share > 0 && !home {
		for _, h := range d.routes {
			if h.barred == "" && h.site.region == d.source {
				may[h.limit()] = may[h.limit()] || d.limits(h)
				may[r.weight()] = may[r.weight()] || h.wish < r.wish
			}
		}
	}
	if may[former] {
		return former
	}
	return now
}

// ruled is the constraint, whatever the load, or "".
func (r *route) ruled(d *demand, share float64) string {
	switch {
	case r.barred != "":
		return r.barred
	case r.factor < 1:
		return r.because
	case d.repriced && math.Abs(r.share-share) > quantum:
		return repriced
	case r.probe && share > 0 && share <= 2*probePart:
		return probing
	case r.last:
		return "nothing is alive that the policy gives weight"
	case share == 0 || r.site.region == d.source:
		return ""
	}
	why := "no cluster in " + string(d.source) + " serves the model"
	for _, h := range d.routes {
		switch {
		case h.site.region != d.source:
		case h.barred == "":
			return ""
		case !h.site.spec.Drained && !h.unwell():
			return h.barred // by the policy
		default:
			why = string(d.source) + " is out of use"
		}
	}
	return why
}

// note is the constraint that holds a share down, whatever health allows, or "".
func (r *route) note(share float64) string {
	switch {
	case r.stuck && share > r.before-quantum:
		return r.stall()
	case r.cold:
		return warming
	case r.dear:
		return tooDear
	case r.limited:
		return r.limit()
	case r.outweighed && share <= r.idealBound+deadBand:
		return r.weight()
	}
	return ""
}

func (r *route) stall() string { return string(nameOf(wellOr(r.health).State)) + ": does not grow" }

func (r *route) limit() string {
	if r.drawn != "" {
		return "the policy wants a part of its traffic in " + string(r.drawn)
	}
	return "the policy limits " + string(r.site.region) + " to a part of its traffic"
}

func (r *route) weight() string {
	return fmt.Sprintf("the policy gives %s weight %g", r.site.region, r.wish)
}

// limits says whether the policy has a limit on the region of a route.
func (d *demand) limits(r *route) bool {
	return r.drawn != "" || slices.ContainsFunc(d.policy.Regions, func(wish policy.RegionWish) bool {
		return wish.Region == string(r.site.region) && wish.MaxShare != nil && *wish.MaxShare < 1
	})
}

// explained are the weights in force with reasons that hold now. Those that say the same are the very ones in force, which
// nobody changes.
func (d *demand) explained() []*routerpb.ClusterWeight {
	list := d.before.GetClusters()
	out := make([]*routerpb.ClusterWeight, 0, len(list))
	next := 0
	for _, c := range list {
		at := -1 // of its route: both lists are mostly in the same order
		for i := range d.routes {
			if k := (next + i) % len(d.routes); d.routes[k].was == c {
				at, next = k, k+1
				break
			}
		}
		reason, standby := c.GetReason(), false
		if at >= 0 {
			r := d.routes[at]
			reason, standby = r.still(d, c.GetWeight(), reason), (r.ordered || r.dear) && c.GetWeight() == 0
		}
		if reason != c.GetReason() || standby != c.GetStandby() {
			c = &routerpb.ClusterWeight{Cluster: c.GetCluster(), Weight: c.GetWeight(), Reason: reason, Standby: standby}
		}
		out = append(out, c)
	}
	return out
}
