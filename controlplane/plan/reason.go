package plan

import (
	"fmt"
	"slices"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
)

// What a share is explained by where no order, policy or health does. The texts of all constraints
// are free of figures that load moves: a reason that differs is a change of the table.
const (
	notNeeded = "not needed"
	local     = "local"
	spill     = "spill" // home has no room at this distance
)

// reason is the constraint that binds a share.
func (r *route) reason(d *demand, share float64) string {
	home := r.site.region == d.source
	ruled, note := r.ruled(), r.note(share)
	switch {
	case ruled != "":
		return ruled
	case note != "":
		return note
	case share == 0:
		return notNeeded
	case home:
		return local
	}
	return spill
}

// still is the reason of a share that stays: the one in force as long as it may be true. Which of
// several constraints binds depends on load, and must not change with every breath of it.
func (r *route) still(d *demand, share float64, former string) string {
	now := r.reason(d, share)
	if ruled := r.ruled(); ruled != "" || former == now {
		return now
	}
	home := r.site.region == d.source
	may := map[string]bool{
		notNeeded:  share == 0,
		local:      share > 0 && home,
		spill:      share > 0 && !home,
		r.stall():  !r.site.health.MayGrow(),
		r.weight(): r.outweighed,
		r.limit():  d.limits(r),
	}
	if may[former] {
		return former
	}
	return now
}

// ruled is the constraint, whatever the load, or "".
func (r *route) ruled() string {
	switch {
	case r.barred != "":
		return r.barred
	case r.factor < 1:
		return r.because
	case r.last:
		return "nothing is alive that the policy gives weight"
	}
	return ""
}

// note is the constraint that holds a share down, whatever health allows, or "".
func (r *route) note(share float64) string {
	switch {
	case r.stuck && share > r.before-quantum:
		return r.stall()
	case r.limited:
		return r.limit()
	case r.outweighed && share <= r.idealBound+deadBand:
		return r.weight()
	}
	return ""
}

func (r *route) stall() string { return string(nameOf(r.site.health.State)) + ": does not grow" }

func (r *route) limit() string {
	return "the policy limits " + string(r.site.region) + " to a part of its traffic"
}

func (r *route) weight() string {
	return fmt.Sprintf("the policy gives %s weight %g", r.site.region, r.wish)
}

// limits says whether the policy has a limit on the region of a route.
func (d *demand) limits(r *route) bool {
	return slices.ContainsFunc(d.policy.Regions, func(wish policy.RegionWish) bool {
		return wish.Region == string(r.site.region) && wish.MaxShare != nil && *wish.MaxShare < 1
	})
}

// explained are the weights in force with reasons that hold now.
func (d *demand) explained() []*routerpb.ClusterWeight {
	routes := map[string]*route{}
	for _, r := range d.routes {
		routes[string(r.site.id)] = r
	}
	var out []*routerpb.ClusterWeight
	for _, c := range d.before.GetClusters() {
		next := &routerpb.ClusterWeight{Cluster: c.GetCluster(), Weight: c.GetWeight(), Reason: c.GetReason()}
		if r := routes[c.GetCluster()]; r != nil {
			next.Reason = r.still(d, c.GetWeight(), c.GetReason())
		}
		out = append(out, next)
	}
	return out
}
