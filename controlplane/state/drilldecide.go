package state

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// The acts of a DecideDrill.
const (
	DrillValidate = "validate"
	DrillApprove  = "approve"
	DrillStart    = "start"
	DrillPause    = "pause"
	DrillResume   = "resume"
	DrillAbort    = "abort"
)

// drillNeeds is how many others have to approve a drill, and for how long their word holds.
func (v *View) drillNeeds() (people uint32, holds time.Duration) {
	return 1, 8 * time.Hour
}

// decideDrill is what somebody says to a drill.
func (v *View) decideDrill(cmd *statepb.Command, c *statepb.DecideDrill) *statepb.Outcome {
	at, found := v.drillAt(c.GetId())
	if !found {
		return refuse(CodeNotFound, "id", fmt.Sprintf("there is no drill %d, or it is not remembered any more", c.GetId()))
	}
	d := proto.CloneOf(v.drills.all[at])
	var out *statepb.Outcome
	switch c.GetAct() {
	case DrillValidate:
		out = v.validateDrill(cmd, d, c)
	case DrillApprove:
		out = v.approveDrill(cmd, d, c)
	case DrillStart:
		out = v.startDrill(cmd, d, c)
	case DrillPause:
		out = v.pauseDrill(cmd, d, c)
	case DrillResume:
		out = v.resumeDrill(cmd, d, c)
	case DrillAbort:
		out = v.abortDrill(cmd, d, c)
	default:
		return refuse(CodeInvalid, "act", fmt.Sprintf("is %.40q, none of %s, %s, %s, %s, %s and %s", c.GetAct(),
			DrillValidate, DrillApprove, DrillStart, DrillPause, DrillResume, DrillAbort))
	}
	if out.GetCode() == "" && d.GetRevision() == v.index {
		v.setDrill(at, d)
	}
	return out
}

// move takes a drill of this command into a state by what somebody says; a refusal if it can't go there.
func (v *View) move(cmd *statepb.Command, d *statepb.Drill, to drill.State, reason string) *statepb.Outcome {
	if from := drill.State(d.GetState()); !mayFollow(from, to) {
		return refuse(CodePrecondition, "state", fmt.Sprintf("drill %d is %s and can't become %s", d.GetId(), from, to))
	}
	v.enterDrill(cmd, d, to, reason)
	if drill.State(d.GetState()).Active() {
		d.Sequence++
	}
	return nil
}

// validateDrill takes down what the dry run found. Another one makes approvals void: they were of the one before.
func (v *View) validateDrill(cmd *statepb.Command, d *statepb.Drill, c *statepb.DecideDrill) *statepb.Outcome {
	switch {
	case len(c.GetResolved()) > MaxResolved || !isObject(c.GetResolved()):
		return refuse(CodeInvalid, "resolved", fmt.Sprintf("is no JSON object, or larger than %d bytes", MaxResolved))
	case len(c.GetForecast()) > MaxForecast || !isObject(c.GetForecast()):
		return refuse(CodeInvalid, "forecast", fmt.Sprintf("is no JSON object, or larger than %d bytes", MaxForecast))
	}
	if from := drill.State(d.GetState()); from == drill.Done || from.Active() {
		return refuse(CodePrecondition, "state", fmt.Sprintf("drill %d is %s: what it does is settled", d.GetId(), from))
	}
	d.Resolved, d.Forecast = c.GetResolved(), c.GetForecast()
	d.PlanSha256, d.Approvals, d.ApprovedUntilUnixMs = PlanSum(d.GetSpec(), d.GetResolved(), d.GetForecast()), nil, 0
	d.Needed, _ = v.drillNeeds()
	switch outcome := drill.Outcome(c.GetRefused()); outcome {
	case "":
	case drill.CapacityFailed, drill.Blocked:
		v.endDrill(cmd, d, outcome, c.GetCause(), c.GetWhy())
		v.recordDrill(cmd, d, "update", "dry run: "+c.GetCause())
		return &statepb.Outcome{}
	default:
		return refuse(CodeInvalid, "refused", fmt.Sprintf("is %.40q, none of %s and %s", c.GetRefused(), drill.CapacityFailed, drill.Blocked))
	}
	if out := v.move(cmd, d, drill.Validated, c.GetWhy()); out != nil {
		return out
	}
	if out := v.await(cmd, d); out != nil {
		return out
	}
	v.recordDrill(cmd, d, "update", "dry run")
	return &statepb.Outcome{}
}

