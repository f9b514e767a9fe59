package chart

import (
	"html/template"
	"math"
	"slices"
)

// Span is a mean with its interval.
type Span struct {
	// Mean, Low and High; NaN for Low and High: no interval. A Mean of NaN draws nothing.
	Mean, Low, High float64
	// Label is shown on pointing at it.
	Label string
}

// Forest is a chart of relative changes: for each row some means with their intervals, around 0. Half
// and twice as much are equally far from it.
type Forest struct {
	Frame
	// X is the name of the axis, with its unit.
	X    string
	Show func(float64) string
	// Names of the spans of a row, and Colours of them.
	Names   []string
	Colours []int
	Rows    []ForestRow
	// Band around 0 that is too small to count.
	Band float64
}

// ForestRow is one row: a span for each of the names.
type ForestRow struct {
	Name  string
	Spans []Span
}

const spanHeight = 14

// SVG draws the chart.
func (f Forest) SVG() template.HTML {
	const legend = 26.0
	row := float64(len(f.Names)*spanHeight + 12)
	height := legend + float64(len(f.Rows))*row + bottom
	low, high := ratio(-f.Band), ratio(f.Band)
	for _, r := range f.Rows {
		for _, s := range r.Spans {
			for _, v := range []float64{s.Mean, s.Low, s.High} {
				if !math.IsNaN(v) {
					low, high = min(low, ratio(v)), max(high, ratio(v))
				}
			}
		}
	}
	pad := (high - low) * 0.04
	x := newScale(low-pad, high+pad, nameWidth, width-16, false)
	at := func(change float64) float64 { return x.at(ratio(change)) }
	c := &canvas{}
	end := height - bottom
	c.rect("band", at(-f.Band), legend, at(f.Band)-at(-f.Band), end-legend, "too small a change to count")
	c.line("axis", x.from, end, x.to, end)
	for _, v := range changeTicks(x) {
		c.line("grid", at(v), legend, at(v), end)
		c.text("soft", "middle", at(v), end+17, f.Show(v))
	}
	c.line("axis", at(0), legend, at(0), end)
	place := x.from
	for i, name := range f.Names {
		c.mark(i, f.Colours[i], place+6, 10, name)
		c.text("plain", "start", place+16, 14, name)
		place += 36 + 8*float64(len([]rune(name)))
	}
	for i, r := range f.Rows {
		y := legend + float64(i)*row
		c.text("plain", "end", nameWidth-8, y+row/2+4, short(r.Name, 17))
		if i > 0 {
			c.line("grid", 8, y, width-16, y)
		}
		for k, s := range r.Spans {
			mid := y + 6 + spanHeight*(float64(k)+0.5)
			if !math.IsNaN(s.Low) && !math.IsNaN(s.High) {
				c.line(class(f.Colours[k])+" span", at(s.Low), mid, at(s.High), mid)
			}
			if !math.IsNaN(s.Mean) {
				c.mark(k, f.Colours[k], at(s.Mean), mid, r.Name+", "+f.Names[k]+": "+s.Label)
			}
		}
	}
	c.text("soft", "middle", (x.from+x.to)/2, height-8, f.X)
	return c.done(f.Frame, height)
}

// least is the largest fall that is drawn: nothing falls by all of it.
const least = -0.999

// ratio is where a change stands on the scale.
func ratio(change float64) float64 { return math.Log1p(max(change, least)) }

// changeTicks are changes that a scale of ratios has room to name; 0 is always among them.
func changeTicks(x scale) []float64 {
	const room = 52
	var out []float64
	for _, v := range []float64{0, -0.5, 1, -0.75, 3, -0.9, 9, -0.25, 1.0 / 3, -0.95, 19, -0.99, 99} {
		r := ratio(v)
		free := r >= x.low && r <= x.high
		for _, taken := range out {
			free = free && math.Abs(x.at(ratio(taken))-x.at(r)) >= room
		}
		if free {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// mark is a dot, a square or a diamond, so that colour isn't all that tells series apart.
func (c *canvas) mark(shape, colour int, x, y float64, title string) {
	open := `<path class="` + class(colour) + ` mark" d="`
	var d string
	switch shape % 3 {
	case 0:
		d = "M" + num(x-5) + " " + num(y) + "a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z"
	case 1:
		d = "M" + num(x-4.5) + " " + num(y-4.5) + "h9v9h-9z"
	default:
		d = "M" + num(x) + " " + num(y-6) + "l6 6l-6 6l-6 -6z"
	}
	c.add(open, d, `"><title>`, esc(title), `</title></path>`)
}
