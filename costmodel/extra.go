package costmodel

import (
	"math"

	"anabranch/api/fleet"
)

// Extra is what usage cost on top of what the same usage would have cost as it was before. What was cheaper is below 0.
// It is an estimate whatever prices are: nobody knows what would have been.
type Extra struct {
	// Work is of GPUs that are paid for by the hour: nobody pays it on top, as it comes out of what would have been paid for
	// idle time. Tokens is of providers who ask by token, and Egress of answers that left their region: both are paid.
	Work, Tokens, Egress Micros
	// Uncompared was spent on usage like none before, which may be because of it or not: it is no part of the others.
	Uncompared Micros
	// Units are all usage that is compared, and Moved what of it was served elsewhere than before, in units of an input
	// token that no cache had.
	Units, Moved float64
	// Answers that succeeded among it.
	Answers int64
	// Estimate: one of the prices behind it is. Unpriced: one is not known and was left out.
	Estimate, Unpriced bool
}

// Plus adds up.
func (e Extra) Plus(o Extra) Extra {
	return Extra{
		Work: plus(e.Work, o.Work), Tokens: plus(e.Tokens, o.Tokens), Egress: plus(e.Egress, o.Egress), Uncompared: plus(e.Uncompared, o.Uncompared),
		Units: e.Units + o.Units, Moved: e.Moved + o.Moved, Answers: add(e.Answers, o.Answers), Estimate: e.Estimate || o.Estimate, Unpriced: e.Unpriced || o.Unpriced,
	}
}

// Total is all of it.
func (e Extra) Total() Micros { return plus(e.Paid(), e.Work) }

// Paid is what of it somebody sends a bill for.
func (e Extra) Paid() Micros { return plus(e.Tokens, e.Egress) }

// likeness are the keys by which usage is compared with what was before: the first of which there was any.
var likeness = []Dimensions{ByTenant | ByModel | ByClass | BySource, ByModel | ByClass | BySource, ByModel | BySource, ByModel}

// habit is how usage of one key was served and what it cost, by unit.
type habit struct {
	units, away          float64
	work, tokens, egress float64 // in micro-dollars
}

// unitsOf is what a usage would be worth without caches: the same wherever it is served.
func unitsOf(s Sum) float64 { return float64(s.Work)/1000 + (1-CachedWeight)*float64(s.Cached) }

func (h habit) with(s Sum, away, byToken bool) habit {
	u := unitsOf(s)
	h.units += u
	if away {
		h.away += u
	}
	if byToken {
		h.tokens += float64(s.Cost)
	} else {
		h.work += float64(s.Cost)
	}
	h.egress += float64(s.Egress)
	return h
}

// Compare says what usage cost on top while some clusters were left, by who asked for it (tenant, model, class and
// source). Only usage counts that was served there before, as other usage has not moved. It is compared by unit of work
// with the same of before, or, if there was none, with the next that is like it; so dearer clusters, colder caches, tokens of
// providers and egress are all in it, and more or less traffic than before is not. Both rollups are to have all dimensions.
func Compare(before, during Rollup, away, byToken func(fleet.ClusterID) bool) map[Key]Extra {
	was := make([]map[Key]habit, len(likeness))
	for i, by := range likeness {
		was[i] = habits(before, by, away, byToken)
	}
	out := map[Key]Extra{}
	is := habits(during, likeness[0], away, byToken)
	for _, k := range during.Keys() {
		who, s := k.only(likeness[0]), during[k]
		if is[who].units <= 0 {
			continue // idle time
		}
		e, begun := out[who]
		if !begun {
			var moved bool
			if e, moved = compared(was, who, is[who]); !moved {
				continue
			}
		}
		e.Answers, e.Estimate, e.Unpriced = add(e.Answers, s.Succeeded), e.Estimate || s.Estimate, e.Unpriced || s.Unpriced
		out[who] = e
	}
	return out
}

// compared says what usage of one key cost on top; false: nothing like it was served where it could have been left.
func compared(was []map[Key]habit, who Key, now habit) (Extra, bool) {
	old, known := like(was, who)
	if !known {
		return Extra{Uncompared: micros(now.work + now.tokens + now.egress)}, true
	}
	n := now.units / old.units
	return Extra{
		Work: micros(now.work - n*old.work), Tokens: micros(now.tokens - n*old.tokens), Egress: micros(now.egress - n*old.egress),
		Units: now.units, Moved: max(n*old.away-now.away, 0),
	}, old.away > 0
}

func habits(r Rollup, by Dimensions, away, byToken func(fleet.ClusterID) bool) map[Key]habit {
	out := map[Key]habit{}
	for _, k := range r.Keys() { // in order, so that sums are the same each time
		who := k.only(by)
		out[who] = out[who].with(r[k], away(k.Cluster), byToken(k.Cluster))
	}
	return out
}

// like finds how usage like that of a key was served; false: there was none.
func like(was []map[Key]habit, who Key) (habit, bool) {
	for i, by := range likeness {
		if h := was[i][who.only(by)]; h.units > 0 {
			return h, true
		}
	}
	return habit{}, false
}

// plus adds amounts that may be below 0. It saturates.
func plus(a, b Micros) Micros {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// micros rounds to whole ones.
func micros(x float64) Micros { return FromUSD(math.Round(x) / float64(Dollar)) }
