package drill

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/order"
	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover"
	"anabranch/failover/drill"
)

// planOf is what a drill is to do; false: its spec can't be read, which the state refuses.
func planOf(d *statepb.Drill) (drill.Plan, bool) {
	spec, err := SpecOf(d.GetSpec())
	if err != nil {
		return drill.Plan{}, false
	}
	return spec.Plan(), true
}

// SpecOf reads the spec of a drill, whose defaults are filled in.
func SpecOf(doc []byte) (*policy.DrillPlanSpec, error) {
	wrapped := slices.Concat([]byte(`{"spec":`), doc, []byte(`}`))
	r, err := policy.FromCanonical(policy.KindDrillPlan, "drill", wrapped)
	if err != nil {
		return nil, fmt.Errorf("read the spec of a drill: %w", err)
	}
	spec, ok := r.Spec.(*policy.DrillPlanSpec)
	if !ok {
		return nil, fmt.Errorf("read the spec of a drill: it is a %T", r.Spec)
	}
	return spec, nil
}

func resolvedOf(d *statepb.Drill) (r drill.Resolved) {
	_ = json.Unmarshal(d.GetResolved(), &r) // of a dry run; nothing is drilled otherwise
	return r
}

// drilledOf are the clusters that a drill of this plan is about.
func drilledOf(p drill.Plan, r drill.Resolved) []fleet.ClusterID {
	if p.Kind == drill.ControlPlane || p.Kind == drill.QuotaStore {
		return nil
	}
	return r.Clusters
}

func activeName(v *state.View) string {
	if d := v.ActiveDrill(); d != nil {
		return "drill " + strconv.FormatUint(d.GetId(), 10)
	}
	return ""
}

// healthBy is the worst that failover says of any model of a cluster.
func healthBy(v *state.View) map[string]string {
	out := map[string]string{}
	for _, h := range v.Health() {
		if failover.Severity(failover.State(h.GetState())) >= failover.Severity(failover.State(out[h.GetCluster()])) {
			out[h.GetCluster()] = h.GetState()
		}
	}
	return out
}

func places(v *state.View) []place {
	health := healthBy(v)
	var out []place
	for _, c := range v.Table().GetClusters() {
		out = append(out, place{fleet.ClusterID(c.GetId()), cmp.Or(health[c.GetId()], string(failover.Healthy))})
	}
	return out
}

// incident names a real failover anywhere; empty: there is none.
func incident(v *state.View) string {
	for _, h := range v.Health() {
		switch s := failover.State(h.GetState()); s {
		case failover.FailingOver, failover.Frozen, failover.Evacuated:
			of := h.GetCluster()
			if h.GetModel() != "" {
				of += "/" + h.GetModel()
			}
			return fmt.Sprintf("%s is %s: %s", of, s, h.GetReason())
		default:
		}
	}
	return ""
}

// wishes are what operators want of clusters beside what is planned: that one is drained, or pinned.
func wishes(v *state.View) map[fleet.ClusterID]string {
	out := map[fleet.ClusterID]string{}
	for _, r := range v.List(policy.KindCluster) {
		switch spec, ok := r.Spec.(*policy.ClusterSpec); {
		case ok && spec.Drained:
			out[fleet.ClusterID(r.Metadata.Name)] = "drained"
		case ok && spec.Pin != nil:
			out[fleet.ClusterID(r.Metadata.Name)] = fmt.Sprintf("pinned at %g %% until %s", 100*spec.Pin.Share(), spec.Pin.Until)
		}
	}
	return out
}

