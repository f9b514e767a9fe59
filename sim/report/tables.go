package report

import (
	"fmt"
	"slices"

	"anabranch/sim/report/stat"
)

// columns of tables when none are chosen; those that nobody knows, or that are 0 everywhere, are left
// out.
var columns = []string{
	"ttftMs.p50", "ttftMs.p90", "ttftMs.p95", "ttftMs.p99", "interTokenMs.p50", "interTokenMs.p99", "latencyMs.p50",
	"latencyMs.p95", "latencyMs.p99", "goodput.share", "throughput.requestsPerS", "throughput.outputTokensPerS",
	"routing.hitRate", "balance.minShare", "balance.maxShare", "balance.cv", "routing.crossRegion", "routing.retries",
	"ends.lost", "ends.shed", "ends.denied", "queue.p99Ms", "queue.routers", "queue.pods", "preemptions",
	"weights.churnPerMinute", "weights.reversalsPerMinute", "rules.residencyViolations", "rules.quotaOver",
	"rules.quotaUnder", "cost.perAnswerMicroUSD", "cost.workPerAnswerMicroUSD", "cost.perMillionTokensMicroUSD",
	"cost.overBound", "recovery.seconds", "recovery.lostRequests", "recovery.peakWaitingPerPod",
}

// changes are the columns of the table of changes.
var changes = []string{
	"ttftMs.p50", "ttftMs.p95", "ttftMs.p99", "interTokenMs.p50", "latencyMs.p95", "goodput.share",
	"throughput.requestsPerS", "routing.hitRate", "cost.perAnswerMicroUSD", "cost.workPerAnswerMicroUSD",
}

// chosen are the metrics of keys, or of the defaults that say something.
func chosen(keys, defaults []string, summaries []Summary) ([]Metric, error) {
	var out []Metric
	for _, key := range keys {
		m, err := Lookup(key)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	if len(keys) > 0 {
		return out, nil
	}
	for _, key := range defaults {
		says := func(s Summary) bool {
			e := s.Figures[key]
			return e.Mean.Known() && (e.Mean != 0 || key == "rules.residencyViolations")
		}
		if slices.ContainsFunc(summaries, says) {
			out = append(out, metric(key))
		}
	}
	return out, nil
}

// figures is the table of policies; the best of each column stands out, the oracle not counted.
func (r *Report) figures(keys []string) (grid, error) {
	summaries := r.Summaries()
	shown, err := chosen(keys, columns, summaries)
	if err != nil {
		return grid{}, err
	}
	g := grid{Title: "Figures by policy", Head: []string{"policy"}}
	runs := 0
	for _, s := range summaries {
		g.Rows = append(g.Rows, []cell{{Text: s.Policy}})
		runs = max(runs, s.N)
	}
	for _, m := range shown {
		g.Head = append(g.Head, m.Head())
		best := r.best(m, summaries)
		for i, s := range summaries {
			e := s.Figures[m.Key]
			g.Rows[i] = append(g.Rows[i], cell{m.ShowEstimate(e), best.Known() && m.Show(e.Mean) == m.Show(best) && s.Policy != r.oracle()})
		}
	}
	g.Note = "One run of each policy, so no intervals."
	if runs > 1 {
		g.Note = fmt.Sprintf("Means of n = %d runs with half of their 95 %% confidence interval (Student's t).", runs)
	}
	return g, nil
}

// best mean of a metric; unknown if neither way is better, or all are the same.
func (r *Report) best(m Metric, summaries []Summary) stat.Number {
	best, worst := stat.Unknown, stat.Unknown
	for _, s := range summaries {
		mean := s.Figures[m.Key].Mean
		if s.Policy == r.oracle() || !mean.Known() {
			continue
		}
		if !best.Known() || mean*stat.Number(m.Better) > best*stat.Number(m.Better) {
			best = mean
		}
		if !worst.Known() || mean*stat.Number(m.Better) < worst*stat.Number(m.Better) {
			worst = mean
		}
	}
	if m.Better == 0 || best == worst {
		return stat.Unknown
	}
	return best
}

// changes is the table of how ours differs from every other policy; what is sure stands out. It is
// empty without ours.
func (r *Report) changes(keys []string) (grid, error) {
	ours := r.Of(r.ours())
	g := grid{Title: "Change by choosing " + r.ours(), Head: []string{"instead of"}}
	if len(ours) == 0 {
		return g, nil
	}
	shown, err := chosen(keys, changes, []Summary{Summarise(ours)})
	if err != nil {
		return grid{}, err
	}
	for _, m := range shown {
		g.Head = append(g.Head, m.Label)
	}
	others := r.baselines()
	if slices.Contains(r.Policies(), r.oracle()) {
		others = append(others, r.oracle())
	}
	for _, policy := range others {
		base := r.Of(policy)
		name := policy
		if policy == r.oracle() {
			name += " (gap)"
		}
		row := []cell{{Text: name}}
		for _, m := range shown {
			c := Changed(m, base, ours)
			row = append(row, cell{m.ShowChange(c), c.Sure(threshold)})
		}
		g.Rows = append(g.Rows, row)
	}
	g.Note = "Paired by seed, with 95 % intervals; pp are points of a per cent. What stands out is sure: " +
		"its interval excludes 0 and it is more than 3 %."
	return g, nil
}
