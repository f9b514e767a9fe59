package node

import (
	"context"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/failover"
	"anabranch/sim/report"
	"anabranch/sim/report/stat"
	"anabranch/sim/whatif"
)

// simulator forecasts for dry runs.
type simulator struct{}

// Simulate implements [rest.Simulator].
func (s simulator) Simulate(ctx context.Context, before, after *state.View, signals signal.Snapshot) (was, willBe *rest.Forecast, note string, err error) {
	return s.run(ctx, before, after, plan.Change{}, signals)
}

// Suppose implements [rest.Simulator].
func (s simulator) Suppose(ctx context.Context, of *state.View, change plan.Change, signals signal.Snapshot) (was, willBe *rest.Forecast, note string, err error) {
	return s.run(ctx, of, of, change, signals)
}

func (simulator) run(ctx context.Context, before, after *state.View, change plan.Change, signals signal.Snapshot) (was, willBe *rest.Forecast, note string, err error) {
	out, err := whatIf(ctx, before, after, change, signals)
	if err != nil {
		return nil, nil, "", err
	}
	return forecast(out, out.Before), forecast(out, out.After), out.Note, nil
}

// whatIf plays a fleet before and after a change, with the clusters out of use that are now.
func whatIf(ctx context.Context, before, after *state.View, change plan.Change, signals signal.Snapshot) (whatif.Outcome, error) {
	dead := map[fleet.ClusterID]bool{}
	for _, h := range before.Health() {
		if (failover.Cluster{State: failover.State(h.GetState()), Share: 1}).Cap() == 0 {
			dead[fleet.ClusterID(h.GetCluster())] = true
		}
	}
	return whatif.Run(ctx, whatif.Input{Before: before, After: after, Signals: signals, Prices: after.Offers(), Dead: dead, Suppose: change})
}

// forecast says what a run did in the words of the API; nil: there was none.
func forecast(out whatif.Outcome, f *report.Figures) *rest.Forecast {
	if f == nil {
		return nil
	}
	part := func(n stat.Number) float64 {
		if share := stat.Ratio(float64(n), float64(f.Ends.Requests)); share.Known() {
			return float64(share)
		}
		return 0
	}
	r := &rest.Forecast{
		Seconds: out.Span.Seconds(), Requests: int(f.Ends.Requests),
		TTFTP50Ms: known(f.TTFT.P50), TTFTP99Ms: known(f.TTFT.P99),
		Shed: part(f.Ends.Shed + f.Ends.GaveUp), Failed: part(f.Ends.Failed + f.Ends.Cut),
	}
	if f.Goodput.Share.Known() {
		r.Goodput = float64(f.Goodput.Share)
	}
	if f.Cost.PerAnswer > 0 {
		r.MicroUSDPerAnswer = known(f.Cost.PerAnswer)
	}
	return r
}

func known(n stat.Number) *float64 {
	if !n.Known() {
		return nil
	}
	v := float64(n)
	return &v
}
