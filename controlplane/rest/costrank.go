package rest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"anabranch/controlplane/account"
	"anabranch/costmodel"
)

// costRow is a row that is shown; merged: of so many keys beyond the limit.
type costRow struct {
	account.Row
	merged int
}

// ranked are rows as they are shown.
type ranked struct {
	rows   []costRow
	total  costmodel.Sum
	keys   int  // those of merged rows among them
	folded bool // a key is that of what could not be told apart
}

// rank sorts rows by time and then by what the question says, and puts the keys beyond its limit together, in each
// step: which they are is decided over the whole time, so that a key stands in all steps or in none. Whatever
// is put together, the rows add up to the total.
func (q costQuery) rank(rows []account.Row) (ranked, error) {
	var out ranked
	keys := costmodel.Rollup{}
	for _, r := range rows {
		keys.Add(r.Key, r.Sum)
		out.total = out.total.Plus(r.Sum)
		out.folded = out.folded || folded(r.Key)
	}
	order := keys.Keys()
	slices.SortFunc(order, func(a, b costmodel.Key) int { return q.compare(a, keys[a], b, keys[b]) })
	out.keys = len(order)
	shown := order
	if q.limit > 0 {
		shown = order[:min(q.limit, len(order))]
	}
	apart := make(map[costmodel.Key]bool, len(shown))
	for _, k := range shown {
		apart[k] = true
	}
	others := map[int64]costRow{} // by the start of the step
	for _, r := range rows {
		if apart[r.Key] {
			out.rows = append(out.rows, costRow{Row: r})
			continue
		}
		at := r.Start.Unix()
		o := others[at]
		o.Start, o.Until, o.Sum, o.merged = r.Start, r.Until, o.Plus(r.Sum), o.merged+1
		others[at] = o
	}
	out.rows = slices.AppendSeq(out.rows, maps.Values(others))
	if len(out.rows) > maxCostRows {
		return ranked{}, newProblem(codeInvalidRequest, fmt.Sprintf("There would be %d rows, the limit is %d. Ask for a shorter time, a longer step, fewer fields in by, or give a limit.", len(out.rows), maxCostRows))
	}
	slices.SortFunc(out.rows, func(a, b costRow) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(min(a.merged, 1), min(b.merged, 1)), q.compare(a.Key, a.Sum, b.Key, b.Sum))
	})
	return out, nil
}

// folded says whether a key stands for some that could not be told apart.
func folded(k costmodel.Key) bool {
	return slices.Contains([]string{string(k.Tenant), string(k.Model), string(k.Class), string(k.Cluster), string(k.Region), string(k.Source)}, costmodel.Other)
}

// compare two keys by their figures, then by their names.
func (q costQuery) compare(a costmodel.Key, of costmodel.Sum, b costmodel.Key, than costmodel.Sum) int {
	var n int
	if q.figure != nil {
		n = cmp.Compare(q.figure(of), q.figure(than))
	}
	if q.down {
		n = -n
	}
	byName := a.Compare(b)
	if q.figure == nil && q.down {
		byName = -byName
	}
	return cmp.Or(n, byName)
}
