package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"anabranch/sim/report/chart"
	"anabranch/sim/report/stat"
)

// picture is a chart with a heading and how to read it.
type picture struct {
	Heading, Caption string
	SVG              template.HTML
}

// oracleColour is a grey: it isn't one to choose.
const oracleColour = 5

// colours of policies, the same in all charts: ours is the first.
func (r *Report) colours() map[string]int {
	out := map[string]int{}
	next := 1
	for _, p := range r.Policies() {
		switch p {
		case r.ours():
			out[p] = 0
		case r.oracle():
			out[p] = oracleColour
		default:
			if next%len(chart.Series) == 0 || next%len(chart.Series) == oracleColour {
				next++
			}
			out[p] = next
			next++
		}
	}
	return out
}

// pictures are the charts that say something about the report.
func (r *Report) pictures() []picture {
	out := []picture{r.curves(), r.forest()}
	out = append(out, r.bars("Goodput within the objectives", "goodput.share"),
		r.bars("Prompt tokens found in caches", "routing.hitRate"), r.pods())
	for _, o := range overTime {
		out = append(out, r.line(o))
	}
	out = append(out, r.weights()...)
	out = append(out, r.bars("Cost of the fleet per whole answer", "cost.perAnswerMicroUSD"),
		r.bars("Cost of the work per whole answer", "cost.workPerAnswerMicroUSD"),
		r.bars("Cost over its lower bound", "cost.overBound"))
	return slices.DeleteFunc(out, func(p picture) bool { return p.SVG == "" })
}

// wait prints milliseconds at an axis.
func wait(ms float64) string {
	if ms >= 1000 {
		return strconv.FormatFloat(ms/1000, 'g', 4, 64) + " s"
	}
	return strconv.FormatFloat(ms, 'g', 4, 64) + " ms"
}

func plain(x float64) string {
	if math.Abs(x) >= 1e5 {
		return decimal(x, 0)
	}
	return strconv.FormatFloat(x, 'g', 5, 64)
}

func perCent(x float64) string {
	return strings.Replace(strconv.FormatFloat(math.Round(x*1000)/10, 'g', 5, 64), "-", minus, 1) + " %"
}

// runsOf are the runs behind one curve.
type runsOf struct {
	name   string
	colour int
	strong bool
	runs   []Figures
}

// curves is the distribution of first-token times of every policy, over its seeds.
func (r *Report) curves() picture {
	colours := r.colours()
	var of []runsOf
	for _, p := range r.Policies() {
		of = append(of, runsOf{p, colours[p], p == r.ours(), r.Of(p)})
	}
	return distribution("ttft", "Time to first token", of)
}

func distribution(id, heading string, of []runsOf) picture {
	l := chart.Lines{
		Frame: chart.Frame{ID: id, Title: heading + ", distribution"},
		X:     "time to first token", Y: "share of requests within it", Top: 1, ShowX: wait, ShowY: perCent,
	}
	low, high := math.Inf(1), 0.0
	var told []string
	for _, o := range of {
		line := chart.Line{Name: o.name, Colour: o.colour, Strong: o.strong}
		for i, at := range CurveAt() {
			if x := curveAt(o.runs, i); x > 0 {
				line.X, line.Y = append(line.X, x), append(line.Y, at/100)
				low, high = min(low, x), max(high, x)
			}
		}
		if len(line.X) == 0 {
			continue
		}
		l.Lines = append(l.Lines, line)
		m := metric("ttftMs.p50")
		told = append(told, o.name+" "+m.Show(Summarise(o.runs).Figures[m.Key].Mean)+" ms")
	}
	if len(l.Lines) == 0 {
		return picture{}
	}
	l.Log = high > 20*low
	slices.SortStableFunc(l.Lines, func(a, b chart.Line) int { return cmp.Compare(a.X[len(a.X)/2], b.X[len(b.X)/2]) })
	l.Desc = "Curves of the share of requests that had their first token within a time. Medians: " + strings.Join(told, ", ") + "."
	caption := "Further left is better. Each percentile is the mean of all seeds."
	if l.Log {
		caption += " The axis of time is logarithmic."
	}
	return picture{heading, caption, l.SVG()}
}

// curveAt is the mean over runs of the i-th percentile of the curve; 0 without any.
func curveAt(runs []Figures, i int) float64 {
	var values []float64
	for k := range runs {
		if i < len(runs[k].Curve) && runs[k].Curve[i].Known() {
			values = append(values, float64(runs[k].Curve[i]))
		}
	}
	if len(values) == 0 {
		return 0
	}
	return float64(stat.Mean(values))
}

