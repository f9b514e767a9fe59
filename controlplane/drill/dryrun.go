package drill

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/costmodel"
	"anabranch/failover/drill"
	"anabranch/failover/shift"
)

// simulateWithin bounds a simulation.
const simulateWithin = 20 * time.Second

// Simulator forecasts first tokens in virtual time.
type Simulator interface {
	// Rehearse runs the traffic that signals tell, as it is and with a change. Nil figures: there was nothing to
	// simulate, and note says why.
	Rehearse(ctx context.Context, of *state.View, change plan.Change, signals signal.Snapshot) (before, after *Figures, note string, err error)
}

// Figures are of a simulated run; 0: not known.
type Figures struct {
	TTFTP50Ms, TTFTP95Ms float64
}

// DryInput is what a dry run goes by.
type DryInput struct {
	View    *state.View
	Signals signal.Snapshot
	// Plan is the input of the planner, as the leader has it.
	Plan plan.Input
	// Simulator may be nil.
	Simulator Simulator

	past *past // what the account says, where several dry runs go by the same; nil: it is asked
}

// Findings are what a dry run found.
type Findings struct {
	Resolved drill.Resolved
	Forecast drill.Forecast
	// Refused is the outcome of a drill that may not go on, with its cause and why; empty: it may.
	Refused drill.Outcome
	Cause   drill.Cause
	Why     string
}

// DryRun says what a drill would do, without doing any of it. The same input gives the same findings. The error is
// ctx's.
func DryRun(ctx context.Context, in DryInput, spec *policy.DrillPlanSpec) (Findings, error) {
	p := spec.Plan()
	rules := policy.DrillRulesOf(in.View)
	out := Findings{Resolved: resolve(in, spec, rules)}
	f, err := forecast(ctx, in, p, out.Resolved)
	if err != nil {
		return Findings{}, err
	}
	out.Forecast = f
	switch {
	case len(out.Resolved.Clusters) == 0 && drilledKind(p.Kind):
		out.Refused, out.Cause, out.Why = drill.Blocked, drill.CauseRule, "no cluster of the target serves any of its models"
	case ruled(in, p, out.Resolved) != "":
		out.Refused, out.Cause, out.Why = drill.Blocked, drill.CauseRule, ruled(in, p, out.Resolved)
	case f.Verdict == drill.VerdictBlock && p.Kind != drill.PlanOnly && p.Kind != drill.Shadow:
		out.Refused, out.Cause, out.Why = drill.CapacityFailed, drill.CauseCapacity, f.Worst()
	}
	return out, nil
}

// ruled says which safety rule is against a drill whenever it begins; empty: none. What is a matter of time is judged
// right before the start.
func ruled(in DryInput, p drill.Plan, r drill.Resolved) string {
	w := worldNow(Look{View: in.View, Signals: in.Signals}, nil, r) // no budget is a rule that holds whenever it begins
	for _, b := range drill.Check(policy.DrillRulesOf(in.View), w, p, in.Signals.At) {
		if b.Cause == drill.CauseRule {
			return b.Text
		}
	}
	return ""
}

func drilledKind(k drill.Kind) bool { return k != drill.ControlPlane && k != drill.QuotaStore }

// mostRouters bounds the routers that are named.
const mostRouters = 1000

