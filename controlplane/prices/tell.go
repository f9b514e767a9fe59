package prices

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

const (
	// material is the part by which a cluster's cost must change for the audit trail to tell of it.
	material = 0.1
	// named is how many clusters one entry names.
	named = 5
)

// repricings says which clusters cost materially more or less once a source's offers are as they are next;
// none: none do.
func repricings(view *state.View, next *statepb.PriceSource, now time.Time) []*statepb.Repricing {
	var after []costmodel.Offer
	for _, s := range view.PriceSources() {
		if s.GetName() != next.GetName() {
			for _, o := range s.GetOffers() {
				after = append(after, state.OfferOf(s, o))
			}
		}
	}
	for _, o := range next.GetOffers() {
		after = append(after, state.OfferOf(next, o))
	}
	was := map[fleet.ClusterID]costmodel.Priced{}
	for _, c := range Clusters(view, view.Offers(), now) {
		was[c.ID] = c.Hour
	}
	var told []string
	for _, c := range Clusters(view, after, now) {
		switch before := was[c.ID]; {
		case before.Unpriced && !c.Hour.Unpriced:
			told = append(told, fmt.Sprintf("%s costs %s an hour, which was not known", c.ID, c.Hour.Cost))
		case !before.Unpriced && c.Hour.Unpriced:
			told = append(told, fmt.Sprintf("what %s costs is not known any more: it was %s an hour", c.ID, before.Cost))
		case materially(before.Cost, c.Hour.Cost):
			told = append(told, fmt.Sprintf("%s costs %s an hour instead of %s", c.ID, c.Hour.Cost, before.Cost))
		}
	}
	if len(told) == 0 {
		return nil
	}
	detail := strings.Join(told[:min(len(told), named)], "; ")
	if more := len(told) - named; more > 0 {
		detail += fmt.Sprintf("; and %d more", more)
	}
	return []*statepb.Repricing{{Source: next.GetName(), Detail: detail}}
}

func materially(from, to costmodel.Micros) bool {
	less, more := min(from, to), max(from, to)
	return float64(more-less) >= material*float64(max(from, 1))
}

// tellDoubts logs prices that are doubted from now on.
func (k *Keeper) tellDoubts(before, next *statepb.PriceSource) {
	for _, o := range next.GetOffers() {
		if o.GetDoubt() == nil || slices.ContainsFunc(before.GetOffers(), func(b *statepb.PriceOffer) bool {
			return goodsOf(b) == goodsOf(o) && b.GetDoubt().GetSinceUnixMs() == o.GetDoubt().GetSinceUnixMs()
		}) {
			continue
		}
		k.logger.Warn("a price is not believed, and the last one stays for a day: write a rate card if it is right", "source", next.GetName(),
			"class", o.GetClass(), "instance", o.GetInstance(), "region", o.GetRegion(), "zone", o.GetZone(), "purchase", o.GetPurchase(),
			"micros_per_hour", o.GetMicrosPerHour(), "told_micros_per_hour", o.GetDoubt().GetMicrosPerHour(), "told_gone", o.GetDoubt().GetGone())
	}
}
