package order

import (
	"cmp"
	"slices"
	"time"

	"anabranch/api/fleet"
)

// Given is an order that was taken, and how it stands.
type Given struct {
	Order
	// Door is the one that it came by, see [Doors].
	Door string `json:"door"`
	// OverruledBy is the order that holds instead. Empty: this one holds.
	OverruledBy string `json:"overruledBy,omitempty"`
}

// Set is some orders, whichever door they came by. It is immutable; the zero Set has none.
type Set struct {
	orders []Given // oldest first
}

// With is the set with orders of a door beside. One that it has already, by its ID, stays as it is: an order that came
// by two doors is one.
func (s Set) With(door string, orders ...Order) Set {
	all := slices.Clone(s.orders)
	for _, o := range orders {
		if !slices.ContainsFunc(all, func(x Given) bool { return x.ID == o.ID }) {
			all = append(all, Given{Order: o, Door: door})
		}
	}
	slices.SortStableFunc(all, func(a, b Given) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return Set{all}
}

// At is what holds at now. Of orders that conflict the less drastic holds: restore before evacuate,
// the lower bound of two that shed, the newer table of two that revert. A revert holds newer tables
// off as a freeze does.
func (s Set) At(now time.Time) *View {
	v := &View{overruled: make(map[string]string)}
	var shed, revert *Order
	for i := range s.orders {
		o := &s.orders[i].Order
		if !now.Before(o.Expires) {
			continue
		}
		v.given = append(v.given, s.orders[i])
		switch o.Kind {
		case Freeze:
			v.frozen = cmp.Or(v.frozen, o)
		case StopDrills:
			v.stops = cmp.Or(v.stops, o)
		case Restore:
			v.restored.add(o)
		case Evacuate:
			v.evacuated.add(o)
		case Shed:
			shed = v.milder(shed, o, func(held *Order) bool { return o.Priority <= held.Priority })
		case Revert:
			revert = v.milder(revert, o, func(held *Order) bool { return !later(held, o) })
		}
	}
	if shed != nil {
		v.shed, v.sheds = shed.Priority, true
	}
	if revert != nil {
		v.revert = revert
	}
	for i := range v.given {
		if o := &v.given[i].Order; o.Kind == Evacuate {
			if by := v.restored.sameAs(o); by != nil {
				v.overruled[o.ID] = by.ID
			}
		}
		v.given[i].OverruledBy = v.overruled[v.given[i].ID]
	}
	return v
}

// later says whether one revert goes to a later table than another. Epoch 0 is the newest.
func later(o, than *Order) bool {
	const newest = ^uint64(0)
	a, b := cmp.Or(o.Epoch, newest), cmp.Or(than.Epoch, newest)
	return cmp.Or(cmp.Compare(a, b), cmp.Compare(o.Revision, than.Revision)) > 0
}

// milder keeps one of two orders of a kind, the new one if it is preferred, and notes that it
// overrules the other.
func (v *View) milder(held, o *Order, preferred func(*Order) bool) *Order {
	switch {
	case held == nil:
		return o
	case preferred(held):
		v.overruled[held.ID] = o.ID
		return o
	}
	v.overruled[o.ID] = held.ID
	return held
}

// places is what orders of one kind name.
type places struct {
	clusters map[fleet.ClusterID]*Order
	regions  map[fleet.RegionID]*Order
}

func (p *places) add(o *Order) {
	order := *o
	what, name := o.Place()
	if what != "region" {
		if p.clusters == nil {
			p.clusters = make(map[fleet.ClusterID]*Order)
		}
		p.clusters[fleet.ClusterID(name)] = &order
	}
	if what != "cluster" {
		if p.regions == nil {
			p.regions = make(map[fleet.RegionID]*Order)
		}
		p.regions[fleet.RegionID(name)] = &order
	}
}

// of is an order that covers a cluster of a region. Nil: there is none.
func (p *places) of(cluster fleet.ClusterID, region fleet.RegionID) *Order {
	if o := p.clusters[cluster]; o != nil {
		return o
	}
	return p.regions[region]
}

// sameAs is an order for all that another names. Nil: there is none.
func (p *places) sameAs(o *Order) *Order {
	what, name := o.Place()
	cluster, region := p.clusters[fleet.ClusterID(name)], p.regions[fleet.RegionID(name)]
	switch {
	case what == "cluster":
		return cluster
	case what == "region":
		return region
	case cluster != nil && region != nil:
		return region
	}
	return nil
}

// View is what orders say at a moment. It is immutable, and reading it takes no lock; a nil View
// says nothing.
type View struct {
	given               []Given // that have not expired, oldest first
	overruled           map[string]string
	frozen, stops       *Order // the first of their kind
	evacuated, restored places
	shed                int32
	sheds               bool
	revert              *Order
}

// Frozen says whether to take no new table.
func (v *View) Frozen() bool { return v.Freezer() != nil }

// Freezer is the order that newer tables are held off by, the first freeze or else the revert that holds. Nil: there
// is none.
func (v *View) Freezer() *Order {
	if v == nil {
		return nil
	}
	return cmp.Or(v.frozen, v.revert)
}

// StopDrills is the order that no drill may run by. Nil: there is none.
func (v *View) StopDrills() *Order {
	if v == nil {
		return nil
	}
	return v.stops
}

// Evacuated says whether a cluster of a region gets no new requests, and by whose order.
func (v *View) Evacuated(cluster fleet.ClusterID, region fleet.RegionID) (reason string, yes bool) {
	if v == nil {
		return "", false
	}
	o := v.evacuated.of(cluster, region)
	if o == nil || v.restored.of(cluster, region) != nil {
		return "", false
	}
	return "emergency order " + o.ID + " by " + o.Actor, true
}

// Of is the order that holds for a cluster of a region: one that restores it, else one that evacuates it. With an empty
// cluster it is the region's as a whole. Nil: there is none.
func (v *View) Of(cluster fleet.ClusterID, region fleet.RegionID) *Order {
	if v == nil {
		return nil
	}
	return cmp.Or(v.restored.of(cluster, region), v.evacuated.of(cluster, region))
}

// Restored says whether a cluster of a region is to be used though an operator has drained it by
// the table. It makes nothing alive, and allows nobody what rules forbid.
func (v *View) Restored(cluster fleet.ClusterID, region fleet.RegionID) bool {
	return v != nil && v.restored.of(cluster, region) != nil
}

// ShedBelow is the priority below which requests are refused, if any are.
func (v *View) ShedBelow() (priority int32, sheds bool) {
	if v == nil {
		return 0, false
	}
	return v.shed, v.sheds
}

// Revert is the order that says by which table to serve, if it is not the newest; its Epoch is 0 for the newest
// table of its Revision. Nil: there is none.
func (v *View) Revert() *Order {
	if v == nil {
		return nil
	}
	return v.revert
}

// Given are the orders that have not expired, oldest first, and how they stand. They must not be changed.
func (v *View) Given() []Given {
	if v == nil {
		return nil
	}
	return v.given
}

// Overruled names the order that holds instead of one. Empty: none.
func (v *View) Overruled(id string) string {
	if v == nil {
		return ""
	}
	return v.overruled[id]
}
