package leader

import (
	"anabranch/controlplane/plan"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
)

// Input is what a leader that knows enough plans the table of all routers from, but for those that a rollout
// has reached: any node can say with it what the leader does and why, by its own signals. What work was measured
// to cost is left out, which only budgets go by.
func Input(view *state.View, signals signal.Snapshot) plan.Input {
	return plan.Input{
		Resources: drained{view.Settled(), view, view.Ordered(signals.At)}, Signals: signals, Previous: view.Table(), Health: restored(view), Now: signals.At, Warm: true,
		Epoch: view.Epoch(), Older: view.FeatureLevel() < organisedLevel, Frozen: held(view, signals.At), Drill: drillOf(view),
		Prices: view.Offers(), PricesRevision: view.PricesRevision(),
	}
}

// Input is the same by what this node knows of itself: while it leads and has not heard enough yet, it holds weights,
// and says so. How much another leader has heard it does not know.
func (l *Leader) Input(view *state.View, signals signal.Snapshot) plan.Input {
	in := Input(view, signals)
	in.Warm = !l.cold.Load()
	return in
}
