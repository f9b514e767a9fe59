package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"anabranch/controlplane/policy"
	"anabranch/sim/report"
	"anabranch/sim/report/stat"
	"anabranch/sim/world"
)

// MaxPreferences is how many points a trade-off has at most.
const MaxPreferences = 21

// LeastLatency is what a trade-off is held against: the policy oracle: it knows all that is, gives each request the place with the least true time to
// the first token, counts what that costs those who wait, and cares for no money. It does not know what comes,
// so it is a strong reference and not a bound: who leaves room for what comes may be better.
const LeastLatency = "least latency (" + Oracle + ")"

// tradeoffFigures are those that a trade-off is about.
var tradeoffFigures = []string{
	"cost.workPerAnswerMicroUSD", "cost.overBound", "ttftMs.p50", "ttftMs.p99", "latencyMs.p50", "routing.crossRegion", "ends.lost",
}

// Tradeoffs are the shipped scenarios that a proof shows what money buys in: those in which prices differ.
func Tradeoffs() []string { return []string{"day", "price-spike"} }

// Preferences are those that a policy's objective has words for.
func Preferences() []float64 { return []float64{0, 0.25, 0.5, 0.75, 1} }

// WriteTradeoffs writes what money buys, as Markdown, and how to choose by it.
func WriteTradeoffs(w io.Writer, all []*report.Report) error {
	var b bytes.Buffer
	b.WriteString(`# What money buys

As ` + "`anabranch sim tradeoff`" + ` shows it: ` + "`ours`" + ` by its cost preference, which a TrafficPolicy's ` + "`objective`" + ` says in words.
*Least latency* is the oracle: it sees all queues as they are, and gives each request the place that answers it
first, at whatever price. It does not know what comes, so it is no bound. Choose the first objective at which a step
more saves little money, or costs more latency than users should notice: ` + "`latency-first`" + ` for people who wait,
` + "`cost-first`" + ` for batches; the objective of the first token bounds them all.

`)
	for _, r := range all {
		fmt.Fprintf(&b, "## %s\n\n", r.Title)
		for _, text := range r.About {
			fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(text))
		}
		if err := r.Table(&b, tradeoffFigures); err != nil {
			return err
		}
		b.WriteString("\n\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// TradeoffFigures are the keys of the figures that a trade-off is about.
func TradeoffFigures() []string { return slices.Clone(tradeoffFigures) }

// PreferenceName is how a report calls ours with a cost preference.
func PreferenceName(preference float64) string {
	return fmt.Sprintf("%.3g %s", preference, policy.ObjectiveTitle(preference))
}

// Tradeoff plays one variant by Anabranch's policy with several cost preferences, 0 to 1, and tells what money
// buys: a report in which each preference is a policy, beside [LeastLatency]. Of fleets of more than one cluster it
// says what the work would cost at the least, whatever becomes of latency, by package bound's linear program. What the document says of preferences does not count, and what is expected is not
// looked at. Options.Policies must be empty, and of Variants one may be named; none: the first.
func (s *Scenario) Tradeoff(ctx context.Context, o Options, preferences []float64) (*report.Report, error) {
	switch {
	case len(o.Policies) > 0:
		return nil, errors.New("policies: a trade-off is played by ours alone")
	case len(o.Variants) > 1:
		return nil, errors.New("variants: a trade-off is of one")
	case len(preferences) == 0 || len(preferences) > MaxPreferences:
		return nil, fmt.Errorf("preferences: %d are not 1 to %d", len(preferences), MaxPreferences)
	}
	for i, p := range preferences {
		if !(p >= 0 && p <= 1) || slices.Contains(preferences[:i], p) {
			return nil, fmt.Errorf("preferences: %g is not 0 to 1, or is there twice", p)
		}
	}
	if names := s.Variants(); len(o.Variants) == 0 && len(names) > 0 {
		o.Variants = names[:1]
	}
	o.Policies = []string{Ours}
	found, err := s.lanes(&o)
	if err != nil {
		return nil, err
	}
	if o.Seeds == 0 {
		o.Seeds = s.Seeds
	}
	return found[0].tradeoff(ctx, &o, preferences)
}

// tradeoff makes the runs of all preferences, and those of the oracle last.
func (l *lane) tradeoff(ctx context.Context, o *Options, preferences []float64) (*report.Report, error) {
	points := len(preferences) + 1
	runs := make([]report.Figures, points*o.Seeds)
	meter := &meter{tell: o.Progress, total: float64(len(runs))}
	if err := inParallel(ctx, o.Parallel, len(runs), func(ctx context.Context, i int) error {
		who, name, play := Oracle, LeastLatency, *l
		if at := i / o.Seeds; at < len(preferences) {
			with := *l.Scenario
			with.preference = &preferences[at]
			who, name, play.Scenario = Ours, PreferenceName(preferences[at]), &with
		}
		seed := uint64(i%o.Seeds) + 1
		result, err := play.once(ctx, who, seed, o, world.Options{Progress: meter.part()})
		if err != nil {
			return fmt.Errorf("%s: %s with seed %d: %w", l.title(), name, seed, err)
		}
		runs[i], err = play.figures(result)
		runs[i].Policy, runs[i].Timeline = name, nil
		return err
	}); err != nil {
		return nil, err
	}
	r := report.New(l.title()+": what money buys", runs)
	r.About = []string{l.About}
	if least := leastCost(runs[:o.Seeds]); least.Mean.Known() {
		m, err := report.Lookup("cost.workPerAnswerMicroUSD")
		if err != nil {
			return nil, err
		}
		r.About = append(r.About, fmt.Sprintf("The same work would cost %s µ$ for each answer at the least, whatever becomes of latency, by a linear program over where it is done and, within %s, when.", m.ShowEstimate(least), l.boundEvery()))
	}
	r.Ours, r.Oracle = PreferenceName(preferences[0]), LeastLatency
	return r, nil
}

// leastCost is what the work of runs could have cost for each answer. Unknown: there is one cluster only.
func leastCost(runs []report.Figures) stat.Estimate {
	least := make([]stat.Number, len(runs))
	for i := range runs {
		least[i] = stat.Ratio(float64(runs[i].Cost.WorkPerAnswer), float64(runs[i].Cost.OverBound))
	}
	return stat.Estimated(least)
}

// prefer puts a cost preference in the place of those that resources have, and adds a policy for all models where
// there is none.
func (s *Scenario) prefer(resources []*policy.Resource) ([]*policy.Resource, error) {
	if s.preference == nil {
		return resources, nil
	}
	had := false
	for i := range resources {
		if spec, ok := resources[i].Spec.(*policy.TrafficPolicySpec); ok {
			spec.CostPreference, spec.Objective, had = *s.preference, "", true
		}
	}
	if had {
		return resources, nil
	}
	models := make([]string, len(s.Fleet.Models))
	for i, m := range s.Fleet.Models {
		models[i] = string(m.ID)
	}
	more, problems := policy.ParseAll(fmt.Appendf(nil,
		"apiVersion: anabranch/v1\nkind: TrafficPolicy\nmetadata: {name: tradeoff}\nspec: {models: [%s], costPreference: %g}\n",
		strings.Join(models, ", "), *s.preference))
	if len(problems) > 0 {
		return nil, fmt.Errorf("a policy for all models: %s", problems[0].Reason)
	}
	return append(resources, more...), nil
}
