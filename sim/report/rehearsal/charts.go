package rehearsal

import (
	"fmt"
	"math"
	"strconv"

	"anabranch/failover/drill"
	"anabranch/sim/report/chart"
)

// maxPoints of a curve: more can't be told apart.
const maxPoints = 500

// maxCurves of a chart.
const maxCurves = 8

// plot makes curves of a timeline's columns.
type plot struct {
	drill.Timeline
	missing map[int]bool
	stride  int
	bands   []chart.Band
}

func plotOf(t drill.Timeline) plot {
	p := plot{Timeline: t, missing: map[int]bool{}, stride: max(1, (t.Rows+maxPoints-1)/maxPoints)}
	for _, m := range t.Missing {
		for row := m[0]; row <= m[1] && row < t.Rows; row++ {
			p.missing[row] = true
		}
	}
	for i, s := range t.Stages {
		to := t.Rows
		if i+1 < len(t.Stages) {
			to = t.Stages[i+1].Row
		}
		if n := len(p.bands); n > 0 && p.bands[n-1].Name == stageName(s) {
			p.bands[n-1].To = p.seconds(to)
			continue
		}
		p.bands = append(p.bands, chart.Band{From: p.seconds(s.Row), To: p.seconds(to), Name: stageName(s)})
	}
	return p
}

func (p plot) seconds(row int) float64 { return float64(row * p.StepSeconds) }

// stageName is short, as stages may be.
func stageName(s drill.TimelineStage) string {
	name := map[drill.State]string{
		drill.Precheck: "check", drill.Measuring: "baseline", drill.Shifting: "shift", drill.Dwell: "dwell", drill.Hold: "hold",
		drill.Failback: "failback", drill.Paused: "paused", drill.RollingBack: "roll back", drill.Verify: "verify", drill.Done: "done",
	}[s.State]
	if (s.State == drill.Shifting || s.State == drill.Dwell || s.State == drill.Failback) && s.Shifted > 0 {
		name = fmt.Sprintf("%s %g %%", name, math.Round(float64(s.Shifted)/1000)/10)
	}
	return name
}

// curve takes a value of each row, or of each few the highest; values that are not numbers leave a gap.
func (p plot) curve(name string, colour int, value func(row int) float64) chart.Line {
	l := chart.Line{Name: name, Colour: colour}
	for from := 0; from < p.Rows; from += p.stride {
		top := math.NaN()
		for row := from; row < min(from+p.stride, p.Rows); row++ {
			if v := value(row); !p.missing[row] && !math.IsNaN(v) && !(v <= top) {
				top = v
			}
		}
		l.X, l.Y = append(l.X, p.seconds(from)), append(l.Y, top)
	}
	return l
}

// column is the value of a row, 0 in a column that is left out.
func column(c []int64, scale float64) func(int) float64 {
	return func(row int) float64 {
		if row >= len(c) {
			return 0
		}
		return float64(c[row]) * scale
	}
}

// positive leaves gaps where there is nothing.
func positive(c []int64, scale float64) func(int) float64 {
	return func(row int) float64 {
		if row >= len(c) || c[row] <= 0 {
			return math.NaN()
		}
		return float64(c[row]) * scale
	}
}

// level is a line at one height throughout.
func (p plot) level(name string, colour int, v float64) chart.Line {
	return chart.Line{Name: name, Colour: colour, X: []float64{0, p.seconds(p.Rows)}, Y: []float64{v, v}}
}

// picturesOf draws the drill; nothing of one that moved nothing.
func picturesOf(r drill.Report) []picture {
	if r.Timeline.Rows == 0 {
		return nil
	}
	p := plotOf(r.Timeline)
	return []picture{p.traffic(), p.firstTokens(), p.saturation(r), p.fates(), p.routers(), p.streams(), p.cost()}
}

func (p plot) draw(id, title, desc, y string, top float64, wide bool, show func(float64) string, lines ...chart.Line) chart.Lines {
	return chart.Lines{
		Frame: chart.Frame{ID: id, Title: title, Desc: desc}, X: "time since the drill began, s", Y: y, Top: top, Wide: wide, Bands: p.bands,
		ShowX: plain, ShowY: show, Lines: lines,
	}
}

func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func (p plot) traffic() picture {
	ordered := p.curve("ordered away", 9, func(row int) float64 {
		ppm := 0
		for _, s := range p.Stages {
			if s.Row <= row {
				ppm = s.Shifted
			}
		}
		return float64(ppm) / 1e4
	})
	left := p.curve("elsewhere", 0, func(row int) float64 {
		if row >= len(p.Scoped) || p.Scoped[row] == 0 {
			return math.NaN()
		}
		if row >= len(p.Away) {
			return 0
		}
		return 100 * float64(p.Away[row]) / float64(p.Scoped[row])
	})
	left.Strong = true
	return picture{
		Heading: "Where traffic went", Wide: true, SVG: p.draw("traffic", "Share of the drill's requests that others answered", "By the second, with the share that was ordered away.", "share, %", 100, true, plain, left, ordered).SVG(),
		Caption: "The share of the drill's requests that the drilled places did not answer, and the share that was ordered away. Before the drill others answer a part of them too.",
	}
}

