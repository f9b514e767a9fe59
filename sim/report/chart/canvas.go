// Package chart draws charts as inline SVG: curves, bars with intervals, changes, columns and stacks.
// It knows nothing of what it draws. Colours and text come from the CSS of [Style], follow the scheme
// of the reader, and need no script and nothing from elsewhere. Each chart has a title and a
// description for those who can't see it, and every text is escaped.
package chart

import (
	"cmp"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// width of all charts but wide ones, in units that are pixels at their natural size.
const width = 580

// Frame is what all charts have.
type Frame struct {
	// ID must be unique in the page.
	ID string
	// Title and Desc are read out in place of the picture.
	Title, Desc string
}

// canvas collects the elements of a drawing.
type canvas struct {
	b     strings.Builder
	width float64 // 0: that of most charts
}

func (c *canvas) across() float64 { return cmp.Or(c.width, width) }

func esc(s string) string { return html.EscapeString(s) }

// num is a coordinate with at most one decimal.
func num(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10+0, 'f', -1, 64) }

func (c *canvas) add(parts ...string) {
	for _, p := range parts {
		c.b.WriteString(p)
	}
	c.b.WriteByte('\n')
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	c.add(`<line class="`, class, `" x1="`, num(x1), `" y1="`, num(y1), `" x2="`, num(x2), `" y2="`, num(y2), `"/>`)
}

// text is anchored at "start", "middle" or "end".
func (c *canvas) text(class, anchor string, x, y float64, s string) {
	c.add(`<text class="`, class, `" text-anchor="`, anchor, `" x="`, num(x), `" y="`, num(y), `">`, esc(s), `</text>`)
}

func (c *canvas) rect(class string, x, y, w, h float64, title string) {
	c.add(`<rect class="`, class, `" x="`, num(x), `" y="`, num(y), `" width="`, num(max(w, 0)), `" height="`, num(max(h, 0)), `">`,
		`<title>`, esc(title), `</title></rect>`)
}

// path draws through the points; those that are not numbers interrupt it.
func (c *canvas) path(class, dash string, x, y []float64, title string) {
	var d strings.Builder
	pen := "M"
	for i := range x {
		if math.IsNaN(x[i]) || math.IsNaN(y[i]) {
			pen = "M"
			continue
		}
		d.WriteString(pen + num(x[i]) + " " + num(y[i]))
		pen = "L"
	}
	if dash != "" {
		dash = `" stroke-dasharray="` + dash
	}
	c.add(`<path class="`, class, dash, `" d="`, d.String(), `"><title>`, esc(title), `</title></path>`)
}

// done is the whole element.
func (c *canvas) done(f Frame, height float64) template.HTML {
	id := esc(f.ID)
	return template.HTML(`<svg class="chart" role="img" viewBox="0 0 ` + num(c.across()) + " " + num(height) + //nolint:gosec // every text in it went through esc
		`" aria-labelledby="` + id + `-t ` + id + `-d"><title id="` + id + `-t">` + esc(f.Title) + `</title><desc id="` + id + `-d">` +
		esc(f.Desc) + "</desc>\n" + c.b.String() + "</svg>")
}

// short cuts a name to n characters.
func short(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// apart moves places down and up until they are at least gap from each other, in their order, and
// within low..high where there is room.
func apart(places []float64, gap, low, high float64) []float64 {
	out := make([]float64, len(places))
	next := low
	for i, p := range places {
		out[i] = max(p, next)
		next = out[i] + gap
	}
	limit := high
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = min(out[i], limit)
		limit = out[i] - gap
	}
	return out
}