// order tells of what operators have ordered since the drill was first seen; empty: nothing.
func (r *Runner) order(v *state.View, at time.Time) string {
	now := wishes(v)
	for _, res := range v.List(policy.KindCluster) {
		id := fleet.ClusterID(res.Metadata.Name)
		switch is, was := now[id], r.wished[id]; {
		case is == was:
		case is != "":
			return string(id) + " was " + is
		case was == "drained":
			return string(id) + " was restored"
		default:
			return "the pin of " + string(id) + " was taken back"
		}
	}
	for _, p := range v.Orders(at) {
		if o := p.GetOrder(); o.GetKind() == string(order.StopDrills) || o.GetAtUnixMs() > v.ActiveDrill().GetStartedUnixMs() {
			return worded(o)
		}
	}
	if f := v.Frozen(); f != nil && f.GetAtUnixMs() > v.ActiveDrill().GetStartedUnixMs() {
		return "changes were frozen by " + f.GetActor()
	}
	return ""
}

// worded is an emergency order for people.
func worded(p *routerpb.Order) string {
	o := order.FromProto(p)
	return fmt.Sprintf("emergency order %s: %s by %s", o.ID, &o, o.Actor)
}

// forbids words the emergency order that no drill begins under at a time: that drills stop, or any that somebody needed
// since something is wrong. A restore alone takes nothing away. Empty: there is none.
func forbids(v *state.View, at time.Time) string {
	for _, p := range v.Orders(at) {
		if p.GetOrder().GetKind() != string(order.Restore) {
			return worded(p.GetOrder()) + ", until " + time.UnixMilli(p.GetOrder().GetExpiresUnixMs()).UTC().Format(time.RFC3339)
		}
	}
	return ""
}

// objective is the first-token objective of the most urgent policy that has one, in ms; 0: there is none.
func objective(v *state.View) float64 {
	var first *policy.TrafficPolicySpec
	for _, r := range v.List(policy.KindTrafficPolicy) {
		spec, ok := r.Spec.(*policy.TrafficPolicySpec)
		if ok && spec.TTFTObjectiveMs > 0 && (first == nil || spec.Priority > first.Priority) {
			first = spec
		}
	}
	if first == nil {
		return 0
	}
	return first.TTFTObjectiveMs
}

// world is what safety rules are judged by.
func world(l Look, d *statepb.Drill, resolved drill.Resolved) drill.World {
	w := worldNow(l, d, resolved)
	w.ErrorBudget = budget(l.View.Account(), l)
	return w
}

// worldNow is world without the error budget, for which a week of the account is read.
func worldNow(l Look, d *statepb.Drill, resolved drill.Resolved) drill.World {
	v := l.View
	w := drill.World{Order: forbids(v, l.Signals.At)}
	if r := v.Rollout(); r != nil {
		w.Rollout = strconv.FormatUint(r.GetId(), 10)
	} else if v.Pending() && v.ActiveDrill().GetId() != d.GetId() {
		w.Rollout = "of what is held back"
	}
	if active := v.ActiveDrill(); active != nil && active.GetId() != d.GetId() {
		w.Active = activeName(v)
	}
	for _, o := range v.Drills() {
		if o.GetEndedUnixMs() != 0 && o.GetNotAfterUnixMs() != 0 && state.DrillKind(o).Moves() {
			if at := state.DrillRun(o).Ended; at.After(w.LastMoved) {
				w.LastMoved = at
			}
		}
	}
	health := healthBy(v)
	for _, r := range v.List(policy.KindCluster) {
		spec, ok := r.Spec.(*policy.ClusterSpec)
		if !ok {
			continue
		}
		id := fleet.ClusterID(r.Metadata.Name)
		p := drill.Place{
			Cluster: id, Region: fleet.RegionID(spec.Region), Gateway: spec.Type == policy.TypeGateway, On: !spec.Drained,
			Health: cmp.Or(health[string(id)], string(failover.Healthy)), Drilled: slices.Contains(resolved.Clusters, id),
		}
		for _, m := range spec.Models {
			p.Capacity = max(p.Capacity, l.Signals.Ability(id, fleet.ModelID(m)).Capacity)
		}
		if p.Capacity == 0 {
			p.Capacity = spec.PriorWork
		}
		w.Clusters = append(w.Clusters, p)
	}
	return w
}

// baseOf names the table that routers have before a drill.
func baseOf(v *state.View) []byte { return plan.BaseSHA256(v.Table()) }
