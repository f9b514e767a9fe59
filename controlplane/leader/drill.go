package leader

import (
	"context"
	"encoding/json"
	"time"

	rehearsal "anabranch/controlplane/drill"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/failover/drill"
)

// held says whether changes of configuration and optimisation are kept away from routers: changes are frozen, or a
// drill is under way, which is to be the only thing that moves.
func held(view *state.View, now time.Time) bool {
	return view.FrozenAt(now) != nil || view.ActiveDrill() != nil
}

// drillOf is the drill that tables carry; nil: none. It is there once the table from before is named.
func drillOf(view *state.View) *plan.Drill {
	d := view.ActiveDrill()
	if d == nil || len(d.GetBaseSha256()) == 0 {
		return nil
	}
	kind := state.DrillKind(d)
	out := &plan.Drill{ID: d.GetId(), Kind: kind, Base: d.GetBaseSha256()}
	var resolved drill.Resolved
	if json.Unmarshal(d.GetResolved(), &resolved) != nil {
		return out // nothing is shifted
	}
	out.Models, out.Tenants = resolved.Models, resolved.Tenants
	if kind == drill.Hard || kind == drill.Tier1 {
		switch s := drill.State(d.GetState()); s {
		case drill.Measuring, drill.Shifting:
			out.Withheld = true
		case drill.Paused:
			out.Withheld = d.GetResume() == string(drill.Shifting)
		default:
		}
	}
	if kind != drill.ControlPlane && kind != drill.QuotaStore {
		out.Clusters = resolved.Clusters
	}
	return out
}

// Drills is what the leader needs to run rehearsals.
type Drills struct {
	// Simulator forecasts for dry runs; nil: they go by arithmetic alone.
	Simulator rehearsal.Simulator
	// Isolate cuts this node's replication off for a while; nil: it can't be.
	Isolate func(time.Duration) error
}

func (l *loop) newRunner() *rehearsal.Runner {
	return rehearsal.New(rehearsal.Options{
		Propose: l.propose, Simulator: l.o.Drills.Simulator, Isolate: l.o.Drills.Isolate, Logger: l.logger, Metrics: l.drillMetrics,
	})
}

// rehearse is one second of the drill under way, and of those that wait.
func (l *loop) rehearse(ctx context.Context, signals signal.Snapshot) {
	if l.drills == nil {
		l.drills = l.newRunner()
	}
	view := l.o.Store.View()
	in := Input(view, signals)
	in.Usage = l.usage.latest
	l.drills.Step(ctx, rehearsal.Look{
		View: view, Signals: signals, MicrosPerMinute: l.costs(view, signals), Input: rehearsal.DryInput{Plan: in},
	})
}

// costs is what the fleet costs a minute while a drill is under way, in micro-dollars; 0: it is not asked for.
func (l *loop) costs(view *state.View, signals signal.Snapshot) int64 {
	if view.ActiveDrill() == nil {
		return 0
	}
	return rehearsal.CostPerMinute(view, signals)
}
