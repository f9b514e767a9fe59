package chart

import (
	"fmt"
	"strings"
)

// Colour in the light scheme and in the dark one, as #rrggbb.
type Colour struct{ Light, Dark string }

// The grounds that charts are drawn on.
var (
	Ground = Colour{"#ffffff", "#131c31"}
	Ink    = Colour{"#0f172a", "#e8eef7"}
	Soft   = Colour{"#475569", "#a3b2c7"}
	Faint  = Colour{"#dbe2ea", "#2b3950"} // lines of the grid, which carry no meaning
)

// Series are the colours of series, in order: after Okabe and Ito's set, which people who don't tell
// all colours apart can still tell apart, darkened or lightened until each stands out by 3:1 from its
// ground. Beyond them they come again, with another dash.
var Series = []Colour{
	{"#0072b2", "#56b4e9"},
	{"#c94f00", "#ff9a4d"},
	{"#00805c", "#2fd0a0"},
	{"#a8428a", "#f0a3d2"},
	{"#8a6d00", "#e6cf3c"},
	{"#5b5b66", "#b9bcc6"},
	{"#7a3e1d", "#d9a07a"},
	{"#4338a0", "#a9a4ff"},
}

// dashes of lines whose colour comes for the first, second and third time.
var dashes = []string{"", "6 3", "2 3"}

// Style is the CSS that charts need: colours by scheme, and text. It belongs into a page once.
func Style() string {
	var b strings.Builder
	list := func(pick func(Colour) string) {
		fmt.Fprintf(&b, "--ground:%s;--ink:%s;--soft:%s;--faint:%s;", pick(Ground), pick(Ink), pick(Soft), pick(Faint))
		for i, c := range Series {
			fmt.Fprintf(&b, "--s%d:%s;", i, pick(c))
		}
	}
	b.WriteString(":root{")
	list(func(c Colour) string { return c.Light })
	b.WriteString("}\n@media (prefers-color-scheme:dark){:root{")
	list(func(c Colour) string { return c.Dark })
	b.WriteString("}}\n")
	for i := range Series {
		fmt.Fprintf(&b, ".s%d{--series:var(--s%d)}\n", i, i)
	}
	b.WriteString(`svg.chart{display:block;width:100%;height:auto;font:13px system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.chart text{fill:var(--ink)}.chart .soft{fill:var(--soft)}.chart .strong{font-weight:700}
.chart .grid{stroke:var(--faint);stroke-width:1}.chart .axis{stroke:var(--soft);stroke-width:1}
.chart .curve{fill:none;stroke:var(--series);stroke-width:1.6;stroke-linejoin:round}.chart .curve.strong{stroke-width:3}
.chart .fill{fill:var(--series)}.chart .whisker{stroke:var(--ink);stroke-width:1.5}
.chart .mark{fill:var(--series);stroke:var(--ground);stroke-width:1}.chart .span{stroke:var(--series);stroke-width:2}
.chart .leader{stroke:var(--soft);stroke-width:.7}.chart .band{fill:var(--faint);opacity:.6}
.chart .fair{stroke:var(--ink);stroke-width:1;stroke-dasharray:4 3}
`)
	return b.String()
}

func class(i int) string { return fmt.Sprintf("s%d", i%len(Series)) }

func dash(i int) string { return dashes[i/len(Series)%len(dashes)] }
