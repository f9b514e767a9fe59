package drill

import (
	"fmt"
	"slices"
	"strings"
)

// board holds what was measured beside what is wanted, in the order in which it came.
type board struct{ rows []*row }

type row struct {
	name, unit string
	want       float64 // at most; 0 with a unit: nobody asks for anything
	samples    []float64
}

func (b *board) add(name string, want, sample float64, unit string) {
	i := slices.IndexFunc(b.rows, func(r *row) bool { return r.name == name })
	if i < 0 {
		i, b.rows = len(b.rows), append(b.rows, &row{name: name, want: want, unit: unit})
	}
	b.rows[i].samples = append(b.rows[i].samples, sample)
}

// String is the table.
func (b *board) String() string {
	var text strings.Builder
	text.WriteString("| measured | wanted | least | most | samples |\n|---|---:|---:|---:|---:|\n")
	for _, r := range b.rows {
		want := "–"
		if r.want > 0 || r.unit == "" {
			want = fmt.Sprintf("≤ %g %s", r.want, r.unit)
		}
		fmt.Fprintf(&text, "| %s | %s | %.3g | %.3g | %d |\n", r.name, want, slices.Min(r.samples), slices.Max(r.samples), len(r.samples))
	}
	return text.String()
}
