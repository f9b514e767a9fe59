package state

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// Bounds of the prices that are kept.
const (
	// MaxPriceSources is how many sources there may be.
	MaxPriceSources = 256
	// MaxSourceOffers and MaxOffers are how many offers one of them may have, and all together: about 150
	// bytes each in a snapshot.
	MaxSourceOffers = 1_000
	MaxOffers       = 5_000
	// maxRepricings bounds the entries of the audit trail that one command makes.
	maxRepricings = 64
	// maxPriceText bounds names and words of offers and sources, in bytes.
	maxPriceText = 300
)

// ActionReprice and KindPriceSource are what an entry of the audit trail says that tells of a cluster's other
// price: the source is no resource.
const (
	ActionReprice   = "reprice"
	KindPriceSource = "PriceSource"
)

// prices are what sources have found. Its lists are replaced, never written to.
type prices struct {
	sources  []*statepb.PriceSource // by name
	offers   []costmodel.Offer      // of all of them
	revision uint64
}

// PriceSources are where prices were asked for, by name, and their last good answers.
func (v *View) PriceSources() []*statepb.PriceSource { return v.prices.sources }

// PriceSource finds one of them; nil: there is none of the name.
func (v *View) PriceSource(name string) *statepb.PriceSource {
	if at, ok := findSource(v.prices.sources, name); ok {
		return v.prices.sources[at]
	}
	return nil
}

// Offers are all prices that sources have found and that are believed. Those of rate cards, which go before
// them, and the defaults that come with the program are not among them.
func (v *View) Offers() []costmodel.Offer { return v.prices.offers }

// PricesRevision is the index of the last command that changed one of the Offers; 0: none has.
func (v *View) PricesRevision() uint64 { return v.prices.revision }

func findSource(sources []*statepb.PriceSource, name string) (int, bool) {
	return sort.Find(len(sources), func(i int) int { return cmp.Compare(name, sources[i].GetName()) })
}

// putPrices replaces what is known of sources.
func (v *View) putPrices(cmd *statepb.Command, p *statepb.PutPrices) *statepb.Outcome {
	sources := slices.DeleteFunc(slices.Clone(v.prices.sources), func(s *statepb.PriceSource) bool {
		return slices.Contains(p.GetGone(), s.GetName())
	})
	changed := slices.ContainsFunc(v.prices.sources, func(s *statepb.PriceSource) bool {
		return len(s.GetOffers()) > 0 && slices.Contains(p.GetGone(), s.GetName())
	})
	for i, told := range p.GetSources() {
		if i > 0 && told.GetName() <= p.GetSources()[i-1].GetName() {
			return refuse(CodeInvalid, "sources.name", "is out of order")
		}
		if field, why := wrongSource(told); why != "" {
			return refuse(CodeInvalid, field, fmt.Sprintf("of source %.80q %s", told.GetName(), why))
		}
		s := proto.CloneOf(told)
		s.SameOffers, s.Revision = false, v.index
		at, known := findSource(sources, s.GetName())
		if known {
			before := sources[at]
			if told.GetSameOffers() {
				s.Offers = before.GetOffers()
			}
			if samePrices(before.GetOffers(), s.GetOffers()) {
				s.Revision = before.GetRevision()
			}
			sources[at] = s
		} else {
			sources = slices.Insert(sources, at, s)
		}
		changed = changed || s.GetRevision() == v.index
	}
	all := 0
	for _, s := range sources {
		all += len(s.GetOffers())
	}
	if len(sources) > MaxPriceSources || all > MaxOffers {
		return refuse(CodeTooMany, "sources", fmt.Sprintf("there would be %d sources with %d offers, at most %d and %d are kept", len(sources), all, MaxPriceSources, MaxOffers))
	}
	revision := v.prices.revision
	if changed {
		revision = v.index
	}
	v.prices = prices{sources, offersOf(sources), revision}
	for _, r := range p.GetRepricings()[:min(len(p.GetRepricings()), maxRepricings)] {
		v.record(cmd, entry{action: ActionReprice, kind: KindPriceSource, name: r.GetSource(), reason: r.GetDetail()})
	}
	return &statepb.Outcome{}
}

