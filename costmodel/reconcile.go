package costmodel

import (
	"cmp"
	"slices"
)

// Charge is what instances of one type in one region cost in some time, as somebody says.
type Charge struct {
	Region, Instance string
	Cost             Micros
}

// Billed is what a seller billed in some time.
type Billed struct {
	Charges []Charge
	// Estimate: the amounts may still change.
	Estimate bool
}

// Drift sets what a seller billed beside what was counted for the same.
type Drift struct {
	Region, Instance string
	Billed, Counted  Micros
}

// Ratio is how much more was billed than counted, as a part of what was counted: 0.04 is 4 % more, -1 that
// nothing was billed at all. Not ok: nothing was counted.
func (d Drift) Ratio() (ratio float64, ok bool) {
	if d.Counted <= 0 {
		return 0, false
	}
	return (float64(d.Billed) - float64(d.Counted)) / float64(d.Counted), true
}

// Reconcile sets charges side by side, by region and instance type in order. Several for the same are added;
// what only one side knows is 0 on the other, and so is what is below 0.
func Reconcile(billed, counted []Charge) []Drift {
	var out []Drift
	for _, c := range billed {
		out = append(out, Drift{c.Region, c.Instance, max(c.Cost, 0), 0})
	}
	for _, c := range counted {
		out = append(out, Drift{c.Region, c.Instance, 0, max(c.Cost, 0)})
	}
	slices.SortFunc(out, Drift.compare)
	kept := out[:0]
	for _, d := range out {
		if n := len(kept); n > 0 && kept[n-1].compare(d) == 0 {
			kept[n-1].Billed, kept[n-1].Counted = add(kept[n-1].Billed, d.Billed), add(kept[n-1].Counted, d.Counted)
			continue
		}
		kept = append(kept, d)
	}
	return kept
}

func (d Drift) compare(e Drift) int {
	return cmp.Or(cmp.Compare(d.Region, e.Region), cmp.Compare(d.Instance, e.Instance))
}
