package state

import (
	"cmp"
	"encoding/json"
	"errors"
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

// decideDrill is what somebody says to a drill.
func (v *View) decideDrill(cmd *statepb.Command, c *statepb.DecideDrill) *statepb.Outcome {
	at, found := v.drillAt(c.GetId())
	if !found {
		return refuse(CodeNotFound, "id", fmt.Sprintf("there is no drill %d, or it is not remembered any more", c.GetId()))
	}
	d := proto.CloneOf(v.drills.all[at])
	decision := drill.Decision{
		Act: drill.Act(c.GetAct()), Who: bareName(cmd.GetActor()), Why: bounded(c.GetWhy()), PlanSHA256: c.GetPlanSha256(),
		Refused: drill.Outcome(c.GetRefused()), Cause: drill.Cause(bounded(c.GetCause())), BreakGlass: bounded(c.GetBreakGlass()),
	}
	var out *statepb.Outcome
	switch c.GetAct() {
	case DrillValidate:
		out = takeFindings(d, c)
		decision.PlanSHA256 = planSum(d)
	case DrillStart:
		if active := v.ActiveDrill(); active != nil {
			out = refuse(CodeExists, "id", fmt.Sprintf("drill %d is under way", active.GetId()))
		} else if o := v.Ordered(moment(cmd.GetAtUnixMs())).StopDrills(); o != nil {
			out = refuse(CodePrecondition, "id", fmt.Sprintf("emergency order %s of %s stops drills until %s: end it first, by `anabranch emergency cancel %s`",
				o.ID, o.Actor, o.Expires.UTC().Format(time.RFC3339), o.ID))
		}
	case DrillApprove:
		if c.GetSeries() && d.GetSeries() == "" {
			out = refuse(CodeInvalid, "series", fmt.Sprintf("drill %d belongs to no schedule", d.GetId()))
		}
	}
	if out != nil {
		return out
	}
	return v.decided(cmd, at, d, decision, c.GetSeries())
}

// decided carries out what somebody has said.
func (v *View) decided(cmd *statepb.Command, at int, d *statepb.Drill, decision drill.Decision, series bool) *statepb.Outcome {
	now := moment(cmd.GetAtUnixMs())
	rules := policy.DrillRulesOf(v)
	run, events, err := drill.Decide(DrillRun(d), DrillKind(d), rules, decision, now)
	if err != nil {
		return refusalOf(d, err)
	}
	d.Needed = uint32(max(rules.ApprovalsFor(DrillKind(d)), 0)) //nolint:gosec // a few people
	if run.Broken != "" && d.GetBroken() == nil {
		if out := v.breakGlass(cmd, policy.Kind(KindDrill), strconv.FormatUint(d.GetId(), 10), run.Broken); out != nil {
			return out
		}
		d.Broken = v.broken[len(v.broken)-1]
	}
	v.setRun(cmd, d, run, events)
	if run.State == drill.Scheduled && decision.Act == drill.ActApprove && series {
		if out := v.approveSeries(d, d.GetApprovals()[len(d.GetApprovals())-1]); out != nil {
			return out
		}
	}
	if run.State == drill.Validated && DrillKind(d) != drill.PlanOnly {
		v.waits(cmd, d)
	}
	v.setDrill(at, d)
	action := "update"
	if decision.Act == drill.ActApprove {
		action = ActionApprove
	}
	v.recordDrill(cmd, d, action, string(decision.Act))
	return &statepb.Outcome{}
}

// refusalOf tells why a decision means nothing.
func refusalOf(d *statepb.Drill, err error) *statepb.Outcome {
	text := fmt.Sprintf("drill %d: %s", d.GetId(), err)
	switch {
	case errors.Is(err, drill.ErrPlan):
		return refuse(CodePrecondition, "plan_sha256", text)
	case errors.Is(err, drill.ErrPerson):
		return refuse(CodeOwnProposal, "id", text)
	case errors.Is(err, drill.ErrState):
		return refuse(CodePrecondition, "state", text)
	}
	return refuse(CodeInvalid, "act", text)
}

// takeFindings adds what a dry run found to a drill, which is this command's own.
func takeFindings(d *statepb.Drill, c *statepb.DecideDrill) *statepb.Outcome {
	switch {
	case len(c.GetResolved()) > MaxResolved || !isObject(c.GetResolved()):
		return refuse(CodeInvalid, "resolved", fmt.Sprintf("is no JSON object, or larger than %d bytes", MaxResolved))
	case len(c.GetForecast()) > MaxForecast || !isObject(c.GetForecast()):
		return refuse(CodeInvalid, "forecast", fmt.Sprintf("is no JSON object, or larger than %d bytes", MaxForecast))
	}
	d.Resolved, d.Forecast = c.GetResolved(), c.GetForecast()
	return nil
}

// planSum is the hash of what is approved of a drill.
func planSum(d *statepb.Drill) []byte {
	var (
		resolved drill.Resolved
		forecast drill.Forecast
	)
	if json.Unmarshal(d.GetResolved(), &resolved) != nil || json.Unmarshal(d.GetForecast(), &forecast) != nil {
		return hashOf(slices.Concat(d.GetSpec(), d.GetResolved(), d.GetForecast()))
	}
	return drill.Hash(d.GetSpec(), resolved, forecast)
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
