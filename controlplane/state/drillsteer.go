package state

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// underWay finds a drill that the leader moves on; a refusal if it has changed since the leader looked.
func (v *View) underWay(id, revision uint64) (int, *statepb.Outcome) {
	at, found := v.drillAt(id)
	switch {
	case !found:
		return 0, refuse(CodeNotFound, "id", fmt.Sprintf("there is no drill %d, or it is not remembered any more", id))
	case v.drills.all[at].GetState() == string(drill.Done):
		return 0, refuse(CodePrecondition, "state", fmt.Sprintf("drill %d is over", id))
	case revision != v.drills.all[at].GetRevision():
		return 0, refuse(CodePrecondition, "if_revision", fmt.Sprintf("drill %d was changed at %d", id, v.drills.all[at].GetRevision()))
	}
	return at, nil
}

// steerDrill moves a drill on by itself. Before it begins, what it does by itself follows from the state alone, and
// is judged again.
func (v *View) steerDrill(cmd *statepb.Command, s *statepb.SteerDrill) *statepb.Outcome {
	at, out := v.underWay(s.GetId(), s.GetIfRevision())
	if out != nil {
		return out
	}
	d := proto.CloneOf(v.drills.all[at])
	from, to := drill.State(d.GetState()), drill.State(s.GetState())
	if from != to && !drill.Legal(from, to) {
		return refuse(CodePrecondition, "state", fmt.Sprintf("drill %d is %s and can't become %.40q", d.GetId(), from, to))
	}
	if out := v.begins(cmd, d, to); out != nil {
		return out
	}
	if !from.Active() && to != drill.Done && to != drill.Precheck {
		if !v.waits(cmd, d) || d.GetState() != string(to) {
			return refuse(CodePrecondition, "state", fmt.Sprintf("drill %d is %s: others decide on it", d.GetId(), from))
		}
		v.setDrill(at, d)
		v.recordDrill(cmd, d, "update", d.GetReason())
		return &statepb.Outcome{}
	}
	if out := takeDocuments(d, s); out != nil {
		return out
	}
	r := DrillRun(d)
	r.Outcome, r.Cause, r.Reason = drill.Outcome(s.GetOutcome()), drill.Cause(s.GetCause()), s.GetReason()
	r.Rehearsed, r.Resume = s.GetRehearsed(), drill.State(s.GetResume())
	if moved := from != to || r.Step != int(s.GetStep()); moved {
		r.State, r.Step, r.Entered = to, int(s.GetStep()), moment(cmd.GetAtUnixMs())
	}
	switch now := moment(cmd.GetAtUnixMs()); {
	case to == drill.Precheck && from != to:
		r.Started = now
	case to == drill.Done:
		r.Ended = now
	case to.Leased():
		r.Renewed = now
	}
	v.setRun(cmd, d, r, nil)
	v.tellDrill(d, s.GetEvents()...)
	if told := slices.ContainsFunc(s.GetEvents(), func(e *statepb.DrillEvent) bool { return e.GetKind() == drill.OfTransition }); from != to && !told {
		v.tellDrill(d, &statepb.DrillEvent{AtUnixMs: cmd.GetAtUnixMs(), Step: d.GetStep(), Kind: drill.OfTransition, Text: s.GetReason()})
	}
	v.setDrill(at, d)
	if from != to {
		v.recordDrill(cmd, d, "update", s.GetReason())
	}
	return &statepb.Outcome{}
}

// begins says why a drill may not begin now; nil: it may, or it is not about to.
func (v *View) begins(cmd *statepb.Command, d *statepb.Drill, to drill.State) *statepb.Outcome {
	if to != drill.Precheck || d.GetState() == string(drill.Precheck) {
		return nil
	}
	if active := v.ActiveDrill(); active != nil {
		return refuse(CodeExists, "id", fmt.Sprintf("drill %d is under way", active.GetId()))
	}
	if start := d.GetStartUnixMs(); start == 0 || start > cmd.GetAtUnixMs() || start >= d.GetApprovedUntilUnixMs() {
		return refuse(CodePrecondition, "approvals", fmt.Sprintf("drill %d is not to begin now, or its approval has expired", d.GetId()))
	}
	return nil
}

// takeDocuments adds what comes with a step.
func takeDocuments(d *statepb.Drill, s *statepb.SteerDrill) *statepb.Outcome {
	done := s.GetState() == string(drill.Done)
	switch {
	case len(s.GetBaseline()) > MaxBaseline:
		return refuse(CodeInvalid, "baseline", fmt.Sprintf("is larger than %d bytes", MaxBaseline))
	case len(s.GetBaseSha256()) != 0 && len(s.GetBaseSha256()) != sha256.Size:
		return refuse(CodeInvalid, "base_sha256", fmt.Sprintf("is not %d bytes long", sha256.Size))
	case len(s.GetReport()) > MaxReport:
		return refuse(CodeInvalid, "report", fmt.Sprintf("is larger than %d bytes", MaxReport))
	case done && s.GetOutcome() == "":
		return refuse(CodeInvalid, "outcome", "is missing from a drill that is over")
	case !done && (len(s.GetReport()) > 0 || len(s.GetReportSha256()) > 0):
		return refuse(CodeInvalid, "report", "is of a drill that is not over")
	case len(s.GetReportSha256()) != 0 && len(s.GetReportSha256()) != sha256.Size:
		return refuse(CodeInvalid, "report_sha256", fmt.Sprintf("is not %d bytes long", sha256.Size))
	}
	if len(s.GetBaseSha256()) > 0 {
		d.BaseSha256 = s.GetBaseSha256()
	}
	if len(s.GetBaseline()) > 0 {
		d.Baseline = s.GetBaseline()
	}
	if s.GetNotAfterUnixMs() != 0 {
		d.NotAfterUnixMs = s.GetNotAfterUnixMs()
	}
	if len(s.GetReport()) > 0 {
		d.Report = s.GetReport()
	}
	d.ReportSha256 = s.GetReportSha256()
	return nil
}

// renewDrill extends the leases of the drill under way, and takes down what was measured meanwhile. That is no
// entry of the audit trail, and no change of the drill for those who decide on it.
func (v *View) renewDrill(cmd *statepb.Command, r *statepb.RenewDrill) *statepb.Outcome {
	at, out := v.underWay(r.GetId(), r.GetIfRevision())
	if out != nil {
		return out
	}
	now := v.drills.all[at]
	if state := drill.State(now.GetState()); !state.Active() {
		return refuse(CodePrecondition, "state", fmt.Sprintf("drill %d is %s and not under way", r.GetId(), state))
	}
	d := proto.CloneOf(now)
	if len(d.GetSamples())+len(r.GetSamples()) <= MaxSamples {
		d.Samples = append(d.GetSamples(), r.GetSamples()...)
	} else {
		d.Dropped = true
	}
	d.Sequence++
	d.RenewedUnixMs = cmd.GetAtUnixMs()
	v.tellDrill(d, r.GetEvents()...)
	all := slices.Clone(v.drills.all)
	all[at] = d
	v.drills.all = all
	return &statepb.Outcome{}
}
