package leader

import (
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

// Table is what a leader that knows enough would publish for a state after the table before, which is nil
// if there is none; nil while there is nothing to publish.
func Table(view *state.View, before *routerpb.Table, signals signal.Snapshot, now time.Time) *routerpb.Table {
	return plan.Compute(plan.Input{
		Resources: view, Signals: signals, Previous: before, Health: restored(view), Now: now, Warm: true,
		Epoch: view.Epoch(), Older: view.FeatureLevel() < organisedLevel,
		Prices: view.Offers(), PricesRevision: view.PricesRevision(), Measured: view.Account().PerWork(),
	}).Table
}

// TableSize is how many bytes of a log entry it would take to publish the table of a state, its
// reasons and the health of clusters; 0 while there is nothing to publish. Above store.MaxEntryBytes it
// could not be published at all.
func TableSize(view *state.View, signals signal.Snapshot, now time.Time) (int, error) {
	health := restored(view)
	out := plan.Compute(plan.Input{
		Resources: view, Signals: signals, Health: health, Now: now, Warm: true,
		Epoch: view.Epoch(), Older: view.FeatureLevel() < organisedLevel,
		Prices: view.Offers(), PricesRevision: view.PricesRevision(),
	})
	if out.Table == nil {
		return 0, nil
	}
	return store.EntryBytes(&statepb.Command{
		AtUnixMs: now.UnixMilli(),
		Op: &statepb.Command_Publish{Publish: &statepb.Publish{
			Table: out.Table, Reasons: out.Reasons, Health: replicated(health, view.FeatureLevel()),
		}},
	})
}
