package plan

import (
	"cmp"
	"slices"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/costmodel"
)

// suppositions are what a plan takes for true against its input: what-ifs are made of them, and so is the
// search for what would change a share. Nil: none.
type suppositions struct {
	// capacity and demand are factors of what is measured, believed and asked for.
	capacity map[fleet.ClusterID]float64
	demand   []DemandChange
	prices   []PriceChange
	// of narrows demand to one model and class; empty: of any.
	ofModel fleet.ModelID
	ofClass fleet.ClassID
}

// suppose makes a world what it would be.
func (w *world) suppose(in Input) {
	if in.supposed == nil {
		return
	}
	w.supposed = *in.supposed
	for _, s := range w.sites {
		factor, there := w.supposed.capacity[s.id]
		for m, work := range s.capacity {
			if there {
				s.capacity[m] = min(max(work*factor, leastWork), mostWork)
			}
		}
		if offers, changed := w.supposed.repriced(s.id, s.spec, w.book); changed {
			book := costmodel.NewBook(in.Now, offers)
			s.book = &book
		}
	}
}

// asked is the factor of a demand.
func (x suppositions) asked(model fleet.ModelID, class fleet.ClassID, source fleet.RegionID) float64 {
	factor := 1.0
	if x.ofModel != "" && x.ofModel != model || x.ofClass != "" && x.ofClass != class {
		return factor
	}
	for _, d := range x.demand {
		if d.Region == "" || d.Region == source {
			factor *= max(d.Factor, 0)
		}
	}
	return factor
}

// repriced are offers for a cluster's GPUs at supposed prices, and at those of the book where nothing is
// supposed of them; there is none for those that have no price.
func (x suppositions) repriced(id fleet.ClusterID, spec *policy.ClusterSpec, book costmodel.Book) (offers []costmodel.Offer, changed bool) {
	for _, g := range spec.Bought() {
		found, known := book.Find(costmodel.Want{Class: g.Class, Region: spec.Region, Instance: g.Instance, Zone: g.Zone, Purchase: g.Purchase})
		o := found.Offer
		for _, c := range x.prices {
			if c.of(id, g.Class) {
				o = costmodel.Offer{PerHour: costmodel.FromUSD(max(c.USDPerHour, 0)), Origin: costmodel.Override, Source: "supposed"}
				known, changed = true, true
			}
		}
		if known { // for these very GPUs
			o.Class, o.Region, o.Instance, o.Zone, o.Purchase = g.Class, spec.Region, g.Instance, g.Zone, g.Purchase
			offers = append(offers, o)
		}
	}
	return offers, changed
}

// prices are those that hold on a site.
func (w *world) prices(s *site) costmodel.Book {
	if s.book != nil {
		return *s.book
	}
	return w.book
}

// replaced are resources of which one is another.
type replaced struct {
	Lookup
	by *policy.Resource
}

// List gives the resources of a kind, sorted by name.
func (r replaced) List(kind policy.Kind) []*policy.Resource {
	list := r.Lookup.List(kind)
	if kind != r.by.Kind {
		return list
	}
	at, found := slices.BinarySearchFunc(list, r.by.Metadata.Name, func(x *policy.Resource, name string) int {
		return cmp.Compare(x.Metadata.Name, name)
	})
	if found {
		list = slices.Clone(list)
		list[at] = r.by
	}
	return list
}
