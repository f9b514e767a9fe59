package chart

import (
	"html/template"
	"math"
	"strings"
)

// Stack is a chart of shares over time, piled up to 1.
type Stack struct {
	Frame
	// X is the name of the horizontal axis, with its unit.
	X     string
	ShowX func(float64) string
	At    []float64
	// Layers from the bottom up, each with a share for each of At; NaN counts as 0.
	Layers []Layer
}

// Layer is one share.
type Layer struct {
	Name   string
	Values []float64
	Colour int
}

// SVG draws the chart.
func (s Stack) SVG() template.HTML {
	height := max(190, float64(len(s.Layers)*lineHeight+top+bottom))
	low, high := 0.0, 1.0
	if n := len(s.At); n > 0 {
		low, high = s.At[0], s.At[n-1]
	}
	x := newScale(low, high, left, width-right, false)
	y := newScale(0, 1, height-bottom, top, false)
	c := &canvas{}
	below := make([]float64, len(s.At))
	type name struct {
		text string
		at   float64
	}
	names := make([]name, len(s.Layers))
	for i, l := range s.Layers {
		var up, down strings.Builder
		for k := range s.At {
			v := below[k]
			if !math.IsNaN(l.Values[k]) {
				v += l.Values[k]
			}
			pen := "L"
			if k == 0 {
				pen = "M"
			}
			up.WriteString(pen + num(x.at(s.At[k])) + " " + num(y.at(v)))
			back := len(s.At) - 1 - k
			down.WriteString("L" + num(x.at(s.At[back])) + " " + num(y.at(below[back])))
			if k == len(s.At)-1 {
				names[i] = name{l.Name, y.at((v + below[k]) / 2)}
			}
		}
		for k := range below {
			if !math.IsNaN(l.Values[k]) {
				below[k] += l.Values[k]
			}
		}
		c.add(`<path class="`, class(l.Colour), ` fill layer" d="`, up.String(), down.String(), `z"><title>`, esc(l.Name), `</title></path>`)
	}
	c.axes(x, y, height, s.ShowX, func(v float64) string { return num(100*v) + " %" }, s.X, "share")
	// The topmost layer is named first: places run down the drawing.
	places := make([]float64, len(names))
	for i := range names {
		places[len(names)-1-i] = names[i].at
	}
	places = apart(places, lineHeight-1, y.to+4, y.from)
	for i, n := range names {
		p := places[len(names)-1-i]
		c.line("leader", x.to+2, n.at, x.to+10, p)
		c.rect(class(s.Layers[i].Colour)+" fill", x.to+12, p-5, 10, 10, n.text)
		c.text("plain", "start", x.to+27, p+4, short(n.text, 14))
	}
	return c.done(s.Frame, height)
}