// resolve finds what the names of a plan stand for.
func resolve(in DryInput, spec *policy.DrillPlanSpec, rules drill.Rules) drill.Resolved {
	var out drill.Resolved
	models := map[string]bool{}
	for _, r := range in.View.List(policy.KindCluster) {
		c, ok := r.Spec.(*policy.ClusterSpec)
		t := spec.Target
		named := ok && (t.Cluster == r.Metadata.Name || slices.Contains(t.Clusters, r.Metadata.Name) || t.Region != "" && t.Region == c.Region && c.Type != policy.TypeProvider)
		if !named || !drilledKind(drill.Kind(spec.Kind)) {
			continue
		}
		serves := false
		for _, m := range c.Models {
			if len(spec.Models) == 0 || slices.Contains(spec.Models, m) {
				serves, models[m] = true, true
			}
		}
		if serves {
			out.Clusters = append(out.Clusters, fleet.ClusterID(r.Metadata.Name))
			if !slices.Contains(out.Regions, fleet.RegionID(c.Region)) {
				out.Regions = append(out.Regions, fleet.RegionID(c.Region))
			}
		}
	}
	for _, r := range in.View.List(policy.KindModel) {
		if models[r.Metadata.Name] {
			out.Models = append(out.Models, fleet.ModelID(r.Metadata.Name))
		}
	}
	var named, all []fleet.TenantID
	for _, t := range spec.Tenants {
		named = append(named, fleet.TenantID(t))
	}
	for _, r := range in.View.List(policy.KindTenant) {
		all = append(all, fleet.TenantID(r.Metadata.Name))
	}
	out.Tenants = rules.Scope(named, all)
	for _, o := range in.Signals.Routers {
		if o.Connected && len(out.Routers) < mostRouters {
			out.Routers = append(out.Routers, o.Router())
		}
	}
	slices.Sort(out.Regions)
	slices.Sort(out.Routers)
	return out
}

// forecast simulates the drill at its full extent, at the trailing peak.
func forecast(ctx context.Context, in DryInput, p drill.Plan, r drill.Resolved) (drill.Forecast, error) {
	past := in.past
	if past == nil {
		past = pastOf(in.View.Account(), in.Signals.At, r)
	}
	x := plan.Drill{Kind: p.Kind, Clusters: r.Clusters, Models: r.Models, Tenants: r.Tenants}
	now := plan.Rehearsal(in.Plan, x, 1)
	factor := 1.0
	if now.Before.WorkPerS > 0 && past.peak > now.Before.WorkPerS {
		factor = past.peak / now.Before.WorkPerS
	}
	e := now
	if factor > 1 {
		e = plan.Rehearsal(in.Plan, x, factor)
	}
	part := p.Percent / 100 * past.share
	f := drill.Forecast{ColdFactor: past.cold, PeakWork: e.Before.WorkPerS, PeakUnixMs: past.peakAt, Notes: past.notes}
	if factor == 1 {
		f.PeakUnixMs = in.Signals.At.UnixMilli()
	}
	f.Survivors = survivors(in, e, r, p.Kind, part, past.cold)
	f.Verdict = verdict(f.Survivors)
	f.MicrosPerMinuteMore = int64(math.Round((e.After.MarginalPerHour.USD - e.Before.MarginalPerHour.USD) * 1e6 / 60 * part))
	f.Stranded = stranded(in, r, p.Kind)
	if drilledKind(p.Kind) && p.Kind != drill.FailbackOnly {
		f.Slower = slower(in, e, r)
	}
	f.Quotas = append(f.Quotas, quotas(in, p, r)...)
	return f, simulate(ctx, in, p, r, factor, e, &f)
}

// survivors are the clusters that stay. What moves counts as so much more work as it arrives cold; what the planner would
// shed is work that nobody has room for, and is spread over all.
func survivors(in DryInput, e plan.Effect, r drill.Resolved, kind drill.Kind, part, cold float64) []drill.Survivor {
	was := map[fleet.ClusterID]plan.SitePicture{}
	for _, s := range e.Before.Sites {
		was[s.Cluster] = s
	}
	room, missing := 0.0, max(unserved(e.After)-unserved(e.Before), 0)
	for _, s := range e.After.Sites {
		if stays(s, r, kind) {
			room += s.CapacityPerS
		}
	}
	var out []drill.Survivor
	for _, s := range e.After.Sites {
		if !stays(s, r, kind) {
			continue
		}
		before := was[s.Cluster].Use
		moved := (s.Use - before) * part
		if moved > 0 {
			moved *= cold
		}
		if room > 0 {
			moved += missing / room * part * cold
		}
		one := drill.Survivor{Cluster: s.Cluster, Region: s.Region, Before: rounded(before), With: rounded(max(before+moved, 0))}
		for _, m := range modelsOf(in.View, s.Cluster) {
			one.Measured = one.Measured || in.Signals.Ability(s.Cluster, m).Capacity > 0
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b drill.Survivor) int {
		return cmp.Or(cmp.Compare(b.With, a.With), cmp.Compare(a.Cluster, b.Cluster))
	})
	return out
}

