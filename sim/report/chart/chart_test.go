package chart

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files of testdata")

var nan = math.NaN()

func show(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

// drawings are one of each kind.
func drawings() map[string]template.HTML {
	return map[string]template.HTML{
		"lines": Lines{
			Frame: Frame{ID: "l", Title: "Lines", Desc: "Two lines and a gap."}, X: "time, s", Y: "requests", ShowX: show, ShowY: show,
			Lines: []Line{
				{Name: "ours", X: []float64{0, 10, 20, 30}, Y: []float64{1, 3, nan, 2}, Strong: true},
				{Name: "round-robin", X: []float64{0, 10, 20, 30}, Y: []float64{4, 8, 6, 2.1}, Colour: 1},
				{Name: "a ninth policy with a long name", X: []float64{0, 30}, Y: []float64{7, 7}, Colour: 8},
			},
		}.SVG(),
		"curves": Lines{
			Frame: Frame{ID: "c", Title: "Curves", Desc: "Two distributions."}, X: "time", Y: "share", ShowX: show, ShowY: show,
			Log: true, Top: 1,
			Lines: []Line{
				{Name: "ours", X: []float64{10, 40, 900}, Y: []float64{0.01, 0.5, 1}, Strong: true},
				{Name: "random", X: []float64{30, 200, 9000}, Y: []float64{0.01, 0.5, 1}, Colour: 2},
			},
		}.SVG(),
		"bands": Lines{
			Frame: Frame{ID: "w", Title: "Bands", Desc: "A wide chart with three bands."}, X: "time, s", Y: "share", ShowX: show, ShowY: show, Wide: true,
			Lines: []Line{{Name: "away", X: []float64{0, 10, 20}, Y: []float64{0, 1, 0}}},
			Bands: []Band{{0, 8, "baseline"}, {8, 8.2, "too narrow"}, {8.2, 24, "<hold>"}},
		}.SVG(),
		"bars": Bars{
			Frame: Frame{ID: "b", Title: "Bars", Desc: "Three bars."}, X: "cost, µ$", Show: show,
			Bars: []Bar{
				{Name: "ours", Value: 40, Low: 35, High: 45, Label: "40 ±5", Strong: true},
				{Name: "round-robin", Value: 90, Low: nan, High: nan, Label: "90", Colour: 1},
				{Name: "unknown", Value: nan, Low: nan, High: nan, Label: "–", Colour: 2},
			},
		}.SVG(),
		"forest": Forest{
			Frame: Frame{ID: "f", Title: "Forest", Desc: "Two baselines."}, X: "change", Show: show, Band: 0.03,
			Names: []string{"P50", "P95", "P99", "P99.9"}, Colours: []int{0, 1, 2, 3},
			Rows: []ForestRow{
				{"round-robin", []Span{{-0.7, -0.8, -0.6, "−70 %"}, {-0.1, nan, nan, "−10 %"}, {nan, nan, nan, "–"}, {0.2, 0.1, 0.3, "+20 %"}}},
				{"random", []Span{{-0.5, -0.6, -0.4, "−50 %"}, {0, -0.1, 0.1, "0 %"}, {0.01, 0, 0.02, "+1 %"}, {0, 0, 0, "0 %"}}},
			},
		}.SVG(),
		"columns": Columns{
			Frame: Frame{ID: "p", Title: "Columns", Desc: "Five pods."}, Y: "share ÷ fair share", Show: show, Fair: 1,
			Groups: []Group{{"us-a", 3}, {"a-cluster-with-a-long-name", 2}},
			Rows: []ColumnsRow{
				{Name: "ours", Values: []float64{1, 1.1, 0.9, 1, nan}, Labels: []string{"a", "b", "c", "d", "e"}, Strong: true},
				{Name: "hash", Values: []float64{2, 0.5, 0.5, 1, 1}, Labels: []string{"a", "b", "c", "d", "e"}, Colour: 1},
			},
		}.SVG(),
		"stack": Stack{
			Frame: Frame{ID: "s", Title: "Stack", Desc: "Three clusters."}, X: "time, s", ShowX: show, At: []float64{0, 10, 20},
			Layers: []Layer{
				{"us-a", []float64{0.5, 0.6, 0.98}, 0},
				{"eu-a", []float64{0.5, 0.2, 0.01}, 1},
				{"ap-a", []float64{nan, 0.2, 0.01}, 2},
			},
		}.SVG(),
	}
}

func TestChartsToTheLetter(t *testing.T) {
	for name, svg := range drawings() {
		file := "testdata/" + name + ".svg"
		if *update {
			if err := os.WriteFile(file, []byte(svg), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(svg) != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, svg, want)
		}
	}
}

// parse walks the drawing as XML, which is stricter than HTML.
func parse(t *testing.T, svg string, element func(xml.StartElement)) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			element(e)
		}
	}
}

func value(e xml.StartElement, key string) string {
	for _, a := range e.Attr {
		if a.Name.Local == key {
			return a.Value
		}
	}
	return ""
}

// Everything is drawn within the picture, and nothing at a place that isn't a number.
func TestChartsStayWithinTheirFrame(t *testing.T) {
	for name, svg := range drawings() {
		if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
			t.Errorf("%s: a place is no number", name)
		}
		across, height := 0.0, 0.0
		parse(t, string(svg), func(e xml.StartElement) {
			if box := strings.Fields(value(e, "viewBox")); len(box) == 4 {
				across, _ = strconv.ParseFloat(box[2], 64)
				height, _ = strconv.ParseFloat(box[3], 64)
				if across != width && across != wide {
					t.Errorf("%s: %v wide", name, across)
				}
			}
			for key, most := range map[string]float64{"x": across, "x1": across, "x2": across, "y": height, "y1": height, "y2": height} {
				if s := value(e, key); s != "" {
					v, err := strconv.ParseFloat(s, 64)
					if err != nil || v < 0 || v > most {
						t.Errorf("%s: <%s %s=%q>", name, e.Name.Local, key, s)
					}
				}
			}
		})
	}
}

