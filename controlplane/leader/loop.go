package leader

import (
	"context"
	"errors"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/residence"
	"anabranch/api/routerpb"
	rehearsal "anabranch/controlplane/drill"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/rollout"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
	"anabranch/failover"
)

const (
	// debounce gathers changes of configuration that come together.
	debounce = 50 * time.Millisecond
	// warmShare of the weighted capacity must have been heard of, or warmAfter have passed, before
	// a new leader changes weights.
	warmShare = 0.8
	warmAfter = 10 * time.Second
	// patience bounds one proposal.
	patience = 5 * time.Second
)

// tightenLevel is the feature level from which on all nodes take residency that is tightened under an emergency order.
const tightenLevel = 6

// organisedLevel is the feature level from which on all nodes know organisations.
const organisedLevel = 4

// actor is who the leader is in the audit trail.
const actor = "system/leader"

// loop is one term's memory.
type loop struct {
	*Leader
	began    time.Time
	warm     bool
	health   map[failover.Place]failover.Cluster
	proposed time.Time // when the last proposal was made
	planned  uint64    // revision of the resources that the last look saw
	gap      time.Time // when it was first seen that the account has not been closed for too long; zero: it is not so
	doubted  bool      // an epoch that can't be was reported, and told
	tally    rollout.Tally
	stage    stage

	calendars calendars
	judged    judged
	measured  measured
	usage     usage

	drills     *rehearsal.Runner
	congestion map[fleet.ClusterID]float64 // as the last plan found it, for the next to begin from
}

func newLoop(l *Leader) *loop {
	return &loop{Leader: l, began: l.o.Now()}
}

// run looks at the fleet each tick, and soon after a change of configuration.
func (l *loop) run(ctx context.Context) {
	tick := time.NewTicker(l.o.Tick)
	defer tick.Stop()
	defer func() {
		if l.drills != nil {
			l.drills.Close()
		}
	}()
	l.look(ctx, tick)
	for {
		view := l.o.Store.View()
		changed := l.o.Store.Changed(view.Index())
		if view.ResourcesRevision() != l.planned && l.mayPropose() {
			if !rest(ctx, debounce) {
				return
			}
			l.look(ctx, tick)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.look(ctx, tick)
		case <-changed:
		}
	}
}

// rest waits, and says whether ctx is still alive after it.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// mayPropose keeps proposals a tick apart.
func (l *loop) mayPropose() bool { return l.o.Now().Sub(l.proposed) >= l.o.Tick }

// look is one turn of the loop.
func (l *loop) look(ctx context.Context, tick *time.Ticker) {
	view := l.o.Store.View()
	l.planned = view.ResourcesRevision()
	if view.ClusterID() == "" || ctx.Err() != nil {
		return
	}
	now := l.o.Now()
	signals := l.o.Signals.Snapshot(now)
	if l.health == nil {
		l.health = restored(view)
	}
	if !l.warm {
		l.warm = now.Sub(l.began) >= warmAfter || plan.Covered(known(view, now), signals, view.Table()) >= warmShare
		l.cold.Store(!l.warm)
	}
	if !l.settleEpoch(ctx, signals) {
		return
	}
	l.expire(ctx, view, now)
	l.warn(ctx, view, now)
	l.closeMinutes(ctx, view, signals, now)
	l.usage.see(signals, view.Table())
	l.letThrough(ctx, l.o.Store.View())
	view = l.o.Store.View()
	if l.warm {
		var changes []failover.Transition
		l.health, changes = failover.StepAll(l.health, plan.Evidence(known(view, now), signals), plan.FailoverConfig(known(view, now)), now)
		l.tell(changes)
	}
	if l.publish(ctx, view, signals) {
		tick.Reset(l.o.Tick)
	}
	l.roll(ctx, signals)
	l.rehearse(ctx, signals)
}

// expire ends proposals that have waited too long, so that the audit trail and watches tell of it.
func (l *loop) expire(ctx context.Context, view *state.View, now time.Time) {
	if view.Overdue(now) {
		l.propose(ctx, &statepb.Command{
			Actor: &statepb.Actor{Name: actor, Role: "admin", Reason: "nobody decided in time"},
			Op:    &statepb.Command_ExpireProposals{ExpireProposals: &statepb.ExpireProposals{}},
		})
	}
}