// unserved is work that finds no room: shed, or beyond what clusters should do.
func unserved(p plan.Picture) float64 {
	sum := p.OverPerS
	for _, s := range p.Shed {
		sum += s.WorkPerS
	}
	return sum
}

func stays(s plan.SitePicture, r drill.Resolved, kind drill.Kind) bool {
	return !s.Lost && (kind == drill.FailbackOnly || !slices.Contains(r.Clusters, s.Cluster))
}

func rounded(x float64) float64 { return math.Round(x*1e4) / 1e4 }

func modelsOf(v *state.View, cluster fleet.ClusterID) []fleet.ModelID {
	r, ok := v.Get(policy.KindCluster, string(cluster))
	if !ok {
		return nil
	}
	var out []fleet.ModelID
	if spec, ok := r.Spec.(*policy.ClusterSpec); ok {
		for _, m := range spec.Models {
			out = append(out, fleet.ModelID(m))
		}
	}
	return out
}

func verdict(survivors []drill.Survivor) string {
	worst := 0.0
	for _, s := range survivors {
		if s.With > s.Before || s.With > 1 { // what the drill does not touch is no fault of it
			worst = max(worst, s.With)
		}
	}
	return drill.VerdictOf(worst)
}

// past is what the account says of the hour before.
type past struct {
	peak   float64 // work per second, all of it, in the busiest minute
	peakAt int64
	cold   float64
	share  float64 // the scope's tenants' part of the work, 0..1
	notes  []string
}

// workOf is work as demand is told: in units of an input token, whether a cache had it or not.
func workOf(s costmodel.Sum) float64 {
	const perUnit = 1000 // costmodel counts thousandths
	return float64(s.Work)/perUnit + (1-costmodel.CachedWeight)*float64(s.Cached)
}

// pastOf reads the last hour, and the same hour of a week before.
func pastOf(a account.Account, now time.Time, r drill.Resolved) *past {
	out := &past{cold: shift.Unmeasured.Factor(), share: 1}
	minutes, err := a.Ask(account.Query{From: now.Add(-time.Hour), Until: now, Step: account.ByMinute, By: costmodel.ByTenant})
	if err != nil || len(minutes.Rows) == 0 {
		out.notes = append(out.notes, "The account knows nothing of the last hour: the demand of now is taken for the peak, and caches for unmeasured.")
		return out
	}
	work := map[int64]float64{}
	var all, scoped, input, cached, total float64
	for _, row := range minutes.Rows {
		did := workOf(row.Sum)
		work[row.Start.UnixMilli()] += did
		all += did
		if len(r.Tenants) == 0 || slices.Contains(r.Tenants, row.Key.Tenant) {
			scoped += did
		}
		input, cached, total = input+float64(row.Input), cached+float64(row.Cached), total+did
	}
	for at, w := range work {
		if w/60 > out.peak || w/60 == out.peak && at < out.peakAt {
			out.peak, out.peakAt = w/60, at
		}
	}
	if all > 0 && len(r.Tenants) > 0 {
		out.share = scoped / all
	}
	if input > 0 && total > 0 {
		out.cold = shift.Cold{Prefill: (input - cached) / max(total-cached, 1), Hit: cached / input}.Factor()
	}
	out.daily(a, now)
	return out
}

// daily raises the peak to that of the same hour on the days before, as far as they are known by the hour.
func (p *past) daily(a account.Account, now time.Time) {
	const days = 7
	hours, err := a.Ask(account.Query{From: now.Add(-days * 24 * time.Hour), Until: now, Step: account.ByHour})
	if err != nil {
		return
	}
	current, ratio := 0.0, 1.0
	for _, row := range hours.Rows {
		if now.Sub(row.Start) < time.Hour+time.Minute {
			current = max(current, workOf(row.Sum)/max(row.Until.Sub(row.Start).Seconds(), 1))
		}
	}
	for _, row := range hours.Rows {
		mean := workOf(row.Sum) / max(row.Until.Sub(row.Start).Seconds(), 1)
		if row.Start.Hour() == now.UTC().Hour() && current > 0 && mean/current > ratio {
			ratio = mean / current
			p.peakAt = row.Start.UnixMilli()
		}
	}
	p.peak *= ratio
}

