package state

import (
	"cmp"
	"slices"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// AsOf is the resources as they were at an earlier time, by the clocks that stamped commands and as far as
// history is kept: a resource that was there, and of which only later revisions are known, is as the first of these.
type AsOf struct {
	view *View
	at   time.Time
}

// AsOf gives the resources as they were at a time.
func (v *View) AsOf(at time.Time) AsOf { return AsOf{v, at} }

// List gives the resources of a kind that there were, sorted by name.
func (a AsOf) List(kind policy.Kind) []*policy.Resource {
	now := a.view.List(kind)
	if !a.Differs(kind) {
		return now
	}
	list := make([]*policy.Resource, 0, len(now))
	add := func(name string) {
		if was, ok := a.find(kind, name); ok {
			list = append(list, was)
		}
	}
	for _, r := range now {
		if r.Metadata.UpdatedAt.After(a.at) {
			add(r.Metadata.Name)
		} else {
			list = append(list, r)
		}
	}
	for _, h := range a.view.past.of[kind] {
		if a.deleted(h) {
			add(h.GetName())
		}
	}
	slices.SortFunc(list, func(x, y *policy.Resource) int { return cmp.Compare(x.Metadata.Name, y.Metadata.Name) })
	return list
}

// Differs says whether a resource of the kind was written or deleted since.
func (a AsOf) Differs(kind policy.Kind) bool {
	return slices.ContainsFunc(a.view.List(kind), func(r *policy.Resource) bool { return r.Metadata.UpdatedAt.After(a.at) }) ||
		slices.ContainsFunc(a.view.past.of[kind], a.deleted)
}

// deleted says whether a resource has been deleted since.
func (a AsOf) deleted(h *statepb.History) bool {
	return isGone(h) && newest(h).GetAtUnixMs() > a.at.UnixMilli()
}

// find gives a resource as it was then; false: it was not there.
func (a AsOf) find(kind policy.Kind, name string) (*policy.Resource, bool) {
	history := a.view.History(kind, name) // newest first
	for _, r := range history {
		if r.GetAtUnixMs() <= a.at.UnixMilli() {
			return a.view.Was(kind, name, r.GetRevision())
		}
	}
	if len(history) == 0 || history[len(history)-1].GetCreatedUnixMs() > a.at.UnixMilli() {
		return nil, false
	}
	return a.view.Was(kind, name, history[len(history)-1].GetRevision())
}

// OffersAsOf are the [View.Offers] as they were at an earlier time, as far as it is known. What a seller asks and is
// in force since a later time stands for what was asked before where that is not known: something was.
func (v *View) OffersAsOf(at time.Time) []costmodel.Offer {
	var all []costmodel.Offer
	for _, s := range v.prices.sources {
		for _, told := range s.GetOffers() {
			o := OfferOf(s, told)
			if told.GetWasUntilUnixMs() > at.UnixMilli() {
				o.PerHour = costmodel.Micros(told.GetWasMicrosPerHour())
			}
			if o.Origin == costmodel.Live && o.Purchase != costmodel.CapacityBlock && o.From.After(at) {
				o.From = time.Time{}
			}
			all = append(all, o)
		}
	}
	return all
}
