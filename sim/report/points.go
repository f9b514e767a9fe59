package report

import (
	"fmt"
	"slices"
	"strings"

	"anabranch/sim/report/stat"
)

const (
	// hardly is the hit rate below which requests share too little for prefixes to matter.
	hardly = 0.05
	// uneven is how much more than its fair share a pod may serve before it speaks against a policy,
	// if the baseline is more even.
	uneven = 1.25
)

// points tells what was measured.
func (r *Report) points(ours []Figures, all []standing) []Point {
	out := []Point{r.reuse(ours, all), r.imbalance(ours, all)}
	for _, s := range all {
		out = append(out, r.against(s, ours))
	}
	out = append(out, r.money(ours, all), r.residency(ours), r.unanswered(ours, all))
	if oracle := r.Of(r.oracle()); len(oracle) > 0 {
		out = append(out, Point{"gap to " + r.oracle(), percentiles(oracle, ours), Neutral})
	}
	if text, bound := told("cost.overBound", ours); bound.Known() {
		out = append(out, Point{"gap to the bound", "the cost is " + text + " times its lower bound", Neutral})
	}
	return slices.DeleteFunc(out, func(p Point) bool { return p.Text == "" })
}

// metric by a key that is known to be one.
func metric(key string) Metric {
	m, err := Lookup(key)
	if err != nil {
		panic(err) // a key in this package is wrong: tests come by here
	}
	return m
}

// told is a figure with its unit, and its mean.
func told(key string, runs []Figures) (string, stat.Number) {
	m := metric(key)
	e := Summarise(runs).Figures[key]
	text := m.ShowEstimate(e)
	if m.Unit != Count {
		text += " " + string(m.Unit)
	}
	return text, e.Mean
}

// percentiles of first-token times, as changes.
func percentiles(base, ours []Figures) string {
	var out []string
	for _, key := range []string{"ttftMs.p50", "ttftMs.p95", "ttftMs.p99"} {
		m := metric(key)
		out = append(out, m.Label+" "+m.ShowChange(Changed(m, base, ours)))
	}
	return strings.Join(out, ", ")
}

// favour is what a change speaks for.
func favour(m Metric, c stat.Change) Kind {
	switch {
	case !c.Sure(threshold):
		return Neutral
	case (c.Mean > 0) == (m.Better > 0):
		return Good
	}
	return Bad
}

func (r *Report) reuse(ours []Figures, all []standing) Point {
	const key = "routing.hitRate"
	text, most := told(key, ours)
	p := Point{"prefix reuse", "", Neutral}
	if !most.Known() {
		return p
	}
	p.Text = fmt.Sprintf("%s found %s of prompt tokens in caches", r.ours(), text)
	best, other := "", stat.Unknown
	for _, s := range all {
		text, mean := told(key, r.Of(s.name))
		if higher(other, mean) != other {
			best, other = fmt.Sprintf("; the best of the others, %s, %s", s.name, text), mean
		}
	}
	most = higher(most, other)
	p.Text += best
	if len(all) > 0 {
		p.Kind = favour(metric(key), Changed(metric(key), r.Of(all[0].name), ours))
	}
	if most < hardly {
		p.Text += "; requests hardly share prefixes, so that little can be won by them"
		p.Kind = Neutral
	}
	return p
}

func (r *Report) imbalance(ours []Figures, all []standing) Point {
	const key = "balance.overFair"
	text, over := told(key, ours)
	p := Point{"balance", "", Neutral}
	if !over.Known() {
		return p
	}
	low, _ := told("balance.minShare", ours)
	high, _ := told("balance.maxShare", ours)
	p.Text = fmt.Sprintf("the busiest of equal pods served %s times its fair share; shares from %s to %s", text, low, high)
	if len(all) > 0 {
		text, base := told(key, r.Of(all[0].name))
		p.Text += fmt.Sprintf("; with %s %s times", all[0].name, text)
		if over > uneven && over > base*(1+threshold) {
			p.Kind = Bad
		}
	}
	return p
}

func (r *Report) against(s standing, ours []Figures) Point {
	p := Point{Subject: "against " + s.name, Text: percentiles(r.Of(s.name), ours), Kind: Neutral}
	if len(s.better) > 0 {
		p.Kind = Good
	}
	// First-token times are told already.
	if more := slices.DeleteFunc(slices.Clone(s.better), func(t string) bool { return strings.HasPrefix(t, "TTFT") }); len(more) > 0 {
		p.Text += "; better in " + strings.Join(more, ", ")
	}
	if len(s.worse) > 0 {
		p.Kind = Bad
		p.Text += "; worse in " + strings.Join(s.worse, ", ")
	}
	return p
}

func (r *Report) money(ours []Figures, all []standing) Point {
	p := Point{"cost of a whole answer", "", Neutral}
	for _, key := range []string{"cost.perAnswerMicroUSD", "cost.workPerAnswerMicroUSD"} {
		text, mean := told(key, ours)
		if !mean.Known() || mean == 0 {
			continue
		}
		what := "of the fleet"
		if p.Text != "" {
			p.Text, what = p.Text+"; ", "of its work alone"
		}
		p.Text += text + " " + what
		if len(all) > 0 {
			m := metric(key)
			c := Changed(m, r.Of(all[0].name), ours)
			p.Text += fmt.Sprintf(" (%s against %s)", m.ShowChange(c), all[0].name)
			if kind := favour(m, c); p.Kind == Neutral || kind == Bad {
				p.Kind = kind
			}
		}
	}
	return p
}

func (r *Report) residency(ours []Figures) Point {
	text, n := told("rules.residencyViolations", ours)
	switch {
	case !n.Known():
		return Point{}
	case n > 0:
		return Point{"residency", text + " requests a run were served where they may not be", Bad}
	}
	return Point{"residency", "no request was served where it may not be", Good}
}

func (r *Report) unanswered(ours []Figures, all []standing) Point {
	const key = "ends.lost"
	text, lost := told(key, ours)
	if !lost.Known() {
		return Point{}
	}
	p := Point{"not answered", text + " of the requests that quotas let in", Neutral}
	if len(all) > 0 {
		m := metric(key)
		base, _ := told(key, r.Of(all[0].name))
		p.Text += fmt.Sprintf("; with %s %s", all[0].name, base)
		p.Kind = favour(m, Changed(m, r.Of(all[0].name), ours))
	}
	return p
}
