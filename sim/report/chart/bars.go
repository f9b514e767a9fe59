package chart

import (
	"html/template"
	"math"
)

// Bar is a value with its interval.
type Bar struct {
	Name string
	// Low and High are the interval; NaN: there is none. A Value of NaN draws no bar.
	Value, Low, High float64
	// Label is printed beside the bar.
	Label  string
	Colour int
	Strong bool
}

// Bars is a chart of horizontal bars from 0, one below the other.
type Bars struct {
	Frame
	// X is the name of the axis, with its unit.
	X    string
	Show func(float64) string
	Bars []Bar
	// Top is the end of the axis. 0: by the values.
	Top float64
}

const (
	nameWidth  = 128
	labelWidth = 112
	rowHeight  = 30
)

// SVG draws the chart.
func (b Bars) SVG() template.HTML {
	height := float64(len(b.Bars)*rowHeight + top + bottom)
	high := 0.0
	for _, bar := range b.Bars {
		for _, v := range []float64{bar.Value, bar.High} {
			if v > high {
				high = v
			}
		}
	}
	if b.Top > 0 {
		high = b.Top
	} else {
		high = roundUp(high, 5)
	}
	x := newScale(0, high, nameWidth, width-labelWidth, false)
	c := &canvas{}
	c.ruler(x, top, height-bottom, b.Show)
	for i, bar := range b.Bars {
		at := float64(top + i*rowHeight)
		mid := at + rowHeight/2
		c.text(weight(bar.Strong), "end", nameWidth-8, mid+4, short(bar.Name, 17))
		end := x.from
		if !math.IsNaN(bar.Value) {
			end = x.at(bar.Value)
			c.rect(class(bar.Colour)+" fill", x.from, at+6, end-x.from, rowHeight-12, bar.Name+": "+bar.Label)
		}
		if !math.IsNaN(bar.Low) && !math.IsNaN(bar.High) {
			c.line("whisker", x.at(bar.Low), mid, x.at(bar.High), mid)
			c.line("whisker", x.at(bar.Low), mid-4, x.at(bar.Low), mid+4)
			c.line("whisker", x.at(bar.High), mid-4, x.at(bar.High), mid+4)
			end = max(end, x.at(bar.High))
		}
		c.text(weight(bar.Strong), "start", end+7, mid+4, bar.Label)
	}
	c.text("soft", "middle", (x.from+x.to)/2, height-8, b.X)
	return c.done(b.Frame, height)
}

// ruler is a horizontal axis below rows.
func (c *canvas) ruler(x scale, from, to float64, show func(float64) string) {
	for _, v := range x.ticks(5) {
		c.line("grid", x.at(v), from, x.at(v), to)
		c.text("soft", "middle", x.at(v), to+17, show(v))
	}
	c.line("axis", x.from, to, x.to, to)
}
