package report

import (
	"slices"

	"anabranch/sim/report/stat"
)

// clusters is the table of what part of all requests each cluster served; empty with fewer than two
// clusters.
func (r *Report) clusters() grid {
	return r.detail("Share of requests by cluster, %", "cluster", "Of the requests answered, wherever they came from.", 2,
		func(f *Figures) (names []string, shares []stat.Number) {
			for _, c := range f.Clusters {
				names, shares = append(names, c.Name), append(shares, c.Share)
			}
			return names, shares
		})
}

// tenants is the table of how much of its quota each tenant got; empty without quotas.
func (r *Report) tenants() grid {
	return r.detail("Tokens admitted, % of what one exact bucket admits", "tenant", "Above 100 a tenant got more than its quota, below it less.", 1,
		func(f *Figures) (names []string, shares []stat.Number) {
			for _, t := range f.Tenants {
				names, shares = append(names, t.Name), append(shares, stat.Ratio(float64(t.Admitted), float64(t.Exact)))
			}
			return names, shares
		})
}

// detail is a table with a row for each thing that runs have a share of, and a column for each policy.
// It is empty if there are fewer than least things.
func (r *Report) detail(title, what, note string, least int, of func(*Figures) ([]string, []stat.Number)) grid {
	g := grid{Title: title, Head: []string{what}, Note: note}
	var things []string
	for i := range r.Runs {
		names, _ := of(&r.Runs[i])
		for _, name := range names {
			if !slices.Contains(things, name) {
				things = append(things, name)
			}
		}
	}
	if len(things) < least {
		return g
	}
	g.Head = append(g.Head, r.Policies()...)
	for _, thing := range things {
		row := []cell{{Text: thing}}
		for _, policy := range r.Policies() {
			var values []stat.Number
			for _, f := range r.Of(policy) {
				names, shares := of(&f)
				if at := slices.Index(names, thing); at >= 0 {
					values = append(values, shares[at])
				}
			}
			row = append(row, cell{Text: Metric{Unit: Share}.ShowEstimate(stat.Estimated(values))})
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}
