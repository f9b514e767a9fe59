package costmodel

import (
	"cmp"
	"slices"

	"anabranch/api/fleet"
)

// Key says whose and where. An empty field stands for all there are, or for none in particular.
type Key struct {
	Tenant  fleet.TenantID
	Model   fleet.ModelID
	Class   fleet.ClassID
	Cluster fleet.ClusterID
	// Region of the cluster. Source is the one where requests came in.
	Region, Source fleet.RegionID
}

// Other stands in a key for all that there was no room to tell apart. It is no legal name.
const Other = "(other)"

// Dimensions name fields of a Key; they are combined with |.
type Dimensions uint8

// The fields of a Key.
const (
	ByTenant Dimensions = 1 << iota
	ByModel
	ByClass
	ByCluster
	ByRegion
	BySource
)

// only keeps the fields named.
func (k Key) only(by Dimensions) (out Key) {
	if by&ByTenant != 0 {
		out.Tenant = k.Tenant
	}
	if by&ByModel != 0 {
		out.Model = k.Model
	}
	if by&ByClass != 0 {
		out.Class = k.Class
	}
	if by&ByCluster != 0 {
		out.Cluster = k.Cluster
	}
	if by&ByRegion != 0 {
		out.Region = k.Region
	}
	if by&BySource != 0 {
		out.Source = k.Source
	}
	return out
}

// Compare orders keys by region, cluster, tenant, model, class and source.
func (k Key) Compare(l Key) int {
	return cmp.Or(
		cmp.Compare(k.Region, l.Region), cmp.Compare(k.Cluster, l.Cluster), cmp.Compare(k.Tenant, l.Tenant),
		cmp.Compare(k.Model, l.Model), cmp.Compare(k.Class, l.Class), cmp.Compare(k.Source, l.Source),
	)
}

// Sum is what was used and what it cost. Nothing in it is below 0.
type Sum struct {
	Usage
	Work Work
	// Cost of the work. Idle is what was paid for nothing, unless that has been spread over the cost.
	// Egress is the cost of answers that left for another region. Carbon is the cost of emissions, for work and
	// for nothing; nobody is billed for it.
	Cost, Idle, Egress, Carbon Micros
	// Estimate: one of the prices behind it is. Unpriced: one is not known and was left out.
	Estimate, Unpriced bool
}

// Plus adds up. It saturates, and neither order nor grouping matters.
func (s Sum) Plus(t Sum) Sum {
	return Sum{
		Usage: s.Usage.Plus(t.Usage),
		Work:  add(s.Work, t.Work),
		Cost:  add(s.Cost, t.Cost), Idle: add(s.Idle, t.Idle), Egress: add(s.Egress, t.Egress), Carbon: add(s.Carbon, t.Carbon),
		Estimate: s.Estimate || t.Estimate, Unpriced: s.Unpriced || t.Unpriced,
	}
}

// Sane is the sum with nothing below 0 and no more cached tokens than input.
func (s Sum) Sane() Sum {
	s.Usage, s.Work = s.sane(), max(s.Work, 0)
	s.Cost, s.Idle, s.Egress, s.Carbon = max(s.Cost, 0), max(s.Idle, 0), max(s.Egress, 0), max(s.Carbon, 0)
	return s
}

// Spent is what the answers cost: the work and what it took to bring them to another region.
func (s Sum) Spent() Micros { return add(s.Cost, s.Egress) }

// Paid is all that is paid, idle time included.
func (s Sum) Paid() Micros { return add(s.Spent(), s.Idle) }

// PerMillionTokens is what is spent on a million tokens, input and output alike, rounded up. Not ok: there
// were none.
func (s Sum) PerMillionTokens() (cost Micros, ok bool) {
	tokens := s.Tokens()
	if tokens == 0 {
		return 0, false
	}
	return ceil(s.Spent(), million, tokens), true
}

// PerMillionWork is what is spent on a million units of work, rounded up. Not ok: there was none.
func (s Sum) PerMillionWork() (cost Micros, ok bool) {
	if s.Work <= 0 {
		return 0, false
	}
	return ceil(s.Spent(), 1000*million, int64(s.Work)), true
}

// PerSuccess is what is spent on an answer that succeeded, rounded up; what was spent on failed ones is part of
// it. Not ok: none succeeded.
func (s Sum) PerSuccess() (cost Micros, ok bool) {
	if s.Succeeded <= 0 {
		return 0, false
	}
	return ceil(s.Spent(), 1, s.Succeeded), true
}

// Rollup is an account: sums by whose and where. Rollups of parts of a time or of a fleet add up to that of
// the whole in any order and grouping. It is not for use by several goroutines at a time.
type Rollup map[Key]Sum

// Add adds a sum to that of a key.
func (r Rollup) Add(k Key, s Sum) { r[k] = r[k].Plus(s) }

// Merge adds all of another rollup.
func (r Rollup) Merge(o Rollup) {
	for k, s := range o {
		r.Add(k, s)
	}
}

// By gathers the sums by the fields named; the other fields of its keys are empty.
func (r Rollup) By(by Dimensions) Rollup {
	out := make(Rollup)
	for k, s := range r {
		out.Add(k.only(by), s)
	}
	return out
}

// Keys in a fixed order, that of [Key.Compare].
func (r Rollup) Keys() []Key {
	keys := make([]Key, 0, len(r))
	for k := range r {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, Key.Compare)
	return keys
}

// SpreadIdle makes those who used a cluster pay for its idle time too, and bear its emissions, by work. Where
// nobody did any work there is nobody to spread it over, and it stays. What is paid in all stays what it is.
// It is to be spread before sums are gathered by less than cluster and region.
func (r Rollup) SpreadIdle() Rollup {
	out := make(Rollup, len(r))
	for keys := r.Keys(); len(keys) > 0; {
		n := 1
		for n < len(keys) && keys[n].only(ByCluster|ByRegion) == keys[0].only(ByCluster|ByRegion) { // they are neighbours
			n++
		}
		r.spread(keys[:n], out)
		keys = keys[n:]
	}
	return out
}

// spread spreads the idle time of one cluster.
func (r Rollup) spread(keys []Key, out Rollup) {
	var idle, carbon Micros
	var done Work
	work := make([]Work, len(keys))
	for i, k := range keys {
		s := r[k]
		work[i], done, idle = s.Work, add(done, s.Work), add(idle, s.Idle)
		if s.Work == 0 {
			carbon = add(carbon, s.Carbon)
		}
	}
	costs, carbons := Split(idle, work), Split(carbon, work)
	for i, k := range keys {
		s := r[k]
		if done > 0 {
			s.Cost, s.Idle = add(s.Cost, costs[i]), 0
			if s.Work == 0 {
				s.Carbon = 0
			}
			s.Carbon = add(s.Carbon, carbons[i])
		}
		if s.Usage != (Usage{}) || s.Paid() > 0 || s.Carbon > 0 {
			out.Add(k, s)
		}
	}
}
