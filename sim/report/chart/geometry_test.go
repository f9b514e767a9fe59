package chart

import (
	"encoding/xml"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// figure is what a test looks at: an element, its title and its attributes.
type figure struct {
	name, title, text string
	attr              map[string]string
}

func (f figure) num(key string) float64 {
	v, err := strconv.ParseFloat(f.attr[key], 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// is says whether it has the class.
func (f figure) is(class string) bool {
	for c := range strings.FieldsSeq(f.attr["class"]) {
		if c == class {
			return true
		}
	}
	return false
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// figures of a drawing, in order; titles and texts are those of the element that holds them.
func figures(t failer, svg string) []figure {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	var out []figure
	var open []int
	for {
		token, err := d.Token()
		if err != nil {
			if len(open) > 0 {
				t.Fatalf("%v in\n%s", err, svg)
			}
			return out
		}
		switch e := token.(type) {
		case xml.StartElement:
			f := figure{name: e.Name.Local, attr: map[string]string{}}
			for _, a := range e.Attr {
				f.attr[a.Name.Local] = a.Value
			}
			open = append(open, len(out))
			out = append(out, f)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) == 0 {
				continue
			}
			in := open[len(open)-1]
			out[in].text += string(e)
			if out[in].name == "title" && len(open) > 1 {
				out[open[len(open)-2]].title += string(e)
			}
		}
	}
}

func only(all []figure, keep func(figure) bool) []figure {
	var out []figure
	for _, f := range all {
		if keep(f) {
			out = append(out, f)
		}
	}
	return out
}

// points of a path of lines.
func points(t failer, d string) (x, y []float64) {
	t.Helper()
	for _, p := range strings.FieldsFunc(d, func(c rune) bool { return c == 'M' || c == 'L' || c == 'z' }) {
		a, b, _ := strings.Cut(p, " ")
		px, errX := strconv.ParseFloat(a, 64)
		py, errY := strconv.ParseFloat(b, 64)
		if errX != nil || errY != nil {
			t.Fatalf("path %q", d)
		}
		x, y = append(x, px), append(y, py)
	}
	return x, y
}

func TestBarsAreAsLongAsTheirValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bars{Show: show}
		for _, v := range rapid.SliceOfN(rapid.Float64Range(0.5, 1000), 1, 12).Draw(t, "values") {
			b.Bars = append(b.Bars, Bar{Name: "a", Value: v, Low: v * 0.9, High: v * 1.1})
		}
		all := figures(t, string(b.SVG()))
		bars := only(all, func(f figure) bool { return f.name == "rect" && f.is("fill") })
		whiskers := only(all, func(f figure) bool { return f.is("whisker") && f.attr["y1"] == f.attr["y2"] })
		if len(bars) != len(b.Bars) || len(whiskers) != len(b.Bars) {
			t.Fatalf("%d bars and %d whiskers of %d", len(bars), len(whiskers), len(b.Bars))
		}
		largest := 0
		for i := range bars {
			if b.Bars[i].Value > b.Bars[largest].Value {
				largest = i
			}
		}
		scale := bars[largest].num("width") / b.Bars[largest].Value
		for i, f := range bars {
			if math.Abs(f.num("width")-b.Bars[i].Value*scale) > 0.3 {
				t.Fatalf("%v is %v long, at %v a unit", b.Bars[i].Value, f.num("width"), scale)
			}
			w := whiskers[i]
			if math.Abs((w.num("x1")+w.num("x2"))/2-(f.num("x")+f.num("width"))) > 0.3 {
				t.Fatalf("the whisker %v..%v is not around the end of its bar", w.num("x1"), w.num("x2"))
			}
		}
	})
}

func TestLinesGoThroughTheirPoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.Bool().Draw(t, "log")
		n := rapid.IntRange(2, 20).Draw(t, "n")
		line := Line{Name: "ours"}
		at := 1.0
		for range n {
			at *= rapid.Float64Range(1.1, 4).Draw(t, "step")
			line.X = append(line.X, at)
			line.Y = append(line.Y, rapid.Float64Range(0, 50).Draw(t, "y"))
		}
		svg := string(Lines{ShowX: show, ShowY: show, Log: log, Lines: []Line{line}}.SVG())
		path := only(figures(t, svg), func(f figure) bool { return f.name == "path" })[0]
		x, y := points(t, path.attr["d"])
		if len(x) != n || path.title != "ours" {
			t.Fatalf("%d points of %d, titled %q", len(x), n, path.title)
		}
		of := func(v float64) float64 {
			if log {
				return math.Log(v)
			}
			return v
		}
		for i := range x {
			// The first point is at the left, the last at the right; heights go by the values.
			share := (of(line.X[i]) - of(line.X[0])) / (of(line.X[n-1]) - of(line.X[0]))
			if math.Abs(x[i]-(x[0]+share*(x[n-1]-x[0]))) > 0.2 {
				t.Fatalf("point %d is at %v", i, x[i])
			}
			if i > 0 && (line.Y[i]-line.Y[i-1])*(y[i]-y[i-1]) > 0 {
				t.Fatalf("from %v to %v the line goes from %v to %v", line.Y[i-1], line.Y[i], y[i-1], y[i])
			}
		}
	})
}

func TestAGapIsAGap(t *testing.T) {
	svg := string(Lines{ShowX: show, ShowY: show, Lines: []Line{{
		Name: "a", X: []float64{1, 2, 3, 4, 5}, Y: []float64{1, 2, nan, 4, 5},
	}}}.SVG())
	path := only(figures(t, svg), func(f figure) bool { return f.name == "path" })[0]
	if d := path.attr["d"]; strings.Count(d, "M") != 2 || strings.Count(d, "L") != 2 {
		t.Errorf("the path %q should be two parts of two points", d)
	}
}

func TestStrongLinesAreDrawnLast(t *testing.T) {
	two := []float64{1, 2}
	svg := string(Lines{ShowX: show, ShowY: show, Lines: []Line{
		{Name: "ours", X: two, Y: two, Strong: true}, {Name: "b", X: two, Y: two, Colour: 1}, {Name: "c", X: two, Y: two, Colour: 2},
	}}.SVG())
	var order []string
	for _, f := range only(figures(t, svg), func(f figure) bool { return f.name == "path" })[:3] {
		order = append(order, f.title)
	}
	if got := strings.Join(order, " "); got != "b c ours" {
		t.Errorf("drawn in the order %s", got)
	}
	names := only(figures(t, svg), func(f figure) bool { return f.name == "text" && (f.is("plain") || f.is("strong")) })
	if len(names) != 3 || names[0].text != "ours" || !names[0].is("strong") || names[2].text != "c" {
		t.Errorf("named in another order than given: %v", names)
	}
}

// Half the time is as far to the left as twice the time is to the right.
func TestForestIsEvenInRatios(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		factor := rapid.Float64Range(1.05, 50).Draw(t, "factor")
		f := Forest{Show: show, Band: 0.03, Names: []string{"P50"}, Colours: []int{0}, Rows: []ForestRow{
			{"half", []Span{{1/factor - 1, nan, nan, ""}}}, {"none", []Span{{0, nan, nan, ""}}}, {"twice", []Span{{factor - 1, nan, nan, ""}}},
		}}
		marks := only(figures(t, string(f.SVG())), func(f figure) bool { return f.is("mark") })[1:] // the first is the legend's
		var x []float64
		for _, m := range marks {
			a, _, _ := strings.Cut(strings.TrimPrefix(m.attr["d"], "M"), " ")
			v, err := strconv.ParseFloat(a, 64)
			if err != nil {
				t.Fatalf("%q", m.attr["d"])
			}
			x = append(x, v)
		}
		if len(x) != 3 || math.Abs((x[1]-x[0])-(x[2]-x[1])) > 0.3 || x[0] >= x[1] {
			t.Fatalf("1/%v, 1 and %v stand at %v", factor, factor, x)
		}
	})
}