// await sends a drill that is validated to those who have to approve it, if there are any.
func (v *View) await(cmd *statepb.Command, d *statepb.Drill) *statepb.Outcome {
	_, holds := v.drillNeeds()
	until := cmd.GetAtUnixMs() + holds.Milliseconds()
	series := v.SeriesApproval(d.GetSeries(), d.GetSpec(), time.UnixMilli(cmd.GetAtUnixMs()))
	switch {
	case kindOf(d) == drill.PlanOnly:
		d.Needed = 0 // it touches nothing
		return nil
	case d.GetSeries() != "" && series != nil:
		d.Approvals = []*statepb.Approval{series.GetApproval()}
		d.ApprovedUntilUnixMs = min(until, series.GetUntilUnixMs())
		return v.move(cmd, d, drill.Scheduled, "the series is approved by "+series.GetApproval().GetActor().GetName())
	case d.GetNeeded() == 0:
		d.ApprovedUntilUnixMs = until
		return v.move(cmd, d, drill.Scheduled, "no rule asks for approval")
	}
	return v.move(cmd, d, drill.Pending, fmt.Sprintf("%d have to approve it", d.GetNeeded()))
}

// kindOf is the kind of a drill; empty: its spec does not say.
func kindOf(d *statepb.Drill) drill.Kind {
	var spec struct{ Kind drill.Kind }
	if json.Unmarshal(d.GetSpec(), &spec) != nil {
		return ""
	}
	return spec.Kind
}

// PlanSum is the hash of what is approved of a drill: what it does, to whom, and what the dry run found.
func PlanSum(spec, resolved, forecast []byte) []byte {
	h := sha256.New()
	for _, part := range [][]byte{spec, resolved, forecast} {
		text(h, string(part))
	}
	return h.Sum(nil)
}

// approveDrill counts one more person; with the last that is needed the drill may begin.
func (v *View) approveDrill(cmd *statepb.Command, d *statepb.Drill, c *statepb.DecideDrill) *statepb.Outcome {
	needed, holds := v.drillNeeds()
	switch {
	case drill.State(d.GetState()) != drill.Pending:
		return refuse(CodePrecondition, "state", fmt.Sprintf("drill %d is %s and does not wait for approval", d.GetId(), d.GetState()))
	case !bytes.Equal(c.GetPlanSha256(), d.GetPlanSha256()):
		return refuse(CodePrecondition, "plan_sha256", fmt.Sprintf("is not of drill %d as it is now: look at it again", d.GetId()))
	case samePerson(cmd.GetActor(), d.GetCreator()):
		return refuse(CodeOwnProposal, "id", fmt.Sprintf("drill %d is %s's own: somebody else has to approve it", d.GetId(), cmd.GetActor().GetName()))
	case c.GetSeries() && d.GetSeries() == "":
		return refuse(CodeInvalid, "series", fmt.Sprintf("drill %d belongs to no schedule", d.GetId()))
	case slices.ContainsFunc(d.GetApprovals(), func(a *statepb.Approval) bool { return samePerson(a.GetActor(), cmd.GetActor()) }):
		return &statepb.Outcome{}
	}
	approval := &statepb.Approval{Actor: cmd.GetActor(), AtUnixMs: cmd.GetAtUnixMs()}
	d.Approvals = append(d.Approvals, approval)
	d.Needed = max(d.GetNeeded(), needed)
	d.Revision = v.index
	word := fmt.Sprintf("%d of %d", len(d.GetApprovals()), d.GetNeeded())
	if len(d.GetApprovals()) < int(d.GetNeeded()) {
		v.tellDrill(d, &statepb.DrillEvent{AtUnixMs: cmd.GetAtUnixMs(), Kind: "operator", Text: "approved, " + word, Actor: cmd.GetActor().GetName()})
		v.recordDrill(cmd, d, ActionApprove, word)
		return &statepb.Outcome{}
	}
	d.ApprovedUntilUnixMs = cmd.GetAtUnixMs() + holds.Milliseconds()
	if c.GetSeries() {
		if out := v.approveSeries(d, approval); out != nil {
			return out
		}
		word += ", and the series " + d.GetSeries()
	}
	if out := v.move(cmd, d, drill.Scheduled, "approved, "+word); out != nil {
		return out
	}
	v.recordDrill(cmd, d, ActionApprove, word)
	return &statepb.Outcome{}
}

