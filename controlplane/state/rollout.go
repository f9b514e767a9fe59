package state

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/rollout"
	"anabranch/controlplane/state/statepb"
)

// MaxRollouts is how many rollouts are remembered, the one under way included.
const MaxRollouts = 50

// The acts of a SteerChange.
const (
	ActAdvance  = "advance"  // to the next stage
	ActSettle   = "settle"   // to all routers
	ActReturn   = "return"   // to the table before, for all
	ActPause    = "pause"    // it may go back, but not on
	ActResume   = "resume"   // it may go on
	ActRetry    = "retry"    // what was returned may be tried again
	ActFreeze   = "freeze"   // no change of configuration reaches routers
	ActUnfreeze = "unfreeze" // they do again
)

// CodeFrozen says that changes are frozen.
const CodeFrozen = "frozen"

// rolling is how changes of configuration are on their way to routers. The zero rolling: none is, and
// none is held back.
type rolling struct {
	settled, trial *Config                 // see [View.Settled] and [View.Trial]
	stable, fresh  *routerpb.Table         // outside and within the rollout under way; nil: there is none
	reasons        []*statepb.WeightReason // behind fresh
	rollouts       []*statepb.Rollout      // oldest first
	freeze         *statepb.Freeze         // nil: changes are not frozen
}

// Rollouts gives those that are remembered, oldest first; the last may be under way.
func (v *View) Rollouts() []*statepb.Rollout { return v.roll.rollouts }

// Rollout is the one under way; nil: none is.
func (v *View) Rollout() *statepb.Rollout {
	if n := len(v.roll.rollouts); n > 0 && rollout.Stage(v.roll.rollouts[n-1].GetStage()).Active() {
		return v.roll.rollouts[n-1]
	}
	return nil
}

// Frozen says who keeps changes away from routers and why; nil: nobody does.
func (v *View) Frozen() *statepb.Freeze { return v.roll.freeze }

// ReturnedNow says that what is held back has been tried as it is and was taken back, and that nobody
// has asked for another try.
func (v *View) ReturnedNow() bool {
	n := len(v.roll.rollouts)
	if n == 0 {
		return false
	}
	last := v.roll.rollouts[n-1]
	return last.GetStage() == string(rollout.Returned) && !last.GetRetried() && last.GetConfigRevision() == v.Config().Revision()
}

// FreshTable is the table of the routers that the rollout under way has reached; nil: there is none.
// [View.Table] is that of all others.
func (v *View) FreshTable() *routerpb.Table { return v.roll.fresh }

// TableFor is the table that a router is to hold. It follows from this state alone, so that all nodes
// that have applied the same say the same.
func (v *View) TableFor(router fleet.RouterID, region fleet.RegionID) *routerpb.Table {
	if r := v.Rollout(); r != nil && reachOf(r).Includes(router, region) {
		return v.roll.fresh
	}
	return v.Table()
}

func reachOf(r *statepb.Rollout) rollout.Reach {
	return rollout.Reach{
		Stage: rollout.Stage(r.GetStage()), Canary: fleet.RouterID(r.GetCanary()), Region: fleet.RegionID(r.GetRegion()),
	}
}

// startRollout divides routers between two tables: the canary gets the one that is made of what is held
// back.
func (v *View) startRollout(cmd *statepb.Command, s *statepb.StartRollout) *statepb.Outcome {
	config := v.Config()
	if out := v.stopped(cmd); out != nil {
		return out
	}
	switch {
	case v.Rollout() != nil:
		return refuse(CodeExists, "", fmt.Sprintf("rollout %d is under way", v.Rollout().GetId()))
	case v.roll.settled == nil:
		return refuse(CodePrecondition, "config_revision", "nothing is held back")
	case s.GetConfigRevision() != config.Revision():
		return refuse(CodePrecondition, "config_revision", fmt.Sprintf("the resources are at %d, not %d", config.Revision(), s.GetConfigRevision()))
	case s.GetCanary() == "" || s.GetRegion() == "":
		return refuse(CodeInvalid, "canary", "names no router or no region")
	}
	if out := v.fit(cmd, s.GetTable(), v.Table()); out != nil {
		return out
	}
	r := &statepb.Rollout{
		Id: v.index, Stage: string(rollout.Canary), Canary: s.GetCanary(), Region: s.GetRegion(),
		ConfigRevision: config.Revision(), BaseRevision: v.roll.settled.Revision(), StageRevision: v.index,
		StartedUnixMs: cmd.GetAtUnixMs(), StageUnixMs: cmd.GetAtUnixMs(), Expected: s.GetExpected(),
		Actor: bounded(cmd.GetActor().GetName()), Changes: config.differing(*v.roll.settled),
	}
	v.roll.stable, v.roll.trial, v.roll.reasons = v.Table(), &config, s.GetReasons()
	v.roll.fresh = v.keep(s.GetTable())
	kept := v.roll.rollouts[max(0, len(v.roll.rollouts)-(MaxRollouts-1)):]
	v.roll.rollouts = append(slices.Clone(kept), r)
	v.recordRollout(cmd, r, "")
	return &statepb.Outcome{}
}

