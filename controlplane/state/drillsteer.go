package state

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// follows says which states may come after which.
var follows = map[drill.State][]drill.State{
	drill.Draft:       {drill.Validated, drill.Done},
	drill.Validated:   {drill.Validated, drill.Pending, drill.Scheduled, drill.Precheck, drill.Done},
	drill.Pending:     {drill.Validated, drill.Scheduled, drill.Precheck, drill.Done},
	drill.Scheduled:   {drill.Validated, drill.Precheck, drill.Done},
	drill.Precheck:    {drill.Measuring, drill.RollingBack, drill.Done},
	drill.Measuring:   {drill.Shifting, drill.RollingBack},
	drill.Shifting:    {drill.Dwell, drill.Hold, drill.Paused, drill.RollingBack},
	drill.Dwell:       {drill.Shifting, drill.Hold, drill.Paused, drill.RollingBack},
	drill.Hold:        {drill.Failback, drill.Paused, drill.RollingBack},
	drill.Failback:    {drill.Verify, drill.Paused, drill.RollingBack},
	drill.Paused:      {drill.Shifting, drill.Dwell, drill.Hold, drill.Failback, drill.RollingBack},
	drill.RollingBack: {drill.Verify},
	drill.Verify:      {drill.Done},
}

// mayFollow says whether a drill may go from one state to another.
func mayFollow(from, to drill.State) bool { return slices.Contains(follows[from], to) }

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

// steerDrill moves a drill on by itself.
func (v *View) steerDrill(cmd *statepb.Command, s *statepb.SteerDrill) *statepb.Outcome {
	at, out := v.underWay(s.GetId(), s.GetIfRevision())
	if out != nil {
		return out
	}
	d := proto.CloneOf(v.drills.all[at])
	from, to := drill.State(d.GetState()), drill.State(s.GetState())
	switch {
	case from != to && !mayFollow(from, to):
		return refuse(CodePrecondition, "state", fmt.Sprintf("drill %d is %s and can't become %.40q", d.GetId(), from, to))
	case from != to && to.Active() && !from.Active():
		if active := v.ActiveDrill(); active != nil {
			return refuse(CodeExists, "id", fmt.Sprintf("drill %d is under way", active.GetId()))
		}
		if to == drill.Precheck && (from != drill.Scheduled || cmd.GetAtUnixMs() >= d.GetApprovedUntilUnixMs()) {
			return refuse(CodePrecondition, "approvals", fmt.Sprintf("drill %d is %s, or its approval has expired", d.GetId(), from))
		}
	case !from.Active() && to != drill.Done && to != drill.Pending:
		return refuse(CodePrecondition, "state", fmt.Sprintf("drill %d is %s: others decide on it", d.GetId(), from))
	}
	if out := v.takeDocuments(d, s); out != nil {
		return out
	}
	d.Step, d.Rehearsed, d.Resume = s.GetStep(), s.GetRehearsed(), bounded(s.GetResume())
	d.Sequence++
	v.tellDrill(d, s.GetEvents()...)
	switch {
	case to == drill.Done:
		v.endDrill(cmd, d, drill.Outcome(s.GetOutcome()), s.GetCause(), s.GetReason())
	case from == to:
		d.Revision, d.Reason = v.index, bounded(s.GetReason())
	default:
		d.Outcome, d.Cause = bounded(s.GetOutcome()), bounded(s.GetCause())
		v.enterDrill(cmd, d, to, s.GetReason())
	}
	v.setDrill(at, d)
	if from != to {
		v.recordDrill(cmd, d, "update", s.GetReason())
	}
	return &statepb.Outcome{}
}

// takeDocuments adds what comes with a step.
func (v *View) takeDocuments(d *statepb.Drill, s *statepb.SteerDrill) *statepb.Outcome {
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
	state := drill.State(now.GetState())
	switch {
	case !state.Active():
		return refuse(CodePrecondition, "state", fmt.Sprintf("drill %d is %s and not under way", r.GetId(), state))
	case len(r.GetReport()) > 0 && state != drill.Verify:
		return refuse(CodePrecondition, "report", fmt.Sprintf("drill %d is %s: there is no report yet", r.GetId(), state))
	case len(r.GetReport()) > 0 && r.GetReportOffset() != 0 && r.GetReportOffset() != uint64(len(now.GetReport())):
		return refuse(CodePrecondition, "report_offset", fmt.Sprintf("%d bytes of the report are there", len(now.GetReport())))
	case r.GetReportOffset()+uint64(len(r.GetReport())) > MaxReport:
		return refuse(CodeInvalid, "report", fmt.Sprintf("is larger than %d bytes", MaxReport))
	}
	d := proto.CloneOf(now)
	if len(d.GetSamples())+len(r.GetSamples()) <= MaxSamples {
		d.Samples = append(d.GetSamples(), r.GetSamples()...)
	} else {
		d.Dropped = true
	}
	if len(r.GetReport()) > 0 {
		d.Report = append(d.GetReport()[:r.GetReportOffset()], r.GetReport()...)
	}
	d.Sequence++
	d.RenewedUnixMs = cmd.GetAtUnixMs()
	v.tellDrill(d, r.GetEvents()...)
	all := slices.Clone(v.drills.all)
	all[at] = d
	v.drills.all = all
	return &statepb.Outcome{}
}
