package plan

import (
	"cmp"
	"slices"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/costmodel"
)

// suppositions are what a plan takes for true against its input: what-ifs are made of them, and so is the
// search for what would change a share.
type suppositions struct {
	Change
	// ofModel and ofClass narrow the demand that is multiplied; empty: of any.
	ofModel fleet.ModelID
	ofClass fleet.ClassID
	// out are clusters that a drill takes out, of the models of; none: of all. back are clusters that it brings back.
	out, back []fleet.ClusterID
	of        []fleet.ModelID
}

// suppose makes a world what it would be.
func (w *world) suppose(in Input) {
	if in.supposed == nil {
		return
	}
	w.supposed = *in.supposed
	for _, s := range w.sites {
		w.drilled(s)
		if factor := w.supposed.CapacityFactor(s.id); factor != 1 {
			for m, work := range s.capacity {
				s.capacity[m] = min(max(work*factor, leastWork), mostWork)
			}
		}
		if len(w.supposed.Prices) > 0 {
			book := w.supposed.Book(s.id, s.spec, w.book, in.Now)
			s.book = &book
		}
	}
}

// asked is the factor of a demand.
func (x suppositions) asked(model fleet.ModelID, class fleet.ClassID, source fleet.RegionID) float64 {
	if x.ofModel != "" && x.ofModel != model || x.ofClass != "" && x.ofClass != class {
		return 1
	}
	return x.DemandFactor(source)
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
