package leader

import (
	"testing"
	"testing/synctest"
	"time"

	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
)

// A model that runs on own GPUs is not free of charge to budgets once its work was measured; and the price is
// the same on each look until the next measurement.
func TestBudgetsAreChargedWhatWorkCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on a midnight of UTC
		y := wealthy(t)
		price := func() uint64 {
			out := y.loop.plan(y.View(), y.View().Settled(), nil, nil, signal.Snapshot{At: time.Now()})
			return out.Table.GetModels()[0].GetInputMicrosPerMtok()
		}
		y.bill(2 * time.Minute)
		begun := y.View().Account().Begun()
		y.order(&statepb.Command{Op: &statepb.Command_CountUsage{CountUsage: &statepb.CountUsage{
			Runs: []*statepb.UsageRun{{Run: "r", Sequence: 1}},
			Minutes: []*statepb.CountedMinute{{MinuteUnixS: begun.Add(time.Hour).Unix(), Lines: []*statepb.CountedLine{
				{Tenant: "acme", Model: "m", Class: "chat", Cluster: "c", Region: "us", Source: "us", Input: 1, Work: 1e9, Succeeded: 1},
			}}},
		}}})
		if got := price(); got != 0 {
			t.Errorf("before anything was measured a million tokens cost %d", got)
		}
		y.bill(2*time.Hour + time.Minute)
		first := price()
		if first == 0 || first > 6_000_000 {
			t.Errorf("a million tokens cost %d", first)
		}
		y.bill(10 * time.Minute)
		if got := price(); got != first || y.loop.measured.until.IsZero() {
			t.Errorf("the price went from %d to %d", first, got)
		}
	})
}
