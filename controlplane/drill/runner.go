// Package drill runs rehearsals on the node that leads: it samples what routers and clusters report each second, lets
// package failover/drill decide, and proposes what it decides: a change of state, or that leases go on. Nothing that it
// fails to do keeps a drill alive: leases that nobody renews end by themselves.
package drill

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// Actor is who moves drills on in the audit trail.
const Actor = "system/leader"

// Options of a runner.
type Options struct {
	// Propose commits a command. Nil is returned when it was not, or was refused: the next second tries again with
	// what is known then.
	Propose func(context.Context, *statepb.Command) *statepb.Outcome
	// Simulator forecasts for dry runs. Nil: they go by the plan's arithmetic alone.
	Simulator Simulator
	// Isolate cuts this node's replication off from its peers for a time that ends by itself; an error says why that
	// can't be. Nil: it can't.
	Isolate func(time.Duration) error
	// Logger is slog.Default() when nil.
	Logger *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics
}

// Runner is one term's memory of drills. It is for one goroutine.
type Runner struct {
	o      Options
	logger *slog.Logger

	id      uint64 // of the drill that all below is about; 0: none
	owned   bool   // this leader has moved it on or renewed it, or it has begun under it
	samples []drill.Sample
	pending []drill.Sample
	renewed time.Time // when renewal was last proposed
	since   uint64    // sequence of the lease with which the present state began
	state   drill.State
	step    int
	sampler *sampler
	found   finding
	decided bool
	wished  map[fleet.ClusterID]string // what operators had drained or pinned when it was first seen
	check   check
	cut     bool // isolation was asked for

	early     check     // of a drill that a schedule has made
	scheduled time.Time // when schedules were last looked at
}

// New returns a runner for one term.
func New(o Options) *Runner {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Runner{o: o, logger: o.Logger.With("component", "drill")}
}

// Close waits for what the runner has begun.
func (r *Runner) Close() {
	r.check.stop()
	r.early.stop()
}

// Look is what a second of a runner goes by.
type Look struct {
	View    *state.View
	Signals signal.Snapshot
	// MicrosPerMinute is what the fleet costs now; 0: not known.
	MicrosPerMinute int64
	// Input plans from what the leader knows.
	Input DryInput
}

// Step is one second.
func (r *Runner) Step(ctx context.Context, l Look) {
	if l.View.FeatureLevel() < level {
		return
	}
	r.schedule(ctx, l)
	r.validate(ctx, l)
	for _, d := range l.View.Drills() {
		if s := drill.State(d.GetState()); s != drill.Done && !s.Active() {
			r.wait(ctx, l, d)
		}
	}
	d := l.View.ActiveDrill()
	r.o.Metrics.show(d, l.Signals.At)
	if d == nil {
		r.forget()
		return
	}
	r.run(ctx, l, d)
}

// level is the feature level from which on drills are replicated.
const level = 6

// wait moves on a drill that has not begun: to its start, or to its end when nobody wants it.
func (r *Runner) wait(ctx context.Context, l Look, d *statepb.Drill) {
	plan, ok := planOf(d)
	if !ok {
		return
	}
	in := drill.Inputs{Plan: plan, Rules: policy.DrillRulesOf(l.View), World: drill.World{Active: activeName(l.View), Order: forbids(l.View, l.Signals.At)}}
	if s := l.View.SeriesApproval(d.GetSeries(), d.GetSpec(), l.Signals.At); s != nil && d.GetSeries() != "" {
		in.SeriesUntil = time.UnixMilli(s.GetUntilUnixMs())
	}
	run := state.DrillRun(d)
	next, events := drill.Step(run, in, l.Signals.At)
	if len(events) == 0 {
		return
	}
	s := steered(d, next, events)
	if next.State == drill.Done {
		r.conclude(l.View, d, next, events, nil, s)
	}
	r.steer(ctx, s)
}

