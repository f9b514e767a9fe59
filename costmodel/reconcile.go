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
	all := map[[2]string]Drift{}
	put := func(c Charge, billed, counted Micros) {
		at := [2]string{c.Region, c.Instance}
		d := all[at]
		all[at] = Drift{c.Region, c.Instance, add(d.Billed, billed), add(d.Counted, counted)}
	}
	for _, c := range billed {
		put(c, max(c.Cost, 0), 0)
	}
	for _, c := range counted {
		put(c, 0, max(c.Cost, 0))
	}
	var out []Drift
	for _, d := range all {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Drift) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Instance, b.Instance))
	})
	return out
}
