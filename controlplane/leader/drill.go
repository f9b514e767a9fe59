package leader

import (
	"encoding/json"
	"time"

	"anabranch/controlplane/plan"
	"anabranch/controlplane/state"
	"anabranch/failover/drill"
)

// held says whether changes of configuration and optimisation are kept away from routers: changes are frozen, or a
// drill is under way, which is to be the only thing that moves.
func held(view *state.View, now time.Time) bool {
	return view.FrozenAt(now) != nil || view.ActiveDrill() != nil
}

// drillOf is the drill that tables carry; nil: none. It is there once the table from before is named.
func drillOf(view *state.View) *plan.Drill {
	d := view.ActiveDrill()
	if d == nil || len(d.GetBaseSha256()) == 0 {
		return nil
	}
	kind := state.DrillKind(d)
	out := &plan.Drill{ID: d.GetId(), Kind: kind, Base: d.GetBaseSha256()}
	var resolved drill.Resolved
	if json.Unmarshal(d.GetResolved(), &resolved) != nil {
		return out // nothing is shifted
	}
	out.Models, out.Tenants = resolved.Models, resolved.Tenants
	if kind != drill.ControlPlane && kind != drill.QuotaStore {
		out.Clusters = resolved.Clusters
	}
	return out
}

