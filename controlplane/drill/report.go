package drill

import (
	"encoding/hex"
	"encoding/json"
	"slices"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// conclude adds the report to the end of a drill.
func (r *Runner) conclude(v *state.View, d *statepb.Drill, end drill.Run, events []drill.Happening, samples []drill.Sample, s *statepb.SteerDrill) {
	report := drill.NewReport(reportInput(v, d, end, events, samples))
	doc, sum := drill.Encode(report)
	packed := drill.Pack(doc)
	if len(doc) == 0 || len(packed) > state.MaxReport {
		r.logger.Error("the report of a drill does not fit and is left out", "drill", d.GetId(), "bytes", len(packed))
		return
	}
	s.Report, s.ReportSha256 = packed, sum[:]
}

func reportInput(v *state.View, d *statepb.Drill, end drill.Run, events []drill.Happening, samples []drill.Sample) drill.ReportInput {
	in := drill.ReportInput{
		ClusterID: v.ClusterID(), PreviousSHA256: hex.EncodeToString(v.LastReport()), Samples: samples, Facts: factsOf(d, end),
	}
	for _, e := range d.GetEvents() {
		in.Events = append(in.Events, drill.Happening{
			AtUnixMs: e.GetAtUnixMs(), State: drill.State(e.GetState()), Step: int(e.GetStep()), Kind: e.GetKind(), Text: e.GetText(), Actor: e.GetActor(),
		})
	}
	in.Events = append(in.Events, events...)
	var f drill.Forecast
	if len(d.GetForecast()) > 0 && json.Unmarshal(d.GetForecast(), &f) == nil {
		in.Forecast = &f
	}
	for _, o := range slices.Backward(v.Drills()) {
		if o.GetId() == d.GetId() || o.GetPlan() == "" || o.GetPlan() != d.GetPlan() || len(o.GetReport()) == 0 || len(in.Earlier) >= drill.MaxEarlier {
			continue
		}
		doc, err := drill.Unpack(o.GetReport())
		if err != nil {
			continue
		}
		if earlier, err := drill.Decode(doc); err == nil {
			in.Earlier = append(in.Earlier, earlier.Head())
		}
	}
	return in
}

func factsOf(d *statepb.Drill, end drill.Run) drill.Facts {
	f := drill.Facts{
		ID: d.GetId(), Plan: d.GetPlan(), PlanRevision: d.GetPlanRevision(), PlanSHA256: hex.EncodeToString(d.GetPlanSha256()),
		Kind: state.DrillKind(d), Spec: d.GetSpec(), Resolved: resolvedOf(d), Creator: d.GetCreator().GetName(),
		Outcome: end.Outcome, Cause: string(end.Cause), Reason: end.Reason,
		CreatedUnixMs: d.GetCreatedUnixMs(), StartedUnixMs: d.GetStartedUnixMs(), EndedUnixMs: end.Ended.UnixMilli(),
	}
	for _, a := range d.GetApprovals() {
		f.Approvals = append(f.Approvals, drill.ApprovalReport{By: a.GetActor().GetName(), AtUnixMs: a.GetAtUnixMs(), Reason: a.GetActor().GetReason()})
	}
	if b := d.GetBroken(); b != nil {
		f.Broken = &drill.GlassReport{By: b.GetActor().GetName(), AtUnixMs: b.GetAtUnixMs(), Reason: b.GetWhy()}
	}
	if p, ok := planOf(d); ok {
		f.TimeScale = p.Scale
	}
	return f
}
