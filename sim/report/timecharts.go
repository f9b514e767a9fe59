package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"anabranch/sim/report/chart"
	"anabranch/sim/report/stat"
)

// series is one thing that timelines tell.
type series struct {
	id, heading, axis string
	top               float64
	show              func(float64) string
	of                func(*Timeline) []stat.Number
}

var overTime = []series{
	{"waiting", "Waiting requests over time", "requests that wait in pods and routers", 0, plain, func(t *Timeline) []stat.Number {
		if t.Queue == nil || len(t.Queue) != len(t.Waiting) {
			return t.Waiting
		}
		out := make([]stat.Number, len(t.Waiting))
		for i := range out {
			out[i] = t.Waiting[i] + t.Queue[i]
		}
		return out
	}},
	{"running", "Running requests over time", "requests in the pods' batches", 0, plain, func(t *Timeline) []stat.Number { return t.Running }},
	{"hits", "Prefix hits over time", "share of prompt tokens cached", 1, perCent, func(t *Timeline) []stat.Number { return t.HitRate }},
	{"tail", "TTFT P95 over time", "P95 of the time to first token", 0, wait, func(t *Timeline) []stat.Number { return t.TTFT }},
	{"price", "Price of the fleet over time", "dollars an hour", 0, plain, func(t *Timeline) []stat.Number { return t.Price }},
}

// timeAxis names the axis of time, and says what its values are divided by.
func timeAxis(seconds float64) (name string, by float64) {
	switch {
	case seconds > 3*3600:
		return "time, h", 3600
	case seconds > 600:
		return "time, min", 60
	}
	return "time, s", 1
}

// line is one series of all policies that have it. What is the same for all at all times says nothing.
func (r *Report) line(s series) picture {
	colours := r.colours()
	l := chart.Lines{Frame: chart.Frame{ID: "time-" + s.id, Title: s.heading + " by policy"}, Y: s.axis, Top: s.top, ShowX: plain, ShowY: s.show}
	longest := 0.0
	for i := range r.Runs {
		if t := r.Runs[i].Timeline; t != nil && len(t.Seconds) > 0 {
			longest = max(longest, float64(t.Seconds[len(t.Seconds)-1]))
		}
	}
	var by float64
	l.X, by = timeAxis(longest)
	var told []string
	var means []float64
	varies := false
	for i := range r.Runs {
		f := &r.Runs[i]
		if f.Timeline == nil {
			continue
		}
		y := floats(s.of(f.Timeline), 1)
		if len(y) == 0 || len(y) != len(f.Timeline.Seconds) {
			continue
		}
		high, n, sum := 0.0, 0, 0.0
		for _, v := range y {
			if !math.IsNaN(v) {
				varies = varies || v != y[0]
				high, n, sum = max(high, v), n+1, sum+v
			}
		}
		mean := sum / float64(max(n, 1))
		// The list runs down as the lines do on average.
		k := 0
		for k < len(means) && means[k] >= mean {
			k++
		}
		means = slices.Insert(means, k, mean)
		l.Lines = slices.Insert(l.Lines, k, chart.Line{
			Name: f.Policy, X: floats(f.Timeline.Seconds, by), Y: y, Colour: colours[f.Policy], Strong: f.Policy == r.ours(),
		})
		told = append(told, f.Policy+" "+s.show(rounded(mean))+" on average and "+s.show(rounded(high))+" at most")
	}
	if !varies {
		return picture{}
	}
	l.Desc = strings.Join(told, "; ") + "."
	return picture{s.heading, "First seed of each policy; means over stretches of time.", l.SVG()}
}

// rounded to three digits.
func rounded(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}

func floats(values []stat.Number, by float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v) / by
	}
	return out
}

// weights are stacks of the weights that each region's routers draw by, of each policy that has some.
func (r *Report) weights() []picture {
	var out []picture
	for i := range r.Runs {
		f := &r.Runs[i]
		if f.Timeline == nil || len(f.Timeline.Weights) == 0 || len(f.Timeline.Seconds) == 0 {
			continue
		}
		seconds := f.Timeline.Seconds
		name, by := timeAxis(float64(seconds[len(seconds)-1]))
		var stacks []chart.Stack
		for _, w := range f.Timeline.Weights {
			n := len(stacks)
			if n == 0 || stacks[n-1].Title != stackTitle(f.Policy, w.From) {
				stacks = append(stacks, chart.Stack{
					Frame: chart.Frame{ID: "weights-" + strconv.Itoa(len(out)+n), Title: stackTitle(f.Policy, w.From)},
					X:     name, ShowX: plain, At: floats(seconds, by),
				})
				n++
			}
			s := &stacks[n-1]
			layer := chart.Layer{Name: w.To, Values: floats(w.Values, 1), Colour: len(s.Layers)}
			s.Layers = append(s.Layers, layer)
			last := layer.Values[len(layer.Values)-1]
			s.Desc = cmp.Or(s.Desc, "Shares of clusters, piled up; at the end: ") + w.To + " " + perCent(last) + ". "
		}
		for _, s := range stacks {
			out = append(out, picture{s.Title, "Share of requests that the weights send to each cluster. First seed.", s.SVG()})
		}
	}
	return out
}

func stackTitle(policy, region string) string { return "Weights of " + policy + " in " + region }