func (p plot) firstTokens() picture {
	var lines []chart.Line
	for i, t := range p.Tiers {
		lines = append(lines, p.curve(t.Tier, i, positive(t.TTFTP95Ms, 1)))
	}
	return picture{
		Heading: "First tokens", SVG: p.draw("ttft", "95th percentile of the time to the first token by tier", "By the second.", "P95, ms", 0, false, plain, lines...).SVG(),
		Caption: "The time within which 95 % of a second's first tokens came, by tier.",
	}
}

func (p plot) saturation(r drill.Report) picture {
	var lines []chart.Line
	for _, c := range p.Clusters {
		if len(lines) >= maxCurves {
			break
		}
		name, colour := string(c.Cluster), len(lines)%len(chart.Series)
		if c.Drilled {
			name += " (drilled)"
		}
		line := p.curve(name, colour, column(c.Saturation, 1))
		line.Strong = !c.Drilled
		lines = append(lines, line)
		for _, s := range r.Survivors {
			if s.Cluster == c.Cluster && s.Simulated != nil && len(lines) < maxCurves {
				lines = append(lines, p.level("simulated", colour+len(chart.Series), 100**s.Simulated))
			}
		}
	}
	lines = append(lines, p.level("capacity", 5+2*len(chart.Series), 100))
	return picture{
		Heading: "Load of places, and what was simulated", SVG: p.draw("saturation", "Load over measured capacity by cluster", "By the second, with what was simulated of those that stay.", "load, % of capacity", 0, false, plain, lines...).SVG(),
		Caption: "Load as a share of measured capacity. Dashes of the same colour: the peak that the dry run expected there.",
	}
}

func (p plot) fates() picture {
	sum := func(of func(drill.TierColumns) []int64) func(int) float64 {
		return func(row int) float64 {
			n := 0.0
			for _, t := range p.Tiers {
				n += column(of(t), 1/float64(p.StepSeconds))(row)
			}
			return n
		}
	}
	all := p.curve("ended", 0, sum(func(t drill.TierColumns) []int64 { return t.Total }))
	all.Strong = true
	return picture{
		Heading: "Requests", SVG: p.draw("fates", "Requests per second by what became of them", "All that ended, and those that did not go as usual.", "requests per second", 0, false, plain, all,
			p.curve("retried", 2, sum(func(t drill.TierColumns) []int64 { return t.Retried })),
			p.curve("shed", 4, sum(func(t drill.TierColumns) []int64 { return t.Shed })),
			p.curve("over quota", 3, sum(func(t drill.TierColumns) []int64 { return t.Limited })),
			p.curve("lost", 1, sum(func(t drill.TierColumns) []int64 { return t.Lost })),
			p.curve("ended mid-stream", 6, sum(func(t drill.TierColumns) []int64 { return t.Broken }))).SVG(),
		Caption: "Requests that ended, of all tiers together, and those of them that did not go as usual.",
	}
}

func (p plot) routers() picture {
	known := p.curve("connected", 0, column(p.Routers, 1))
	known.Strong = true
	return picture{
		Heading: "Routers", SVG: p.draw("routers", "Routers that are connected, obey and are silent", "By the second.", "routers", 0, false, plain, known,
			p.curve("obey", 2, column(p.Obeying, 1)), p.curve("silent", 1, column(p.Silent, 1))).SVG(),
		Caption: "Routers that are connected, those that obey the last order, and those of which nothing is heard.",
	}
}

func (p plot) streams() picture {
	all := p.curve("all", 5, column(p.Streams, 1))
	left := p.curve("drilled places", 0, column(p.StreamsLeft, 1))
	left.Strong = true
	return picture{
		Heading: "Open streams", SVG: p.draw("streams", "Answers that are being streamed", "From all places, and from the drilled ones.", "streams", 0, false, plain, left, all).SVG(),
		Caption: "Answers that are being streamed. Those of drilled places are left to end by themselves.",
	}
}

func (p plot) cost() picture {
	return picture{
		Heading: "Cost", SVG: p.draw("cost", "Cost per minute", "By the second.", "$ per minute", 0, false, plain, p.curve("fleet", 0, positive(p.MicrosPerMinute, 1e-6))).SVG(),
		Caption: "What clusters and token prices cost per minute.",
	}
}