// wrongSource says what of a source can't be kept; no why: nothing.
func wrongSource(s *statepb.PriceSource) (field, why string) {
	fits := func(text string) bool { return len(text) <= maxPriceText }
	switch {
	case s.GetName() == "" || !fits(s.GetName()) || !fits(s.GetStanding()) || !fits(s.GetError()):
		return "sources.name", "has no name, or a text that is too long"
	case len(s.GetOffers()) > MaxSourceOffers:
		return "sources.offers", fmt.Sprintf("are %d, at most %d are kept", len(s.GetOffers()), MaxSourceOffers)
	case s.GetSameOffers() && len(s.GetOffers()) > 0:
		return "sources.offers", "are told, and are to stay the same"
	}
	for _, o := range s.GetOffers() {
		switch {
		case o.GetClass() == "" || o.GetRegion() == "":
			return "sources.offers", "have no class or region"
		case !fits(o.GetClass()) || !fits(o.GetInstance()) || !fits(o.GetRegion()) || !fits(o.GetZone()) || !fits(o.GetPurchase()) || !fits(o.GetSource()):
			return "sources.offers", "have a text that is too long"
		case o.GetMicrosPerHour() < 0 || o.GetDoubt().GetMicrosPerHour() < 0 || o.GetWasMicrosPerHour() < 0:
			return "sources.offers", "cost less than nothing"
		case costmodel.Origin(o.GetOrigin()) != costmodel.File && costmodel.Origin(o.GetOrigin()) != costmodel.Live:
			return "sources.offers", "are neither of a file nor of a seller"
		}
	}
	return "", ""
}

// samePrices compares offers, however old they are and whatever is doubted of them.
func samePrices(a, b []*statepb.PriceOffer) bool {
	return slices.EqualFunc(a, b, func(a, b *statepb.PriceOffer) bool {
		if a == b {
			return true
		}
		a, b = proto.CloneOf(a), proto.CloneOf(b)
		a.Doubt, b.Doubt, a.AsOfUnixMs, b.AsOfUnixMs = nil, nil, 0, 0
		return proto.Equal(a, b)
	})
}

// offersOf are the offers of sources as the cost model takes them.
func offersOf(sources []*statepb.PriceSource) []costmodel.Offer {
	var all []costmodel.Offer
	for _, s := range sources {
		for _, o := range s.GetOffers() {
			all = append(all, OfferOf(s, o))
		}
	}
	return all
}

// OfferOf is an offer of a source as the cost model takes it.
func OfferOf(s *statepb.PriceSource, o *statepb.PriceOffer) costmodel.Offer {
	asOf := o.GetAsOfUnixMs()
	if asOf == 0 && costmodel.Origin(o.GetOrigin()) == costmodel.Live {
		asOf = s.GetReadUnixMs()
	}
	return costmodel.Offer{
		Class: o.GetClass(), Instance: o.GetInstance(), GPUs: int(o.GetGpus()), Region: o.GetRegion(), Zone: o.GetZone(),
		Purchase: costmodel.Purchase(o.GetPurchase()), PerHour: costmodel.Micros(o.GetMicrosPerHour()),
		From: momentOf(o.GetFromUnixMs()), Until: momentOf(o.GetUntilUnixMs()), AsOf: momentOf(asOf),
		Origin: costmodel.Origin(o.GetOrigin()), Source: o.GetSource(), Estimate: o.GetEstimate(),
	}
}

// momentOf keeps none, which is 0, none.
func momentOf(unixMs int64) time.Time {
	if unixMs == 0 {
		return time.Time{}
	}
	return time.UnixMilli(unixMs).UTC()
}

// proto is what a snapshot holds of them; nil: nothing.
func (p *prices) proto() *statepb.Prices {
	if len(p.sources) == 0 && p.revision == 0 {
		return nil
	}
	return &statepb.Prices{Sources: p.sources, Revision: p.revision}
}

// read is the inverse of proto.
func (p *prices) read(from *statepb.Prices) error {
	*p = prices{from.GetSources(), offersOf(from.GetSources()), from.GetRevision()}
	for i, s := range p.sources {
		if i > 0 && s.GetName() <= p.sources[i-1].GetName() {
			return errors.New("the sources of prices are out of order")
		}
	}
	return nil
}