// publishTrial gives another table to the routers that the rollout has reached.
func (v *View) publishTrial(cmd *statepb.Command, p *statepb.Publish) *statepb.Outcome {
	if v.Rollout() == nil {
		return refuse(CodePrecondition, "trial.ref", "no rollout is under way")
	}
	if out := v.fit(cmd, p.GetTrial(), v.roll.fresh); out != nil {
		return out
	}
	v.roll.reasons = p.GetTrialReasons()
	stamped := v.stamp(p.GetTrial())
	if sameTable(v.roll.fresh, stamped) {
		return &statepb.Outcome{}
	}
	v.roll.fresh = v.keep(p.GetTrial())
	v.record(cmd, entry{action: "publish", kind: "Table", name: strconv.FormatUint(v.index, 10)})
	return &statepb.Outcome{}
}

// steer moves a rollout on or back, or freezes changes.
func (v *View) steer(cmd *statepb.Command, s *statepb.SteerChange) *statepb.Outcome {
	switch s.GetAct() {
	case ActFreeze, ActUnfreeze:
		return v.setFreeze(cmd, s.GetAct() == ActFreeze)
	case ActRetry:
		return v.retry(cmd, s)
	case ActSettle:
		if s.GetRollout() == 0 {
			return v.settleAtOnce(cmd, s)
		}
	}
	r := v.Rollout()
	if r == nil || r.GetId() != s.GetRollout() {
		return refuse(CodeNotFound, "rollout", fmt.Sprintf("rollout %d is not under way", s.GetRollout()))
	}
	next := proto.CloneOf(r)
	next.Actor = bounded(cmd.GetActor().GetName())
	switch s.GetAct() {
	case ActPause, ActResume:
		if next.Paused = s.GetAct() == ActPause; next.GetPaused() == r.GetPaused() {
			return &statepb.Outcome{}
		}
	case ActReturn:
		if v.epochDue {
			return epochFirst()
		}
		v.end(cmd, next, rollout.Returned, s.GetWhy())
		v.keep(v.roll.stable)
		v.leaveRollout()
	case ActSettle, ActAdvance:
		if out := v.forward(cmd, s, next); out != nil {
			return out
		}
	default:
		return refuse(CodeInvalid, "act", fmt.Sprintf("%q is not known", bounded(s.GetAct())))
	}
	v.roll.rollouts = slices.Clone(v.roll.rollouts)
	v.roll.rollouts[len(v.roll.rollouts)-1] = next
	why := s.GetWhy()
	if why == "" && (s.GetAct() == ActPause || s.GetAct() == ActResume) {
		why = s.GetAct()
	}
	v.recordRollout(cmd, next, why)
	return &statepb.Outcome{}
}

// forward brings the table of a rollout to more routers. It is stamped anew each time: those that are
// reached now may hold a later revision of the other table than its last.
func (v *View) forward(cmd *statepb.Command, s *statepb.SteerChange, r *statepb.Rollout) *statepb.Outcome {
	to := rollout.Settled
	switch {
	case v.stopped(cmd) != nil:
		return v.stopped(cmd)
	case v.epochDue:
		return epochFirst()
	case s.GetAct() == ActAdvance:
		if r.GetPaused() || s.GetStage() != r.GetStage() {
			return refuse(CodePrecondition, "stage", "the rollout is paused, or its stage is "+r.GetStage())
		}
		to = rollout.Stage(r.GetStage()).Next()
	}
	if to != rollout.Settled {
		r.Stage, r.StageRevision, r.StageUnixMs, r.Expected = string(to), v.index, cmd.GetAtUnixMs(), s.GetExpected()
		v.roll.fresh = v.keep(v.roll.fresh)
		return nil
	}
	v.end(cmd, r, to, s.GetWhy())
	v.keep(v.roll.fresh)
	v.reasons = v.roll.reasons
	v.roll.settled = v.roll.trial
	if v.roll.settled.Revision() == v.Config().Revision() {
		v.roll.settled = nil
	}
	v.leaveRollout()
	return nil
}

func (v *View) end(cmd *statepb.Command, r *statepb.Rollout, stage rollout.Stage, why string) {
	r.Stage, r.Paused, r.StageRevision, r.StageUnixMs, r.Reason = string(stage), false, v.index, cmd.GetAtUnixMs(), bounded(why)
}

// leaveRollout makes the newest table everybody's.
func (v *View) leaveRollout() {
	v.roll.trial, v.roll.stable, v.roll.fresh, v.roll.reasons = nil, nil, nil, nil
}

// interrupt ends a rollout whose tables belong to an epoch that has passed, or that an order goes back behind; the table
// of all others is everybody's again.
func (v *View) interrupt(cmd *statepb.Command, why string) {
	r := v.Rollout()
	if r == nil {
		return
	}
	next := proto.CloneOf(r)
	v.end(cmd, next, rollout.Interrupted, why)
	v.roll.rollouts = slices.Clone(v.roll.rollouts)
	v.roll.rollouts[len(v.roll.rollouts)-1] = next
	v.keep(v.roll.stable)
	v.leaveRollout()
	v.recordRollout(cmd, next, next.GetReason())
}

