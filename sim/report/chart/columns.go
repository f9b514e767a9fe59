package chart

import (
	"html/template"
	"math"
)

// Columns is a chart of small column charts, one below the other, on one scale: what each of many
// places has, row by row.
type Columns struct {
	Frame
	// Y is the name of the scale, printed above.
	Y    string
	Show func(float64) string
	// Groups names the columns: those of one group stand together.
	Groups []Group
	Rows   []ColumnsRow
	// Fair is where a line is drawn across.
	Fair float64
}

// Group is so many columns with a name below.
type Group struct {
	Name  string
	Count int
}

// ColumnsRow is one small chart, with as many values as the groups have columns.
type ColumnsRow struct {
	Name string
	// Values that are NaN have no column.
	Values []float64
	// Labels are shown on pointing at a column.
	Labels []string
	Colour int
	Strong bool
}

const stripHeight, stripGap = 44.0, 12.0

// SVG draws the chart.
func (o Columns) SVG() template.HTML {
	const from = 26.0
	height := from + float64(len(o.Rows))*(stripHeight+stripGap) + 24
	high, count := o.Fair*1.2, 0
	for _, g := range o.Groups {
		count += g.Count
	}
	for _, r := range o.Rows {
		for _, v := range r.Values {
			if v > high {
				high = v
			}
		}
	}
	const begin, end = nameWidth + 28.0, width - 12.0
	const between = 14.0
	pitch := (end - begin - between*float64(max(len(o.Groups)-1, 0))) / float64(max(count, 1))
	c := &canvas{}
	c.text("soft", "start", begin, 14, o.Y)
	for i, r := range o.Rows {
		base := from + float64(i)*(stripHeight+stripGap) + stripHeight
		y := newScale(0, high, base, base-stripHeight, false)
		c.text(weight(r.Strong), "end", nameWidth-8, base-stripHeight/2+4, short(r.Name, 17))
		c.text("soft", "end", begin-6, y.at(o.Fair)+4, o.Show(o.Fair))
		at, k := begin, 0
		for _, g := range o.Groups {
			for range g.Count {
				if v := r.Values[k]; !math.IsNaN(v) {
					gap := min(pitch*0.2, 4)
					c.rect(class(r.Colour)+" fill", at+gap/2, y.at(v), pitch-gap, base-y.at(v), r.Labels[k])
				}
				at += pitch
				k++
			}
			at += between
		}
		c.line("axis", begin, base, end, base)
		c.line("fair", begin, y.at(o.Fair), end, y.at(o.Fair))
	}
	at := begin
	for _, g := range o.Groups {
		w := pitch * float64(g.Count)
		c.text("soft", "middle", at+w/2, height-8, short(g.Name, max(3, int(w/7.5))))
		at += w + between
	}
	return c.done(o.Frame, height)
}
