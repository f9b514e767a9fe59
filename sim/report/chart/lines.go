package chart

import (
	"html/template"
	"math"
	"slices"
)

// Line is one curve.
type Line struct {
	Name string
	// X rises. Values of Y that are not numbers leave a gap.
	X, Y []float64
	// Colour by number, see [Series]. Strong lines are thicker and drawn last.
	Colour int
	Strong bool
}

// Lines is a chart of curves over one axis.
type Lines struct {
	Frame
	// X and Y are the names of the axes, with their units.
	X, Y string
	// Log makes the horizontal axis logarithmic: all X must be positive.
	Log bool
	// Top is the highest value of the vertical axis, which begins at 0. 0: by the values.
	Top float64
	// ShowX and ShowY print values at the axes.
	ShowX, ShowY func(float64) string
	// Lines are named in a list beside the chart, in their order.
	Lines []Line
	// Bands lie behind the curves, every other one shaded, and are named at their tops where there is room.
	Bands []Band
	// Wide charts take the room of two.
	Wide bool
}

// Band is a stretch of the horizontal axis.
type Band struct {
	From, To float64
	Name     string
}

const (
	left, right, top, bottom = 58, 152, 12, 44
	lineHeight               = 16
	wide                     = 2*width + 56 // two charts and what is between them
	bandName                 = 18           // height of the names of bands
	letter                   = 6.6          // width of one
)

// SVG draws the chart.
func (l Lines) SVG() template.HTML {
	height, across, above := max(300, float64(len(l.Lines)*lineHeight+top+bottom)), float64(width), float64(top)
	if l.Wide {
		across = wide
	}
	if len(l.Bands) > 0 {
		above += bandName
	}
	lowX, highX, highY := math.Inf(1), math.Inf(-1), l.Top
	for _, s := range l.Lines {
		for i := range s.X {
			lowX, highX = min(lowX, s.X[i]), max(highX, s.X[i])
			if l.Top == 0 && s.Y[i] > highY {
				highY = s.Y[i]
			}
		}
	}
	if l.Top == 0 {
		highY = roundUp(highY, 4)
	}
	if lowX > highX {
		lowX, highX = 1, 2
	}
	for _, b := range l.Bands {
		lowX, highX = min(lowX, b.From), max(highX, b.To)
	}
	x := newScale(lowX, highX, left, across-right, l.Log)
	y := newScale(0, highY, height-bottom, above, false)
	c := &canvas{width: across}
	c.bands(l.Bands, x, y)
	c.axes(x, y, height, l.ShowX, l.ShowY, l.X, l.Y)
	order := make([]int, len(l.Lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch sa, sb := l.Lines[a].Strong, l.Lines[b].Strong; {
		case sa == sb:
			return 0
		case sb:
			return -1
		}
		return 1
	})
	for _, i := range order {
		s := l.Lines[i]
		xs, ys := make([]float64, len(s.X)), make([]float64, len(s.X))
		for k := range s.X {
			xs[k], ys[k] = x.at(s.X[k]), math.NaN()
			if !math.IsNaN(s.Y[k]) {
				ys[k] = y.at(s.Y[k])
			}
		}
		name := class(s.Colour) + " curve"
		if s.Strong {
			name += " strong"
		}
		c.path(name, dash(s.Colour), xs, ys, s.Name)
	}
	c.list(l.Lines)
	return c.done(l.Frame, height)
}

// bands shades every other one, and names those that are wide enough for it.
func (c *canvas) bands(bands []Band, x, y scale) {
	for i, b := range bands {
		from, to := x.at(b.From), x.at(b.To)
		if i%2 == 0 {
			c.rect("band", from, y.to, to-from, y.from-y.to, b.Name)
		}
		c.line("grid", from, y.to-bandName, from, y.from)
		if room := int((to - from - 6) / letter); room >= min(4, len(b.Name)) && b.Name != "" {
			c.text("soft", "start", from+4, y.to-6, short(b.Name, room))
		}
	}
}

// axes draws the grid, the axes and their names.
func (c *canvas) axes(x, y scale, height float64, showX, showY func(float64) string, nameX, nameY string) {
	for _, v := range y.ticks(4) {
		c.line("grid", x.from, y.at(v), x.to, y.at(v))
		c.text("soft", "end", x.from-6, y.at(v)+4, showY(v))
	}
	for _, v := range x.ticks(7) {
		if x.log {
			c.line("grid", x.at(v), y.from, x.at(v), y.to)
		}
		c.line("axis", x.at(v), y.from, x.at(v), y.from+4)
		c.text("soft", "middle", x.at(v), y.from+18, showX(v))
	}
	c.line("axis", x.from, y.from, x.to, y.from)
	c.text("soft", "middle", (x.from+x.to)/2, height-8, nameX)
	c.add(`<text class="soft" text-anchor="middle" transform="translate(13 `, num((y.from+y.to)/2), `) rotate(-90)">`, esc(nameY), `</text>`)
}

// list names the lines from the top down, with a sample of each.
func (c *canvas) list(lines []Line) {
	for i, s := range lines {
		at := float64(top + 8 + i*lineHeight)
		c.sample(s, at)
		c.text(weight(s.Strong), "start", c.across()-right+34, at+4, short(s.Name, 17))
	}
}

func (c *canvas) sample(s Line, at float64) {
	name := class(s.Colour) + " curve"
	if s.Strong {
		name += " strong"
	}
	c.path(name, dash(s.Colour), []float64{c.across() - right + 8, c.across() - right + 28}, []float64{at, at}, s.Name)
}

func weight(strong bool) string {
	if strong {
		return "strong"
	}
	return "plain"
}