// settleAtOnce lets what is held back hold without a rollout: it changes no table, or nothing is staged
// any more.
func (v *View) settleAtOnce(cmd *statepb.Command, s *statepb.SteerChange) *statepb.Outcome {
	config := v.Config()
	if out := v.stopped(cmd); out != nil {
		return out
	}
	switch {
	case v.Rollout() != nil:
		return refuse(CodeExists, "", fmt.Sprintf("rollout %d is under way", v.Rollout().GetId()))
	case v.roll.settled == nil:
		return &statepb.Outcome{}
	case s.GetConfigRevision() != config.Revision():
		return refuse(CodePrecondition, "config_revision", fmt.Sprintf("the resources are at %d, not %d", config.Revision(), s.GetConfigRevision()))
	}
	v.roll.settled = nil
	v.record(cmd, entry{action: "update", kind: "Rollout", code: string(rollout.Settled), reason: s.GetWhy()})
	return &statepb.Outcome{}
}

func (v *View) retry(cmd *statepb.Command, s *statepb.SteerChange) *statepb.Outcome {
	if n := len(v.roll.rollouts); n == 0 || v.roll.rollouts[n-1].GetId() != s.GetRollout() || !v.ReturnedNow() {
		return refuse(CodeNotFound, "rollout", fmt.Sprintf("rollout %d has not been returned, or is not the last, or the resources have changed since", s.GetRollout()))
	}
	v.roll.rollouts = slices.Clone(v.roll.rollouts)
	next := proto.CloneOf(v.roll.rollouts[len(v.roll.rollouts)-1])
	next.Retried, next.Actor = true, bounded(cmd.GetActor().GetName())
	v.roll.rollouts[len(v.roll.rollouts)-1] = next
	v.recordRollout(cmd, next, ActRetry)
	return &statepb.Outcome{}
}

func (v *View) setFreeze(cmd *statepb.Command, on bool) *statepb.Outcome {
	if on == (v.roll.freeze != nil) {
		return &statepb.Outcome{}
	}
	action := "delete"
	v.roll.freeze = nil
	if on {
		action = "create"
		v.roll.freeze = &statepb.Freeze{
			AtUnixMs: cmd.GetAtUnixMs(), Actor: bounded(cmd.GetActor().GetName()), Reason: bounded(cmd.GetActor().GetReason()),
		}
	}
	v.record(cmd, entry{action: action, kind: "Freeze"})
	return &statepb.Outcome{}
}

// stopped says what keeps changes away from routers; nil: nothing does.
func (v *View) stopped(cmd *statepb.Command) *statepb.Outcome {
	if v.FrozenAt(time.UnixMilli(cmd.GetAtUnixMs())) != nil {
		return refuse(CodeFrozen, "", "changes are frozen: unfreeze them first")
	}
	if d := v.ActiveDrill(); d != nil {
		return refuse(CodeFrozen, "", fmt.Sprintf("drill %d is under way, and changes wait until it is over", d.GetId()))
	}
	return nil
}

func (v *View) recordRollout(cmd *statepb.Command, r *statepb.Rollout, why string) {
	v.record(cmd, entry{action: "update", kind: "Rollout", name: strconv.FormatUint(r.GetId(), 10), code: r.GetStage(), reason: why})
}

// rollingProto is what a snapshot holds of it; nil: nothing.
func (v *View) rollingProto() *statepb.Rollouts {
	r := v.roll
	if len(r.rollouts) == 0 && r.settled == nil && r.freeze == nil {
		return nil
	}
	return &statepb.Rollouts{
		Rollouts: r.rollouts, Settled: v.heldConfig(r.settled), Trial: v.heldConfig(r.trial),
		StableRevision: r.stable.GetRef().GetRevision(), TrialRevision: r.fresh.GetRef().GetRevision(),
		TrialReasons: r.reasons, Freeze: r.freeze,
	}
}

// read is the inverse of rollingProto; v holds the resources and tables already.
func (r *rolling) read(v *View, p *statepb.Rollouts) error {
	var err error
	if r.settled, err = v.configOf(p.GetSettled()); err != nil {
		return err
	}
	if r.trial, err = v.configOf(p.GetTrial()); err != nil {
		return err
	}
	if r.stable, err = v.keptTable(p.GetStableRevision()); err != nil {
		return err
	}
	if r.fresh, err = v.keptTable(p.GetTrialRevision()); err != nil {
		return err
	}
	r.rollouts, r.reasons, r.freeze = p.GetRollouts(), p.GetTrialReasons(), p.GetFreeze()
	under := v.Rollout() != nil // r is v's
	if (r.trial != nil) != under || (r.stable != nil) != under || (r.fresh != nil) != under || under && r.settled == nil {
		return errors.New("the rollout under way is not whole")
	}
	return nil
}
