package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"anabranch/sim/report/stat"
)

// Comparison is two reports side by side: a simulation and reality, or before and after.
type Comparison struct {
	A, B *Report
	// Pairs of what was compared, in the order of A.
	Pairs []Pair
	// Alone are the policies that only one of them has.
	Alone []string
}

// Pair is one policy in both reports.
type Pair struct {
	// Name is the policy's, or both if they differ.
	Name string
	Rows []Difference
	a, b []Figures
}

// Difference of one figure.
type Difference struct {
	Metric Metric
	A, B   stat.Estimate
	// Change from A to B. It is paired by seed where at least two seeds are in both, and else that of
	// two series of runs that have nothing in common (Welch).
	Change stat.Change
}

// Compare sets b against a, policy by policy. If each has one policy, these are compared, whatever
// their names.
func Compare(a, b *Report) Comparison {
	c := Comparison{A: a, B: b}
	pa, pb := a.Policies(), b.Policies()
	if len(pa) == 1 && len(pb) == 1 {
		name := pa[0]
		if pb[0] != name {
			name += " → " + pb[0]
		}
		c.Pairs = append(c.Pairs, pair(name, a.Of(pa[0]), b.Of(pb[0])))
		return c
	}
	for _, p := range pa {
		if slices.Contains(pb, p) {
			c.Pairs = append(c.Pairs, pair(p, a.Of(p), b.Of(p)))
		} else {
			c.Alone = append(c.Alone, p)
		}
	}
	for _, p := range pb {
		if !slices.Contains(pa, p) {
			c.Alone = append(c.Alone, p)
		}
	}
	return c
}

// pair compares every figure that either knows and that isn't 0 in both.
func pair(name string, a, b []Figures) Pair {
	p := Pair{Name: name, a: a, b: b}
	sa, sb := Summarise(a), Summarise(b)
	for _, m := range metrics {
		ea, eb := sa.Figures[m.Key], sb.Figures[m.Key]
		if !ea.Mean.Known() && !eb.Mean.Known() || ea.Mean == 0 && eb.Mean == 0 {
			continue
		}
		change := Changed(m, a, b)
		if change.N < 2 {
			change = stat.Unpaired(valuesOf(m, a), valuesOf(m, b), m.Relative())
		}
		p.Rows = append(p.Rows, Difference{Metric: m, A: ea, B: eb, Change: change})
	}
	return p
}

func valuesOf(m Metric, runs []Figures) []stat.Number {
	out := make([]stat.Number, len(runs))
	for i := range runs {
		out[i] = m.Of(&runs[i])
	}
	return out
}

// Agreement is by how much the medians and 95th percentiles of first-token times differ at most, as
// a share of A's: 0.1 is 10 %. Unknown without a pair that has them.
func (c Comparison) Agreement() stat.Number {
	out := stat.Unknown
	for _, p := range c.Pairs {
		for _, d := range p.Rows {
			if (d.Metric.Key == "ttftMs.p50" || d.Metric.Key == "ttftMs.p95") && d.Change.Relative {
				out = higher(out, stat.Number(math.Abs(float64(d.Change.Mean))))
			}
		}
	}
	return out
}

// headline says how well they agree.
func (c Comparison) headline() string {
	agreement := c.Agreement()
	switch {
	case len(c.Pairs) == 0:
		return "Nothing to compare: the reports have no policy in common."
	case !agreement.Known():
		return "One of the reports has no first-token times."
	}
	return fmt.Sprintf("P50 and P95 of the time to first token differ by at most %s %%.", decimal(float64(agreement)*percent, 1))
}

// about says what A and B are.
func (c Comparison) about() []string {
	var out []string
	for i, r := range []*Report{c.A, c.B} {
		how := "simulated"
		if r.Real {
			how = "really sent"
		}
		runs := len(r.Runs) / max(len(r.Policies()), 1)
		out = append(out, fmt.Sprintf("%c: %s, %s, %d × each policy.", 'A'+i, r.Title, how, runs))
	}
	if len(c.Alone) > 0 {
		out = append(out, "In one of them only: "+strings.Join(c.Alone, ", ")+".")
	}
	return out
}

func (c Comparison) tables() []grid {
	var out []grid
	for _, p := range c.Pairs {
		g := grid{Title: p.Name, Head: []string{"figure", "A", "B", "change"}}
		for _, d := range p.Rows {
			g.Rows = append(g.Rows, []cell{
				{Text: d.Metric.Head()},
				{Text: d.Metric.ShowEstimate(d.A)},
				{Text: d.Metric.ShowEstimate(d.B)},
				{d.Metric.ShowChange(d.Change), d.Change.Sure(threshold)},
			})
		}
		g.Note = "From A to B, with 95 % intervals where there are at least two runs of each; pp are points of a per cent. " +
			"What stands out is sure: its interval excludes 0 and it is more than 3 %."
		out = append(out, g)
	}
	return out
}

// Text prints the comparison for a terminal.
func (c Comparison) Text(w io.Writer, o Options) error {
	o.Width = cmp.Or(o.Width, 120)
	var b bytes.Buffer
	for _, p := range append([]string{c.headline()}, c.about()...) {
		fmt.Fprintf(&b, "%s\n\n", wrap(p, o.Width))
	}
	for _, g := range c.tables() {
		g.text(&b, o.Width, o.Bold)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// HTML writes the comparison as one page that needs nothing else.
func (c Comparison) HTML(w io.Writer) error {
	p := page{
		Title: "Comparison of two reports", About: c.about(), Heading: "Agreement",
		Verdict: Verdict{Headline: c.headline()}, Tables: c.tables(),
	}
	for i, pair := range c.Pairs {
		p.Pictures = append(p.Pictures, distribution(fmt.Sprintf("ttft-%d", i), "Time to first token: "+pair.Name, []runsOf{
			{name: "A", colour: 0, strong: true, runs: pair.a}, {name: "B", colour: 1, strong: true, runs: pair.b},
		}))
	}
	p.Pictures = slices.DeleteFunc(p.Pictures, func(p picture) bool { return p.SVG == "" })
	return p.write(w)
}