// stranded are tenants of the scope that had a legal place for a model and would have none.
func stranded(in DryInput, r drill.Resolved, kind drill.Kind) []drill.Stranded {
	const most = 100
	if !drilledKind(kind) || kind == drill.FailbackOnly {
		return nil
	}
	zones := map[string]string{}
	for _, res := range in.View.List(policy.KindRegion) {
		if spec, ok := res.Spec.(*policy.RegionSpec); ok {
			zones[res.Metadata.Name] = cmp.Or(spec.Zone, res.Metadata.Name)
		}
	}
	var out []drill.Stranded
	for _, res := range in.View.List(policy.KindTenant) {
		spec, ok := res.Spec.(*policy.TenantSpec)
		id := fleet.TenantID(res.Metadata.Name)
		if !ok || len(spec.Residency) == 0 || len(r.Tenants) > 0 && !slices.Contains(r.Tenants, id) {
			continue
		}
		for _, m := range r.Models {
			before, after := 0, 0
			for _, c := range in.View.List(policy.KindCluster) {
				at, ok := c.Spec.(*policy.ClusterSpec)
				if !ok || at.Drained || !slices.Contains(at.Models, string(m)) || !slices.Contains(spec.Residency, at.Region) && !slices.Contains(spec.Residency, zones[at.Region]) {
					continue
				}
				before++
				if !slices.Contains(r.Clusters, fleet.ClusterID(c.Metadata.Name)) {
					after++
				}
			}
			if before > 0 && after == 0 && len(out) < most {
				out = append(out, drill.Stranded{Tenant: id, Model: m, Why: "no cluster that stays lies where its residency allows"})
			}
		}
	}
	return out
}

// quotas tells what becomes of shares of quotas.
func quotas(in DryInput, p drill.Plan, r drill.Resolved) []string {
	const most = 20
	var out []string
	for _, res := range in.View.List(policy.KindQuota) {
		spec, ok := res.Spec.(*policy.QuotaSpec)
		if !ok || len(out) >= most {
			continue
		}
		switch {
		case p.Kind == drill.QuotaStore:
			out = append(out, fmt.Sprintf("quota %s is counted by each router on its own while the store is treated as lost", res.Metadata.Name))
		case spec.HomeRegion != "" && slices.Contains(r.Regions, fleet.RegionID(spec.HomeRegion)):
			out = append(out, fmt.Sprintf("quota %s stays at home in %s: its routers and store are not drilled, and shares go by where clients ask", res.Metadata.Name, spec.HomeRegion))
		}
	}
	return out
}

// simulate adds first-token times. What it can't know is noted, and is no fault of the drill.
func simulate(ctx context.Context, in DryInput, p drill.Plan, r drill.Resolved, factor float64, e plan.Effect, f *drill.Forecast) error {
	more := e.After.RTTMs - e.Before.RTTMs
	if in.Simulator == nil || !drilledKind(p.Kind) || p.Kind == drill.FailbackOnly {
		f.Notes = append(f.Notes, fmt.Sprintf("First tokens are not simulated; distances alone add %.0f ms in the mean.", more))
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, simulateWithin)
	defer cancel()
	change := plan.Change{WithoutClusters: r.Clusters, Demand: []plan.DemandChange{{Factor: factor}}}
	before, after, note, err := in.Simulator.Rehearse(ctx, in.View, change, in.Signals)
	if note != "" {
		f.Notes = append(f.Notes, note)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		f.Notes = append(f.Notes, fmt.Sprintf("The simulation did not finish within %s.", simulateWithin))
	case err != nil:
		f.Notes = append(f.Notes, "The simulation failed: "+err.Error())
	default:
		if before != nil {
			f.TTFTP50BeforeMs, f.TTFTP95BeforeMs = before.TTFTP50Ms, before.TTFTP95Ms
		}
		if after != nil {
			f.TTFTP50Ms, f.TTFTP95Ms = after.TTFTP50Ms, after.TTFTP95Ms
		}
	}
	return nil
}
