package leader

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/rollout"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// The codes of a router that has not refused a table for what it is: an order holds it back, or it has
// a later one already.
const (
	codeFrozen = "frozen"
	codeOlder  = "older"
)

// stage is what this leader remembers of the stage of a rollout. A new leader begins anew: it waits
// for a whole bake.
type stage struct {
	rollout  uint64 // 0: none
	name     rollout.Stage
	since    time.Time // when this leader saw it first
	before   rollout.Count
	progress rollout.Progress
}

// letThrough lets what is held back hold at once where nothing is staged any more.
func (l *loop) letThrough(ctx context.Context, view *state.View) {
	if !view.Pending() || held(view, l.o.Now()) || policy.SafetyOf(view).Staged {
		return
	}
	const why = "rollouts are not staged"
	if r := view.Rollout(); r != nil {
		l.steer(ctx, &statepb.SteerChange{Act: state.ActSettle, Rollout: r.GetId(), Why: why})
		view = l.o.Store.View()
	}
	if view.Pending() && view.Rollout() == nil {
		l.steer(ctx, &statepb.SteerChange{Act: state.ActSettle, ConfigRevision: view.Config().Revision(), Why: why})
	}
}

// roll begins a rollout of what is held back, or moves the one under way.
func (l *loop) roll(ctx context.Context, signals signal.Snapshot) {
	for _, o := range signals.Routers {
		if r := o.Report; r != nil && o.Freshness(signals.At) == signal.Fresh {
			l.tally.Hear(o.Router(), r.GetAtUnixMs(), rollout.Count{Requests: r.GetRequests(), Failures: r.GetFailures()}, signals.At)
		}
	}
	l.tally.Forget(signals.At)
	view := l.o.Store.View()
	switch r := view.Rollout(); {
	case view.EpochDue() || ctx.Err() != nil:
	case r != nil:
		l.watch(ctx, view, r, signals)
	default:
		l.stage = stage{}
		if view.Pending() && !held(view, l.o.Now()) && l.warm && !view.ReturnedNow() && policy.SafetyOf(view).Staged {
			l.begin(ctx, view, signals)
		}
	}
}

// begin gives the table of what is held back to the first router; a table that does not differ needs no
// rollout. While no router is connected it waits for one.
func (l *loop) begin(ctx context.Context, view *state.View, signals signal.Snapshot) {
	// To the planner the table in force is as old as the configuration that it was made of, so that what
	// has changed since moves at once.
	previous := proto.CloneOf(view.Table())
	previous.Ref.Revision = min(previous.GetRef().GetRevision(), view.Settled().Revision())
	out := l.plan(view, view.Config(), previous, view.Table(), signals)
	switch {
	case out.Table == nil:
		return // nothing that routers could serve by
	case alike(out.Table, view.Table()):
		l.steer(ctx, &statepb.SteerChange{Act: state.ActSettle, ConfigRevision: view.Config().Revision(), Why: "changes no table"})
		return
	}
	var candidates []rollout.Candidate
	for _, o := range signals.Routers {
		if o.Connected && o.Freshness(signals.At) == signal.Fresh {
			id := o.Router()
			count := l.tally.Sum(func(r fleet.RouterID) bool { return r == id }, signals.At.Add(-rollout.TallyReach), signals.At.Add(time.Second))
			candidates = append(candidates, rollout.Candidate{Router: id, Region: o.Region(), Requests: count.Requests})
		}
	}
	first, ok := rollout.Choose(candidates, fleet.RouterID(policy.SafetyOf(view).CanaryRouter))
	if !ok {
		return
	}
	out.Table.Ref = view.Table().GetRef()
	outcome := l.propose(ctx, computed(&statepb.Command{Op: &statepb.Command_StartRollout{StartRollout: &statepb.StartRollout{
		ConfigRevision: view.Config().Revision(), Table: out.Table, Reasons: out.Reasons,
		Canary: string(first.Router), Region: string(first.Region), Expected: 1,
	}}}))
	if outcome != nil {
		l.logger.Info("rollout begins", "rollout", outcome.GetRevision(), "canary", first.Router, "region", first.Region)
	}
}

// alike compares all that routers obey; why a weight is what it is is for people.
func alike(a, b *routerpb.Table) bool {
	bare := func(t *routerpb.Table) *routerpb.Table {
		t = proto.CloneOf(t)
		t.Ref, t.CreatedUnixMs = nil, 0
		for _, list := range t.GetWeights() {
			for _, c := range list.GetClusters() {
				c.Reason = ""
			}
		}
		return t
	}
	return proto.Equal(bare(a), bare(b))
}