// publish plans the table of all routers but those that a rollout has reached, and proposes it and the
// health of clusters where they have changed; it says whether it did.
func (l *loop) publish(ctx context.Context, view *state.View, signals signal.Snapshot) bool {
	out := l.plan(view, view.Settled(), view.Table(), nil, signals)
	if out.Table == nil {
		return false
	}
	publish := &statepb.Publish{Health: replicated(l.health, view.FeatureLevel())}
	held := view.Ordered(l.o.Now()).Frozen() // by an emergency order: not even failover moves weights, routers do
	if !held && (out.Changed || view.Table().GetRef().GetEpoch() != view.Epoch()) {
		publish.Table, publish.Reasons = out.Table, out.Reasons
		publish.Table.Ref = view.Table().GetRef() // the state refuses it if another came between
	} else if held && l.tighten(ctx, view) {
		return true
	} else if sameHealth(publish.GetHealth(), view.Health()) {
		return false
	}
	if outcome := l.propose(ctx, computed(&statepb.Command{Op: &statepb.Command_Publish{Publish: publish}})); outcome != nil && publish.GetTable() != nil {
		l.logger.Info("table published", "revision", outcome.GetRevision())
	}
	return true
}

// tighten has residency that operators have tightened since an emergency order holds tables off published at once, and
// nothing else; it says whether it did. What a rollout under way brings is tightened as well.
func (l *loop) tighten(ctx context.Context, view *state.View) bool {
	if view.FeatureLevel() < tightenLevel {
		return false
	}
	wanted := plan.Residency(view)
	for _, t := range []*routerpb.Table{view.Table(), view.FreshTable()} {
		if t == nil {
			continue
		}
		narrowed, err := residence.Narrow(t, wanted)
		if err != nil {
			l.logger.Error("residency was tightened, and can't be before the emergency order ends", "error", err)
			continue
		}
		if narrowed == t {
			continue
		}
		publish := &statepb.Publish{Tighten: true}
		wanted.Ref = t.GetRef()
		if t == view.FreshTable() {
			publish.Trial = wanted
		} else {
			publish.Table = wanted
		}
		if outcome := l.propose(ctx, computed(&statepb.Command{Op: &statepb.Command_Publish{Publish: publish}})); outcome != nil {
			l.logger.Warn("residency was tightened under an emergency order", "revision", outcome.GetRevision())
		}
		return true
	}
	return false
}

// plan computes a table from a configuration after the one that routers have, beside another one that other
// routers have, if any; none if it would not be sound.
func (l *loop) plan(view *state.View, of state.Config, previous, beside *routerpb.Table, signals signal.Snapshot) plan.Output {
	began := l.o.Now()
	out := plan.Compute(plan.Input{
		Resources: drained{of, view, view.Ordered(began)},
		Signals:   signals,
		Previous:  previous,
		Beside:    beside,
		Epoch:     view.Epoch(),
		Older:     view.FeatureLevel() < organisedLevel,
		Health:    l.health,
		Now:       signals.At,
		Warm:      l.warm,
		Usage:     l.usage.latest,
		Frozen:    held(view, began),
		Drill:     drillOf(view),
		Prices:    view.Offers(), PricesRevision: view.PricesRevision(),
		Measured:   l.measured.of(view.Account()),
		Cold:       l.o.Cold,
		Congestion: l.congestion,
	})
	l.congestion = out.Congestion
	l.metrics.planned(l.o.Now().Sub(began))
	if out.Table != nil {
		if err := plan.Sound(out.Table); err != nil {
			l.metrics.failed(causeUnsound)
			l.logger.Error("the plan is not sound and is not published", "error", err)
			return plan.Output{}
		}
	}
	return out
}

func computed(c *statepb.Command) *statepb.Command {
	c.Actor = &statepb.Actor{Name: actor, Role: "admin", Reason: "computed from policies and signals"}
	return c
}

// propose commits a command; nil: it was not, which is logged, and the next tick tries again.
func (l *loop) propose(ctx context.Context, c *statepb.Command) *statepb.Outcome {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l.proposed = l.o.Now()
	c.Format, c.AtUnixMs = state.FormatOf(c), l.proposed.UnixMilli()
	outcome, err := l.o.Propose(ctx, c)
	switch {
	case err != nil && ctx.Err() != nil:
		l.logger.Info("proposal abandoned", "error", err)
	case errors.Is(err, store.ErrTooLarge):
		// Until somebody takes resources away no table can be published, whatever dies meanwhile.
		l.metrics.failed(causeTooLarge)
		l.logger.Error("table does not fit a log entry", "error", err)
	case err != nil:
		l.metrics.failed(causeUncertain)
		l.logger.Warn("propose a table or health", "error", err)
	case outcome.GetCode() != "":
		l.metrics.failed(causeRefused)
		l.logger.Error("table refused", "code", outcome.GetCode(), "field", outcome.GetField(), "reason", outcome.GetMessage())
	default:
		return outcome
	}
	return nil
}

// tell logs transitions; those that hold traffic where it may not be served need a person.
func (l *loop) tell(changes []failover.Transition) {
	for _, c := range changes {
		l.metrics.became(c.To)
		log := l.logger.Info
		if c.To == failover.Frozen {
			log = l.logger.Error
		}
		log("cluster health changed", "cluster", c.Cluster, "model", c.Model, "from", c.From, "to", c.To, "reason", c.Reason)
	}
}
