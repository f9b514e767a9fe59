package drill

import (
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/signal"
)

const (
	// agreeShare of the observers in other regions must have taken a drilled place out, in at least agreeRegions of
	// them, for agreeFor, until it counts as found dead: the rule of failover for what is dead for certain.
	agreeShare   = 2.0 / 3
	agreeRegions = 2
	agreeFor     = 3 * time.Second
)

// finding times when the control plane would have found the drilled places dead, by what routers did about them on
// their own. The zero finding has seen nothing.
type finding struct {
	since time.Time // since when enough agree; zero: they don't
	// sends are the routers that have sent requests to drilled places since the baseline began: no other can tell.
	sends map[fleet.RouterID]bool
}

// met notes who sends requests to the drilled places.
func (f *finding) met(drilled []fleet.ClusterID, signals signal.Snapshot) {
	if f.sends == nil {
		f.sends = map[fleet.RouterID]bool{}
	}
	for _, o := range signals.Routers {
		for _, c := range o.Report.GetClusters() {
			if c.GetRequests() > 0 && slices.Contains(drilled, fleet.ClusterID(c.GetCluster())) {
				f.sends[o.Router()] = true
			}
		}
	}
}

// look says whether it is decided now. With fewer than agreeRegions others, all others must agree; what no other
// region sees is judged by its own routers.
func (f finding) look(id uint64, homes []fleet.RegionID, signals signal.Snapshot) (finding, bool) {
	observers, agree := 0, 0
	var regions, agreeing []fleet.RegionID
	note := func(list []fleet.RegionID, r fleet.RegionID) []fleet.RegionID {
		if slices.Contains(list, r) {
			return list
		}
		return append(list, r)
	}
	judge := func(all bool) {
		for _, o := range signals.Routers {
			d := o.Report.GetDrill()
			if !o.Connected || o.Freshness(signals.At) != signal.Fresh || d.GetId() != id || !all && slices.Contains(homes, o.Region()) {
				continue
			}
			if !f.sends[o.Router()] && d.GetEjectedUnixMs() == 0 {
				continue // it sends nothing there, and can't tell
			}
			observers++
			regions = note(regions, o.Region())
			if d.GetEjectedUnixMs() != 0 {
				agree++
				agreeing = note(agreeing, o.Region())
			}
		}
	}
	if judge(false); observers == 0 {
		judge(true)
	}
	enough := observers > 0 && float64(agree) >= agreeShare*float64(observers) && len(agreeing) >= min(agreeRegions, len(regions))
	switch {
	case !enough:
		f.since = time.Time{}
		return f, false
	case f.since.IsZero():
		f.since = signals.At
	}
	return f, signals.At.Sub(f.since) >= agreeFor
}
