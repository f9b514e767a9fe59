package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/failover/drill"
)

// MaxReady is how many regions one question simulates: each takes a good part of a second in a large fleet.
const MaxReady = 24

// Ready says of each region, by name, whether a drill of a kind may begin there now: with the defaults of such a plan, by
// the dry run and the rules that a drill is held to before its start. Regions are those asked for; none: all. Those
// beyond [MaxReady], and those after more has said that there is time for no more, are not simulated, and not ready for
// that; the first always is. First tokens are not simulated. Kinds without a target have no regions. The error is ctx's.
func Ready(ctx context.Context, in DryInput, kind drill.Kind, regions []fleet.RegionID, more func() bool) ([]drill.Readiness, error) {
	out := []drill.Readiness{}
	if !drilledKind(kind) {
		return out, nil
	}
	in.Simulator = nil
	look := Look{View: in.View, Signals: in.Signals}
	rules := policy.DrillRulesOf(in.View)
	left := budget(in.View.Account(), look) // of a week of the account, once for all regions
	simulated := true
	for _, res := range in.View.List(policy.KindRegion) {
		i := len(out)
		if len(regions) > 0 && !slices.Contains(regions, fleet.RegionID(res.Metadata.Name)) {
			continue
		}
		spec, err := defaultPlan(kind, res.Metadata.Name)
		if err != nil {
			return nil, err
		}
		if i == 0 { // nor does the last hour differ by region
			in.past = pastOf(in.View.Account(), in.Signals.At, resolve(in, spec, rules))
		}
		simulated = simulated && i < MaxReady && (i == 0 || more())
		found, err := dryRunOf(ctx, in, spec, rules, simulated)
		if err != nil {
			return nil, err
		}
		w := worldNow(look, nil, found.Resolved)
		w.ErrorBudget = left
		one := drill.ReadinessOf(rules, w, spec.Plan(), found.Forecast, in.Signals.At)
		one.Region, one.Clusters = fleet.RegionID(res.Metadata.Name), slices.Clone(found.Resolved.Clusters)
		if i == 0 {
			one.Opens = rules.Opens(spec.Plan(), w.LastMoved, in.Signals.At)
		} else {
			one.Opens = out[0].Opens
		}
		if !simulated {
			one.Ready = false
			one.Blocks = append(one.Blocks, drill.Block{Cause: drill.CauseCapacity, Text: fmt.Sprintf("it is not simulated yet, as one question has %d regions and some seconds: ask for it by its name", MaxReady)})
		}
		one.Last = lastOf(in.View, one.Region)
		out = append(out, one)
	}
	return out, nil
}

// dryRunOf makes a dry run, or no more than resolve what it is for.
func dryRunOf(ctx context.Context, in DryInput, spec *policy.DrillPlanSpec, rules drill.Rules, simulated bool) (Findings, error) {
	if !simulated {
		return Findings{Resolved: resolve(in, spec, rules)}, ctx.Err()
	}
	return DryRun(ctx, in, spec)
}

// defaultPlan is a plan of a region that leaves all to defaults.
func defaultPlan(kind drill.Kind, region string) (*policy.DrillPlanSpec, error) {
	doc, err := json.Marshal(policy.DrillPlanSpec{Kind: string(kind), Target: policy.DrillTarget{Region: region}})
	if err != nil {
		return nil, fmt.Errorf("write a plan of %s: %w", region, err)
	}
	return SpecOf(doc)
}

// lastOf is the last drill that may have moved traffic of a region; nil: none is remembered.
func lastOf(v *state.View, region fleet.RegionID) *drill.LastRun {
	for _, d := range slices.Backward(v.Drills()) {
		began := d.GetEndedUnixMs() != 0 && d.GetNotAfterUnixMs() != 0 && state.DrillKind(d).Moves()
		if began && slices.Contains(resolvedOf(d).Regions, region) {
			run := state.DrillRun(d)
			return &drill.LastRun{ID: strconv.FormatUint(d.GetId(), 10), Kind: state.DrillKind(d), Outcome: run.Outcome, Cause: run.Cause, EndedAt: run.Ended.UTC()}
		}
	}
	return nil
}
