package node

import (
	"context"
	"time"

	"anabranch/api/fleet"
	rehearsal "anabranch/controlplane/drill"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/failover/drill"
	"anabranch/sim/report"
)

// rehearsals forecasts for the dry runs of drills.
type rehearsals struct{}

// Rehearse implements [rehearsal.Simulator].
func (rehearsals) Rehearse(ctx context.Context, of *state.View, change plan.Change, signals signal.Snapshot) (before, after *rehearsal.Figures, note string, err error) {
	out, err := whatIf(ctx, of, of, change, signals)
	if err != nil {
		return nil, nil, "", err
	}
	return firstTokens(out.Before), firstTokens(out.After), out.Note, nil
}

func firstTokens(f *report.Figures) *rehearsal.Figures {
	if f == nil {
		return nil
	}
	out := &rehearsal.Figures{}
	if f.TTFT.P50.Known() {
		out.TTFTP50Ms = float64(f.TTFT.P50)
	}
	if f.TTFT.P95.Known() {
		out.TTFTP95Ms = float64(f.TTFT.P95)
	}
	return out
}

// isolate cuts this node, which leads, off from its peers for a drill of the control plane.
func (n *Node) isolate(d time.Duration) error {
	healthy := map[fleet.NodeID]bool{}
	for _, p := range n.forward.Peers() {
		healthy[p.ID] = p.Age < silent
	}
	return n.store.Isolate(d, func(id fleet.NodeID) bool { return healthy[id] })
}

// dryRun finds what a drill would do, for the API.
func (n *Node) dryRun(ctx context.Context, of *state.View, spec []byte, signals signal.Snapshot, _ time.Time) (rest.DrillDryRun, error) {
	parsed, err := rehearsal.SpecOf(spec)
	if err != nil {
		return rest.DrillDryRun{}, err
	}
	found, err := rehearsal.DryRun(ctx, rehearsal.DryInput{View: of, Signals: signals, Plan: n.leader.Input(of, signals), Simulator: rehearsals{}}, parsed)
	if err != nil {
		return rest.DrillDryRun{}, err
	}
	return rest.DrillDryRun{
		Spec: spec, Resolved: found.Resolved, Forecast: found.Forecast,
		Refused: string(found.Refused), Cause: string(found.Cause), Reason: found.Why,
	}, nil
}

// readyWithin is for how long one question simulates regions: those that are left are asked for by name.
const readyWithin = 3 * time.Second

// drillable says which regions may be drilled, for the API.
func (n *Node) drillable(ctx context.Context, of *state.View, kind drill.Kind, regions []fleet.RegionID, signals signal.Snapshot, _ time.Time) ([]drill.Readiness, error) {
	end := time.Now().Add(readyWithin)
	in := rehearsal.DryInput{View: of, Signals: signals, Plan: n.leader.Input(of, signals)}
	return rehearsal.Ready(ctx, in, kind, regions, func() bool { return time.Now().Before(end) })
}