// watch keeps the table of a rollout up with what health displaces, and judges it.
func (l *loop) watch(ctx context.Context, view *state.View, r *statepb.Rollout, signals signal.Snapshot) {
	if trial, ok := view.Trial(); ok {
		if out := l.plan(view, trial, view.FreshTable(), view.Table(), signals); out.Table != nil && out.Changed {
			out.Table.Ref = view.FreshTable().GetRef()
			l.propose(ctx, computed(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Trial: out.Table, TrialReasons: out.Reasons}}}))
		}
	}
	reach := rollout.Reach{
		Stage: rollout.Stage(r.GetStage()), Canary: fleet.RouterID(r.GetCanary()), Region: fleet.RegionID(r.GetRegion()),
	}
	cohort := map[fleet.RouterID]bool{}
	for _, o := range signals.Routers {
		if reach.Includes(o.Router(), o.Region()) {
			cohort[o.Router()] = true
		}
	}
	of := func(id fleet.RouterID) bool { return cohort[id] }
	others := func(id fleet.RouterID) bool { return !cohort[id] }
	if l.stage.rollout != r.GetId() || l.stage.name != reach.Stage {
		l.stage = stage{
			rollout: r.GetId(), name: reach.Stage, since: signals.At,
			before: l.tally.Sum(of, signals.At.Add(-rollout.TallyReach), signals.At),
		}
		l.tally.Cut(signals.At)
	}
	evidence := rollout.Evidence{
		Rules: policy.SafetyOf(view), Stage: reach.Stage, Cohort: Cohort(view, r, signals), Expected: int(r.GetExpected()),
		With: l.tally.Sum(of, l.stage.since, signals.At.Add(time.Second)), Before: l.stage.before,
		Rest:  l.tally.Sum(others, l.stage.since, signals.At.Add(time.Second)),
		Since: l.stage.since, Held: r.GetPaused() || held(view, l.o.Now()), Now: signals.At,
	}
	var verdict rollout.Verdict
	verdict, l.stage.progress = rollout.Judge(evidence, l.stage.progress)
	look := rollout.LookAt(r.GetId(), evidence, l.stage.progress, verdict)
	l.looked.Store(&look)
	switch verdict.Act {
	case rollout.Return:
		l.logger.Error("rollout returned", "rollout", r.GetId(), "stage", reach.Stage, "reason", verdict.Why)
		l.steer(ctx, &statepb.SteerChange{Act: state.ActReturn, Rollout: r.GetId(), Why: verdict.Why})
	case rollout.Advance:
		l.logger.Info("rollout goes on", "rollout", r.GetId(), "from", reach.Stage, "to", reach.Stage.Next(), "reason", verdict.Why)
		reach.Stage = reach.Stage.Next()
		l.steer(ctx, &statepb.SteerChange{
			Act: state.ActAdvance, Rollout: r.GetId(), Stage: r.GetStage(), Why: verdict.Why, Expected: expected(reach, signals),
		})
	case rollout.Hold:
		l.logger.Debug("rollout waits", "rollout", r.GetId(), "stage", reach.Stage, "reason", verdict.Why)
	}
}

// expected counts the connected routers that a rollout is to reach.
func expected(reach rollout.Reach, signals signal.Snapshot) uint32 {
	var n uint32
	for _, o := range signals.Routers {
		if o.Connected && reach.Includes(o.Router(), o.Region()) {
			n++
		}
	}
	return n
}

// Cohort is what is known of the routers that a rollout under way has reached.
func Cohort(view *state.View, r *statepb.Rollout, signals signal.Snapshot) []rollout.Member {
	reach := rollout.Reach{
		Stage: rollout.Stage(r.GetStage()), Canary: fleet.RouterID(r.GetCanary()), Region: fleet.RegionID(r.GetRegion()),
	}
	ours := func(t *routerpb.TableRef) bool {
		return t.GetClusterId() == view.ClusterID() && t.GetEpoch() == view.Epoch() && t.GetRevision() >= r.GetStageRevision()
	}
	var out []rollout.Member
	for _, o := range signals.Routers {
		freshness := o.Freshness(signals.At)
		if !reach.Includes(o.Router(), o.Region()) || !o.Connected && freshness == signal.Absent {
			continue
		}
		m := rollout.Member{
			Router: o.Router(), Heard: o.Connected && freshness == signal.Fresh, Holds: ours(o.Report.GetApplied()),
		}
		if a := o.Ack; a != nil && !a.GetOk() && ours(a.GetTable()) && a.GetCode() != codeFrozen && a.GetCode() != codeOlder {
			m.Refused = a.GetCode()
			if a.GetField() != "" {
				m.Refused += " at " + a.GetField()
			}
			m.Refused += ": " + a.GetMessage()
		}
		out = append(out, m)
	}
	return out
}

func (l *loop) steer(ctx context.Context, s *statepb.SteerChange) {
	l.propose(ctx, computed(&statepb.Command{Op: &statepb.Command_SteerChange{SteerChange: s}}))
}
