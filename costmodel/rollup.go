package costmodel

import (
	"cmp"
	"maps"
	"slices"

	"anabranch/api/fleet"
)

// Key says whose and where. An empty field stands for all there are, or for none in particular.
type Key struct {
	Tenant  fleet.TenantID
	Model   fleet.ModelID
	Class   fleet.ClassID
	Cluster fleet.ClusterID
	Region  fleet.RegionID
}

// Dimensions name fields of a Key; they are combined with |.
type Dimensions uint8

// The fields of a Key.
const (
	ByTenant Dimensions = 1 << iota
	ByModel
	ByClass
	ByCluster
	ByRegion
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
	return out
}

func (k Key) compare(l Key) int {
	return cmp.Or(
		cmp.Compare(k.Region, l.Region), cmp.Compare(k.Cluster, l.Cluster), cmp.Compare(k.Tenant, l.Tenant),
		cmp.Compare(k.Model, l.Model), cmp.Compare(k.Class, l.Class),
	)
}

// Sum is what was used and what it cost. Nothing in it is below 0.
type Sum struct {
	Usage
	Work Work
	// Cost of the work. Idle is what was paid for nothing, unless that has been spread over the cost.
	// Carbon is the cost of emissions, for work and for nothing; nobody is billed for it.
	Cost, Idle, Carbon Micros
}

// Plus adds up. It saturates, and neither order nor grouping matters.
func (s Sum) Plus(t Sum) Sum {
	return Sum{
		Usage: Usage{
			Input: add(s.Input, t.Input), Cached: add(s.Cached, t.Cached), Output: add(s.Output, t.Output),
			Succeeded: add(s.Succeeded, t.Succeeded), Failed: add(s.Failed, t.Failed),
		},
		Work: add(s.Work, t.Work),
		Cost: add(s.Cost, t.Cost), Idle: add(s.Idle, t.Idle), Carbon: add(s.Carbon, t.Carbon),
	}
}

// PerMillionTokens is the cost of a million tokens, input and output alike, rounded up. Not ok: there
// were none.
func (s Sum) PerMillionTokens() (cost Micros, ok bool) {
	tokens := add(s.Input, s.Output)
	if tokens <= 0 {
		return 0, false
	}
	return ceil(s.Cost, million, tokens), true
}

// PerSuccess is the cost of an answer that succeeded, rounded up; what was spent on failed ones is part of
// it. Not ok: none succeeded.
func (s Sum) PerSuccess() (cost Micros, ok bool) {
	if s.Succeeded <= 0 {
		return 0, false
	}
	return ceil(s.Cost, 1, s.Succeeded), true
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

// Keys in a fixed order: by region, cluster, tenant, model and class.
func (r Rollup) Keys() []Key { return slices.SortedFunc(maps.Keys(r), Key.compare) }