// forget begins anew when no drill is under way.
func (r *Runner) forget() {
	if r.id != 0 {
		r.check.stop()
		r.id, r.samples, r.pending, r.wished = 0, nil, nil, nil
		r.found, r.decided, r.cut, r.owned = finding{}, false, false, false
	}
}

// take begins to look after a drill.
func (r *Runner) take(l Look, d *statepb.Drill) {
	r.forget()
	r.id, r.sampler, r.renewed = d.GetId(), newSampler(), l.Signals.At
	r.state, r.step, r.since = drill.State(d.GetState()), int(d.GetStep()), d.GetSequence()
	// A drill that has just begun has done so under this leader, or has nothing that another could have left behind.
	r.owned = r.state == drill.Precheck
	samples, err := drill.ReadSamples(d.GetSamples())
	if err != nil {
		r.logger.Warn("samples of an earlier leader can't be read", "drill", d.GetId(), "error", err)
	}
	r.samples = samples
	r.wished = wishes(l.View)
	for _, e := range d.GetEvents() {
		r.decided = r.decided || e.GetKind() == drill.OfDecision
	}
}

// run is one second of the drill under way.
func (r *Runner) run(ctx context.Context, l Look, d *statepb.Drill) {
	if r.id != d.GetId() {
		r.take(l, d)
	}
	plan, ok := planOf(d)
	if !ok {
		return
	}
	now := l.Signals.At
	run := state.DrillRun(d)
	if r.state != run.State || r.step != run.Step { // moved on by this leader, or by somebody's word
		r.state, r.step, r.since = run.State, run.Step, d.GetSequence()
	}
	resolved := resolvedOf(d)
	effect := drill.EffectOf(plan, run)
	sample := r.sampler.take(sight{
		id: d.GetId(), run: run, shifted: effect.Shifted, since: r.since, leased: effect.Leased,
		drilled: drilledOf(plan, resolved), clusters: places(l.View), signals: l.Signals, micros: l.MicrosPerMinute,
	})
	r.samples, r.pending = append(r.samples, sample), append(r.pending, sample)
	more := r.decide(l, d, plan, run, resolved)

	in := drill.Inputs{
		Plan: plan, Rules: policy.DrillRulesOf(l.View), Incident: incident(l.View), Order: r.order(l.View, now),
		LeaderChanged: !r.owned, Decided: r.decided, Samples: r.samples, ObjectiveMs: objective(l.View),
	}
	if run.State == drill.Precheck {
		in.World = world(l, d, resolved)
		in.Forecast, in.PlanSHA256 = r.precheck(ctx, l, d)
	}
	next, events := drill.Step(run, in, now)
	events = append(more, events...)
	r.isolate(plan, next, run)
	switch {
	case len(events) > len(more):
		s := steered(d, next, events)
		if run.State == drill.Precheck && next.State == drill.Measuring {
			s.BaseSha256 = baseOf(l.View)
		}
		if next.State == drill.Done {
			r.conclude(l.View, d, next, events, r.samples, s)
		}
		r.steer(ctx, s)
	case now.Sub(r.renewed) >= drill.RenewEvery || len(more) > 0 || r.fresh(d):
		r.renew(ctx, d, more, now)
	}
}

// fresh says that a drill was moved on by somebody's word, and that what was measured before is not replicated yet.
func (r *Runner) fresh(d *statepb.Drill) bool { return !r.owned && !drill.State(d.GetState()).Leased() }

// steer proposes a change of state.
func (r *Runner) steer(ctx context.Context, s *statepb.SteerDrill) {
	out := r.o.Propose(ctx, &statepb.Command{
		Actor: &statepb.Actor{Name: Actor, Role: "admin"}, Op: &statepb.Command_SteerDrill{SteerDrill: s},
	})
	if out == nil {
		return
	}
	if s.GetId() == r.id {
		r.owned = true
	}
	r.o.Metrics.moved(s)
	r.logger.Info("drill goes on", "drill", s.GetId(), "state", s.GetState(), "step", s.GetStep(), "outcome", s.GetOutcome(), "cause", s.GetCause(), "reason", s.GetReason())
}

