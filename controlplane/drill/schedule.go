package drill

import (
	"context"
	"encoding/json"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// schedule makes the drills that are due within the time for which approvals hold, so that there is time to approve
// them. One that begins while another is under way ends as blocked; one that nobody approves expires.
func (r *Runner) schedule(ctx context.Context, l Look) {
	now := l.Signals.At
	if now.Sub(r.scheduled) < scheduleEvery {
		return
	}
	r.scheduled = now
	ahead := policy.DrillRulesOf(l.View).ApprovalFor()
	for _, res := range l.View.List(policy.KindDrillPlan) {
		c := due(l.View, res, now, ahead)
		if c == nil {
			continue
		}
		out := r.o.Propose(ctx, &statepb.Command{
			Actor: &statepb.Actor{Name: Actor, Role: "admin", Reason: "its schedule"}, Op: &statepb.Command_CreateDrill{CreateDrill: c},
		})
		if out != nil {
			r.logger.Info("drill made by its schedule", "plan", res.Metadata.Name, "start", time.UnixMilli(c.GetStartUnixMs()).UTC())
		}
		return // at most one each time
	}
}

// due is the next drill of a plan's schedule; nil: it is there already, or not due.
func due(v *state.View, res *policy.Resource, now time.Time, ahead time.Duration) *statepb.CreateDrill {
	spec, ok := res.Spec.(*policy.DrillPlanSpec)
	if !ok || spec.Schedule == nil {
		return nil
	}
	calendar, err := spec.Calendar()
	if err != nil || calendar == nil {
		return nil
	}
	next, ok := calendar.Next(now)
	if !ok || next.Sub(now) > ahead {
		return nil
	}
	for _, d := range v.Drills() {
		if d.GetSeries() == res.Metadata.Name && d.GetStartUnixMs() == next.UnixMilli() {
			return nil
		}
	}
	doc, err := json.Marshal(spec)
	if err != nil {
		return nil
	}
	return &statepb.CreateDrill{
		Plan: res.Metadata.Name, PlanRevision: res.Metadata.Revision, Spec: doc, StartUnixMs: next.UnixMilli(), Series: res.Metadata.Name,
	}
}