// forest is how first-token times change by choosing ours.
func (r *Report) forest() picture {
	ours := r.Of(r.ours())
	f := chart.Forest{
		Frame: chart.Frame{ID: "changes", Title: "Change of the time to first token by choosing " + r.ours()},
		X:     "change of TTFT by choosing " + r.ours(), Show: perCent, Band: threshold,
		Names: []string{"P50", "P95", "P99"}, Colours: []int{0, 1, 2},
	}
	for _, p := range r.baselines() {
		row := chart.ForestRow{Name: p}
		var told []string
		for _, key := range []string{"ttftMs.p50", "ttftMs.p95", "ttftMs.p99"} {
			m := metric(key)
			c := Changed(m, r.Of(p), ours)
			if !c.Relative {
				c.Estimate = stat.Estimate{Mean: stat.Unknown, Low: stat.Unknown, High: stat.Unknown}
			}
			row.Spans = append(row.Spans, chart.Span{
				Mean: float64(c.Mean), Low: float64(c.Low), High: float64(c.High), Label: m.ShowChange(c),
			})
			told = append(told, m.Label+" "+m.ShowChange(c))
		}
		f.Desc += "Instead of " + p + ": " + strings.Join(told, ", ") + ". "
		f.Rows = append(f.Rows, row)
	}
	if len(f.Rows) == 0 || len(ours) == 0 {
		return picture{}
	}
	return picture{
		"Change by choosing " + r.ours(),
		"Left of 0 is faster; half and twice the time are equally far from it. Lines are 95 % intervals, paired by " +
			"seed; the band around 0 is ±3 %, too small to count.",
		f.SVG(),
	}
}

// bars shows one figure of all policies.
func (r *Report) bars(heading, key string) picture {
	m := metric(key)
	colours := r.colours()
	b := chart.Bars{
		Frame: chart.Frame{ID: strings.ReplaceAll(key, ".", "-"), Title: heading + " by policy"},
		X:     m.Head(), Show: plain,
	}
	if m.Unit == Share {
		b.Show, b.X, b.Top = perCent, m.Label, 1
	}
	known := false
	var told []string
	for _, s := range r.Summaries() {
		e := s.Figures[key]
		known = known || e.Mean.Known() && e.Mean != 0
		label := m.ShowEstimate(e)
		if m.Unit == Share && e.Mean.Known() {
			label += " %"
		}
		b.Bars = append(b.Bars, chart.Bar{
			Name: s.Policy, Value: float64(e.Mean), Low: float64(e.Low), High: float64(e.High),
			Label: label, Colour: colours[s.Policy], Strong: s.Policy == r.ours(),
		})
		told = append(told, s.Policy+" "+label)
	}
	if !known {
		return picture{}
	}
	b.Desc = "Bars from 0: " + strings.Join(told, ", ") + "."
	caption := "More is better."
	if m.Better < 0 {
		caption = "Less is better."
	}
	return picture{heading, caption + " Whiskers are 95 % intervals over seeds.", b.SVG()}
}

// maxColumns is how many pods can be told apart in a row.
const maxColumns = 120

// pods is what each pod served, by its fair share.
func (r *Report) pods() picture {
	colours := r.colours()
	o := chart.Columns{
		Frame: chart.Frame{ID: "pods", Title: "Share of each pod by policy"},
		Y:     "requests served ÷ fair share of a pod of its class and cluster", Show: plain, Fair: 1,
	}
	count := 0
	for _, p := range r.Policies() {
		runs := r.Of(p)
		if len(o.Groups) == 0 {
			for _, c := range runs[0].Clusters {
				o.Groups = append(o.Groups, chart.Group{Name: c.Name, Count: len(c.Pods)})
				count += len(c.Pods)
			}
		}
		row := chart.ColumnsRow{Name: p, Colour: colours[p], Strong: p == r.ours()}
		for _, g := range o.Groups {
			for k := range g.Count {
				v := overFair(runs, g.Name, k)
				row.Values = append(row.Values, v)
				row.Labels = append(row.Labels, fmt.Sprintf("%s, %s, pod %d: %s × its fair share", p, g.Name, k, decimal(v, 2)))
			}
		}
		o.Rows = append(o.Rows, row)
	}
	if count < 2 || count > maxColumns {
		return picture{}
	}
	var told []string
	for _, s := range r.Summaries() {
		told = append(told, s.Policy+" "+metric("balance.overFair").ShowEstimate(s.Figures["balance.overFair"]))
	}
	o.Desc = "Columns of what each pod served, by its fair share. The busiest pod had, times its fair share: " + strings.Join(told, ", ") + "."
	return picture{"Share per pod", "The dashed line is an even share. Means of all seeds.", o.SVG()}
}

// overFair is the mean over runs of a pod's share times the number of its equals; NaN if unknown.
func overFair(runs []Figures, cluster string, pod int) float64 {
	var values []float64
	for i := range runs {
		for _, c := range runs[i].Clusters {
			if c.Name != cluster || pod >= len(c.Pods) || !c.Pods[pod].Share.Known() {
				continue
			}
			equal := 0
			for _, p := range c.Pods {
				if p.Class == c.Pods[pod].Class && p.Share.Known() {
					equal++
				}
			}
			values = append(values, float64(c.Pods[pod].Share)*float64(equal))
		}
	}
	return float64(stat.Mean(values))
}