// renew proposes that leases go on, with what was measured since.
func (r *Runner) renew(ctx context.Context, d *statepb.Drill, events []drill.Happening, now time.Time) {
	r.renewed = now
	out := r.o.Propose(ctx, &statepb.Command{
		Actor: &statepb.Actor{Name: Actor, Role: "admin"},
		Op: &statepb.Command_RenewDrill{RenewDrill: &statepb.RenewDrill{
			Id: d.GetId(), IfRevision: d.GetRevision(), Samples: drill.AppendSamples(nil, r.pending...), Events: eventsOf(events),
		}},
	})
	if out != nil {
		r.pending, r.owned = nil, true
	}
}

// decide notes when what is treated as dead would have been found dead.
func (r *Runner) decide(l Look, d *statepb.Drill, plan drill.Plan, run drill.Run, resolved drill.Resolved) []drill.Happening {
	if plan.Kind != drill.Hard && plan.Kind != drill.Tier1 || r.decided {
		return nil
	}
	r.found.met(resolved.Clusters, l.Signals)
	if run.State != drill.Shifting {
		return nil
	}
	var events []drill.Happening
	r.found, r.decided = r.found.look(d.GetId(), resolved.Regions, l.Signals)
	if r.decided {
		events = append(events, drill.Happening{
			AtUnixMs: l.Signals.At.UnixMilli(), State: run.State, Kind: drill.OfDecision, Text: "the drilled places are found dead", Actor: Actor,
		})
		for _, o := range l.Signals.Routers {
			if s := o.Report.GetDrill(); s.GetId() == d.GetId() && s.GetEjectedUnixMs() != 0 {
				events = append(events, drill.Happening{
					AtUnixMs: int64(s.GetEjectedUnixMs()), State: run.State, Kind: drill.OfRouter, //nolint:gosec // a time
					Text: "router " + string(o.Router()) + " took a drilled place out on its own",
				})
			}
		}
	}
	return events
}

// isolate begins what a drill of the control plane is about, once its state is committed.
func (r *Runner) isolate(plan drill.Plan, next, run drill.Run) {
	if plan.Kind != drill.ControlPlane || run.State != drill.Shifting || next.State != drill.Shifting || r.cut || !r.owned {
		return
	}
	r.cut = true
	if r.o.Isolate == nil {
		r.logger.Warn("this node can't isolate itself")
		return
	}
	if err := r.o.Isolate(isolateFor); err != nil {
		r.logger.Warn("the leader is not isolated", "error", err)
	}
}

// isolateFor is how long the leader is cut off: long enough for others to elect one of them, and shorter than a lease.
const isolateFor = 15 * time.Second

func steered(d *statepb.Drill, next drill.Run, events []drill.Happening) *statepb.SteerDrill {
	s := &statepb.SteerDrill{
		Id: d.GetId(), IfRevision: d.GetRevision(), State: string(next.State), Step: uint32(max(next.Step, 0)), Rehearsed: next.Rehearsed, //nolint:gosec // a few stages
		Resume: string(next.Resume), Outcome: string(next.Outcome), Cause: string(next.Cause), Reason: next.Reason, Events: eventsOf(events),
	}
	if !next.NotAfter.IsZero() {
		s.NotAfterUnixMs = next.NotAfter.UnixMilli()
	}
	if next.Baseline != nil && len(d.GetBaseline()) == 0 {
		s.Baseline, _ = json.Marshal(next.Baseline) // figures that are numbers
	}
	return s
}

func eventsOf(list []drill.Happening) []*statepb.DrillEvent {
	var out []*statepb.DrillEvent
	for _, e := range list {
		out = append(out, &statepb.DrillEvent{
			AtUnixMs: e.AtUnixMs, State: string(e.State), Step: uint32(max(e.Step, 0)), Kind: e.Kind, Text: e.Text, Actor: e.Actor, //nolint:gosec // a few stages
		})
	}
	return out
}