// approveSeries lets later drills of a schedule begin, as long as they do the same.
func (v *View) approveSeries(d *statepb.Drill, by *statepb.Approval) *statepb.Outcome {
	s := &statepb.SeriesApproval{
		Series: d.GetSeries(), SpecSha256: hashOf(d.GetSpec()), Approval: by, UntilUnixMs: by.GetAtUnixMs() + SeriesFor.Milliseconds(),
	}
	at, found := slices.BinarySearchFunc(v.drills.series, s, func(a, b *statepb.SeriesApproval) int { return cmp.Compare(a.GetSeries(), b.GetSeries()) })
	all := slices.Clone(v.drills.series)
	if found {
		all[at] = s
		v.drills.series = all
		return nil
	}
	all = slices.DeleteFunc(slices.Insert(all, at, s), func(o *statepb.SeriesApproval) bool { return o.GetUntilUnixMs() <= by.GetAtUnixMs() })
	if len(all) > MaxSeries {
		return refuse(CodeTooMany, "series", fmt.Sprintf("%d schedules are approved already, as many as there may be", MaxSeries))
	}
	v.drills.series = all
	return nil
}

// startDrill begins one that is approved, or of which somebody says why it can't wait for that.
func (v *View) startDrill(cmd *statepb.Command, d *statepb.Drill, c *statepb.DecideDrill) *statepb.Outcome {
	state, at := drill.State(d.GetState()), cmd.GetAtUnixMs()
	approved := state == drill.Scheduled && at < d.GetApprovedUntilUnixMs()
	if active := v.ActiveDrill(); active != nil {
		return refuse(CodeExists, "id", fmt.Sprintf("drill %d is under way", active.GetId()))
	}
	switch {
	case len(d.GetPlanSha256()) == 0:
		return refuse(CodePrecondition, "state", fmt.Sprintf("drill %d is %s: validate it first", d.GetId(), state))
	case !approved && c.GetBreakGlass() == "" && state == drill.Scheduled:
		return refuse(CodePrecondition, "approvals", fmt.Sprintf("the approval of drill %d has expired: validate it again and have it approved", d.GetId()))
	case !approved && c.GetBreakGlass() == "":
		return refuse(CodePrecondition, "approvals", fmt.Sprintf("drill %d is %s: %d of %d have approved it", d.GetId(), state, len(d.GetApprovals()), d.GetNeeded()))
	}
	if !approved {
		if out := v.breakGlass(cmd, policy.Kind(KindDrill), strconv.FormatUint(d.GetId(), 10), c.GetBreakGlass()); out != nil {
			return out
		}
		d.Broken = v.broken[len(v.broken)-1]
	}
	if out := v.move(cmd, d, drill.Precheck, c.GetWhy()); out != nil {
		return out
	}
	v.recordDrill(cmd, d, "start", c.GetWhy())
	return &statepb.Outcome{}
}

func (v *View) pauseDrill(cmd *statepb.Command, d *statepb.Drill, c *statepb.DecideDrill) *statepb.Outcome {
	from := d.GetState()
	if drill.State(from) == drill.Paused {
		return &statepb.Outcome{}
	}
	if out := v.move(cmd, d, drill.Paused, cmp.Or(c.GetWhy(), "an operator paused it")); out != nil {
		return out
	}
	d.Resume = from
	v.recordDrill(cmd, d, "update", c.GetWhy())
	return &statepb.Outcome{}
}

func (v *View) resumeDrill(cmd *statepb.Command, d *statepb.Drill, c *statepb.DecideDrill) *statepb.Outcome {
	if drill.State(d.GetState()) != drill.Paused {
		return refuse(CodePrecondition, "state", fmt.Sprintf("drill %d is %s and not paused", d.GetId(), d.GetState()))
	}
	if out := v.move(cmd, d, drill.State(d.GetResume()), cmp.Or(c.GetWhy(), "an operator let it go on")); out != nil {
		return out
	}
	d.Resume = ""
	v.recordDrill(cmd, d, "update", c.GetWhy())
	return &statepb.Outcome{}
}

// abortDrill calls one off: at once while it has moved nothing, or else by taking back what it has.
func (v *View) abortDrill(cmd *statepb.Command, d *statepb.Drill, c *statepb.DecideDrill) *statepb.Outcome {
	state, why := drill.State(d.GetState()), cmp.Or(c.GetWhy(), "an operator called it off")
	switch {
	case state == drill.Done:
		return refuse(CodePrecondition, "state", fmt.Sprintf("drill %d is over: %s", d.GetId(), d.GetOutcome()))
	case state == drill.RollingBack || state == drill.Verify:
		return &statepb.Outcome{} // it is on its way home already
	case !state.Active():
		v.endDrill(cmd, d, drill.Interrupted, CauseOperator, why)
	default:
		if out := v.move(cmd, d, drill.RollingBack, why); out != nil {
			return out
		}
		d.Outcome, d.Cause, d.Resume = string(drill.Interrupted), CauseOperator, ""
	}
	v.recordDrill(cmd, d, "update", "abort: "+why)
	return &statepb.Outcome{}
}

// CauseOperator is the cause of a drill that somebody called off.
const CauseOperator = "operator"
