package state

import (
	"encoding/json"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// DrillRun is a replicated drill as those who decide see it.
func DrillRun(d *statepb.Drill) drill.Run {
	r := drill.Run{
		State: drill.State(d.GetState()), Step: int(d.GetStep()), Rehearsed: d.GetRehearsed(), Resume: drill.State(d.GetResume()),
		Outcome: drill.Outcome(d.GetOutcome()), Cause: drill.Cause(d.GetCause()), Reason: d.GetReason(),
		Created: moment(d.GetCreatedUnixMs()), Entered: moment(d.GetStateUnixMs()), Started: moment(d.GetStartedUnixMs()),
		Ended: moment(d.GetEndedUnixMs()), Start: moment(d.GetStartUnixMs()), NotAfter: moment(d.GetNotAfterUnixMs()),
		Creator: bareName(d.GetCreator()), Until: moment(d.GetApprovedUntilUnixMs()), Broken: d.GetBroken().GetWhy(),
		PlanSHA256: d.GetPlanSha256(), Renewed: moment(d.GetRenewedUnixMs()),
	}
	for _, a := range d.GetApprovals() {
		r.Approvals = append(r.Approvals, drill.Approval{Who: bareName(a.GetActor()), At: moment(a.GetAtUnixMs())})
	}
	var b drill.Baseline
	if len(d.GetBaseline()) > 0 && json.Unmarshal(d.GetBaseline(), &b) == nil {
		r.Baseline = &b
	}
	return r
}

// moment keeps 0 the zero time.
func moment(unixMs int64) time.Time {
	if unixMs == 0 {
		return time.Time{}
	}
	return time.UnixMilli(unixMs).UTC()
}

func momentMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// DrillKind is the kind of a drill; empty: its spec does not say.
func DrillKind(d *statepb.Drill) drill.Kind {
	var spec struct{ Kind drill.Kind }
	if json.Unmarshal(d.GetSpec(), &spec) != nil {
		return ""
	}
	return spec.Kind
}

// seriesUntil is how long the schedule of a drill is approved for what the drill does; zero: it is not.
func (v *View) seriesUntil(d *statepb.Drill, at time.Time) (time.Time, *statepb.SeriesApproval) {
	if d.GetSeries() == "" {
		return time.Time{}, nil
	}
	s := v.SeriesApproval(d.GetSeries(), d.GetSpec(), at)
	return moment(s.GetUntilUnixMs()), s
}

// waits moves a drill that has not begun as it goes by itself, and says whether it did. The drill is this command's
// own. What has to be told of the fleet is left to the leader: the start.
func (v *View) waits(cmd *statepb.Command, d *statepb.Drill) bool {
	at := moment(cmd.GetAtUnixMs())
	until, series := v.seriesUntil(d, at)
	next, events := drill.Step(DrillRun(d), drill.Inputs{Plan: drill.Plan{Kind: DrillKind(d)}, Rules: policy.DrillRulesOf(v), SeriesUntil: until}, at)
	if len(events) == 0 {
		return false
	}
	if next.State == drill.Scheduled && series != nil && !until.IsZero() && next.Until.Equal(until) {
		d.Approvals = []*statepb.Approval{series.GetApproval()}
	}
	v.setRun(cmd, d, next, events)
	return true
}

// setRun writes what was decided of a drill, which is this command's own, and tells of it.
func (v *View) setRun(cmd *statepb.Command, d *statepb.Drill, r drill.Run, events []drill.Happening) {
	d.Revision = v.index
	d.State, d.Step, d.Rehearsed, d.Resume = string(r.State), uint32(max(r.Step, 0)), r.Rehearsed, string(r.Resume) //nolint:gosec // a few stages
	d.Outcome, d.Cause, d.Reason = bounded(string(r.Outcome)), bounded(string(r.Cause)), bounded(r.Reason)
	d.StateUnixMs, d.StartedUnixMs, d.EndedUnixMs = momentMs(r.Entered), momentMs(r.Started), momentMs(r.Ended)
	d.StartUnixMs, d.NotAfterUnixMs = momentMs(r.Start), momentMs(r.NotAfter)
	d.ApprovedUntilUnixMs, d.PlanSha256, d.RenewedUnixMs = momentMs(r.Until), r.PlanSHA256, momentMs(r.Renewed)
	if len(r.Approvals) > len(d.GetApprovals()) {
		d.Approvals = append(d.Approvals, &statepb.Approval{Actor: cmd.GetActor(), AtUnixMs: cmd.GetAtUnixMs()})
	}
	if r.State.Active() {
		d.Sequence++
	}
	for _, e := range events {
		v.tellDrill(d, &statepb.DrillEvent{
			AtUnixMs: e.AtUnixMs, State: string(e.State), Step: uint32(max(e.Step, 0)), Kind: e.Kind, Text: e.Text, Actor: e.Actor, //nolint:gosec // a few stages
		})
	}
	if r.State == drill.Done {
		v.close(d)
	}
}