func TestForestMarksDifferInShape(t *testing.T) {
	c := &canvas{}
	seen := map[string]bool{}
	for i := range 3 {
		c.b.Reset()
		c.mark(i, 0, 100, 100, "")
		d := figures(t, c.b.String())[0].attr["d"]
		if seen[d] {
			t.Errorf("shape %d is that of another", i)
		}
		seen[d] = true
	}
}

func TestChangeTicksHaveRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-0.99, -0.03).Draw(t, "low")
		high := rapid.Float64Range(0.03, 80).Draw(t, "high")
		x := newScale(ratio(low), ratio(high), 128, 564, false)
		ticks := changeTicks(x)
		zero := false
		for i, v := range ticks {
			zero = zero || v == 0
			if v < low || v > high {
				t.Fatalf("%v is outside of %v..%v", v, low, high)
			}
			if i > 0 && x.at(ratio(v))-x.at(ratio(ticks[i-1])) < 52-1e-9 {
				t.Fatalf("%v and %v are too near", ticks[i-1], v)
			}
		}
		if !zero {
			t.Fatalf("no 0 among %v", ticks)
		}
	})
}

func TestColumnsAreAsHighAsTheirValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0.1, 5), 1, 30).Draw(t, "values")
		row := ColumnsRow{Name: "ours", Values: values, Labels: make([]string, len(values))}
		o := Columns{Show: show, Fair: 1, Groups: []Group{{"a", len(values)}}, Rows: []ColumnsRow{row}}
		all := figures(t, string(o.SVG()))
		columns := only(all, func(f figure) bool { return f.name == "rect" && f.is("fill") })
		fair := only(all, func(f figure) bool { return f.is("fair") })[0].num("y1")
		base := columns[0].num("y") + columns[0].num("height")
		for i, c := range columns {
			if want := values[i] * (base - fair); math.Abs(c.num("height")-want) > 0.15+0.11*values[i] {
				t.Fatalf("%v is %v high, and 1 is %v", values[i], c.num("height"), base-fair)
			}
			if i > 0 && c.num("x") < columns[i-1].num("x")+columns[i-1].num("width") {
				t.Fatalf("columns %d and %d overlap", i-1, i)
			}
		}
	})
}

// Layers lie on each other without a gap, and all of them reach up to 1.
func TestStacksFillTheirPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, layers := rapid.IntRange(2, 12).Draw(t, "n"), rapid.IntRange(1, 5).Draw(t, "layers")
		s := Stack{ShowX: show}
		sums := make([]float64, n)
		for l := range layers {
			layer := Layer{Name: strconv.Itoa(l), Colour: l}
			for i := range n {
				v := rapid.Float64Range(0.01, 1).Draw(t, "v")
				sums[i] += v
				layer.Values = append(layer.Values, v)
			}
			s.Layers = append(s.Layers, layer)
		}
		for i := range n {
			s.At = append(s.At, float64(i))
			for l := range s.Layers {
				s.Layers[l].Values[i] /= sums[i]
			}
		}
		paths := only(figures(t, string(s.SVG())), func(f figure) bool { return f.is("layer") })
		var below []float64
		for l, p := range paths {
			_, y := points(t, p.attr["d"])
			up := y[:n]
			for i := range n {
				down := y[2*n-1-i]
				if l > 0 && math.Abs(down-below[i]) > 0.11 {
					t.Fatalf("layer %d begins at %v, the one below ends at %v", l, down, below[i])
				}
				if l == len(paths)-1 && math.Abs(up[i]-top) > 0.11 {
					t.Fatalf("all together reach %v, and the top is %v", up[i], float64(top))
				}
			}
			below = up
		}
	})
}
