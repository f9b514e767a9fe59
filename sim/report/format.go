package report

import (
	"math"
	"strconv"
	"strings"

	"anabranch/sim/report/stat"
)

const (
	dash    = "–" // for what is unknown
	minus   = "−"
	percent = 100
)

// shown is the number that is printed for a figure.
func (m Metric) shown(n stat.Number) float64 {
	if m.Unit == Share {
		return float64(n) * percent
	}
	return float64(n)
}

// decimals that leave about three digits of x.
func (m Metric) decimals(x float64) int {
	switch a := math.Abs(x); {
	case m.Unit == Share:
		return 1
	case a >= 99.95, a == 0:
		return 0
	case a >= 9.995:
		return 1
	case a >= 0.9995:
		return 2
	}
	return 3
}

// Show prints a figure without its unit: shares as per cent, others to three digits or so.
func (m Metric) Show(n stat.Number) string {
	if !n.Known() {
		return dash
	}
	x := m.shown(n)
	if m.Unit == Count && x == math.Trunc(x) {
		return decimal(x, 0)
	}
	return decimal(x, m.decimals(x))
}

// ShowEstimate prints a mean and half its interval.
func (m Metric) ShowEstimate(e stat.Estimate) string {
	if !e.Half().Known() {
		return m.Show(e.Mean)
	}
	if e.Half() == 0 {
		return m.Show(e.Mean) + " ±0"
	}
	x := m.shown(e.Mean)
	places := m.decimals(x)
	if x == 0 {
		places = m.decimals(m.shown(e.Half()))
	}
	return decimal(x, places) + " ±" + decimal(m.shown(e.Half()), places)
}

// ShowChange prints a change and its interval: "−73 % [−75, −71]", of shares in points of a per
// cent, and what can't be told as a share in the unit of the figure.
func (m Metric) ShowChange(c stat.Change) string {
	if !c.Mean.Known() {
		return dash
	}
	unit, scale := "", 1.0
	switch {
	case c.Relative:
		unit, scale = " %", percent
	case m.Unit == Share:
		unit, scale = " pp", percent
	case m.Unit != Count:
		unit = " " + string(m.Unit)
	}
	mean, low, high := float64(c.Mean)*scale, float64(c.Low)*scale, float64(c.High)*scale
	places := 1
	if math.Abs(mean) >= 9.95 {
		places = 0
	}
	if !c.Relative && m.Unit != Share {
		places = m.decimals(mean)
	}
	out := signed(mean, places) + unit
	if c.Low.Known() {
		out += " [" + signed(low, places) + ", " + signed(high, places) + "]"
	}
	return out
}

// Head is the label with the unit, for heads of tables.
func (m Metric) Head() string {
	switch m.Unit {
	case Count, PerSecond:
		return m.Label
	}
	return m.Label + ", " + string(m.Unit)
}

func signed(x float64, places int) string {
	s := decimal(x, places)
	if x > 0 && strings.Trim(s, "0.") != "" {
		return "+" + s
	}
	return s
}

// decimal prints with commas between thousands and a real minus sign, and no minus before zero.
func decimal(x float64, places int) string {
	s := strconv.FormatFloat(math.Abs(x), 'f', places, 64)
	whole, rest, _ := strings.Cut(s, ".")
	var b strings.Builder
	if x < 0 && strings.Trim(s, "0.") != "" {
		b.WriteString(minus)
	}
	for i, d := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	if rest != "" {
		b.WriteString("." + rest)
	}
	return b.String()
}