func TestChartsAreTold(t *testing.T) {
	for name, svg := range drawings() {
		n := map[string]int{}
		parse(t, string(svg), func(e xml.StartElement) {
			n[e.Name.Local]++
			if e.Name.Local == "svg" && (value(e, "role") != "img" || len(strings.Fields(value(e, "aria-labelledby"))) != 2) {
				t.Errorf("%s: no role or labels", name)
			}
		})
		if n["desc"] != 1 || n["title"] < 2 || n["text"] < 4 {
			t.Errorf("%s: %v", name, n)
		}
	}
}

func TestNamesAreEscaped(t *testing.T) {
	const evil = `"><script>x</script>&'`
	frame := Frame{ID: evil, Title: evil, Desc: evil}
	say := func(float64) string { return evil }
	for name, svg := range map[string]template.HTML{
		"lines":   Lines{Frame: frame, X: evil, Y: evil, ShowX: say, ShowY: say, Lines: []Line{{Name: evil, X: []float64{1, 2}, Y: []float64{1, 2}}}}.SVG(),
		"bars":    Bars{Frame: frame, X: evil, Show: say, Bars: []Bar{{Name: evil, Label: evil, Value: 1}}}.SVG(),
		"forest":  Forest{Frame: frame, X: evil, Show: say, Names: []string{evil}, Colours: []int{0}, Rows: []ForestRow{{evil, []Span{{1, 0, 2, evil}}}}}.SVG(),
		"columns": Columns{Frame: frame, Y: evil, Show: say, Groups: []Group{{evil, 1}}, Rows: []ColumnsRow{{Name: evil, Values: []float64{1}, Labels: []string{evil}}}}.SVG(),
		"stack":   Stack{Frame: frame, X: evil, ShowX: say, At: []float64{1}, Layers: []Layer{{evil, []float64{1}, 0}}}.SVG(),
	} {
		parse(t, string(svg), func(e xml.StartElement) {
			if e.Name.Local == "script" {
				t.Errorf("%s: a script came in by a name", name)
			}
		})
	}
}

// Charts of nothing are empty, and no accident.
func TestChartsOfNothing(t *testing.T) {
	for name, svg := range map[string]template.HTML{
		"lines":   Lines{ShowX: show, ShowY: show}.SVG(),
		"empty":   Lines{ShowX: show, ShowY: show, Lines: []Line{{Name: "a"}}}.SVG(),
		"flat":    Lines{ShowX: show, ShowY: show, Lines: []Line{{Name: "a", X: []float64{5}, Y: []float64{0}}}}.SVG(),
		"bars":    Bars{Show: show}.SVG(),
		"forest":  Forest{Show: show}.SVG(),
		"columns": Columns{Show: show}.SVG(),
		"stack":   Stack{ShowX: show}.SVG(),
	} {
		parse(t, string(svg), func(xml.StartElement) {})
		if strings.Contains(string(svg), "NaN") {
			t.Errorf("%s: a place is no number:\n%s", name, svg)
		}
	}
}

// luminance by WCAG 2.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var rgb [3]int
	if _, err := fmt.Sscanf(colour, "#%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2]); err != nil {
		t.Fatalf("%q: %v", colour, err)
	}
	sum := 0.0
	for i, share := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(rgb[i]) / 255
		if c <= 0.03928 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += share * c
	}
	return sum
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// WCAG 2.2 asks for 4.5:1 of text and 3:1 of what is drawn.
func TestColoursStandOut(t *testing.T) {
	for i, c := range Series {
		if l, d := contrast(t, c.Light, Ground.Light), contrast(t, c.Dark, Ground.Dark); l < 3 || d < 3 {
			t.Errorf("series %d: %.1f in the light, %.1f in the dark", i, l, d)
		}
	}
	for name, c := range map[string]Colour{"ink": Ink, "soft": Soft} {
		if l, d := contrast(t, c.Light, Ground.Light), contrast(t, c.Dark, Ground.Dark); l < 4.5 || d < 4.5 {
			t.Errorf("%s: %.1f in the light, %.1f in the dark", name, l, d)
		}
	}
}

func TestStyleHasAllColoursOfBothSchemes(t *testing.T) {
	light, dark, ok := strings.Cut(Style(), "@media (prefers-color-scheme:dark)")
	if !ok {
		t.Fatal("no dark scheme")
	}
	for i, c := range Series {
		if !strings.Contains(light, fmt.Sprintf("--s%d:%s;", i, c.Light)) || !strings.Contains(dark, fmt.Sprintf("--s%d:%s;", i, c.Dark)) {
			t.Errorf("colour %d is missing", i)
		}
	}
	if strings.Count(Style(), "{") != strings.Count(Style(), "}") {
		t.Error("a brace is open")
	}
}

func TestColoursComeAgainWithOtherDashes(t *testing.T) {
	seen := map[string]bool{}
	for i := range len(Series) * len(dashes) {
		look := class(i) + dash(i)
		if seen[look] {
			t.Errorf("series %d looks like another", i)
		}
		seen[look] = true
	}
}
