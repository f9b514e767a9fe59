package costmodel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Book looks up the prices that hold at one moment. It never changes; the zero Book knows none.
type Book struct {
	at      time.Time
	shelves map[shelf]stock
}

// shelf holds the goods that can stand for each other while nobody says which are meant.
type shelf struct {
	class, region string
	purchase      Purchase
}

// stock is what a shelf holds: of each goods the offer that is taken for it, then those that are not.
type stock struct{ taken, beaten []Offer }

// Want is what a price is asked for.
type Want struct {
	Class, Region string
	// Instance and Zone may be empty: not known.
	Instance, Zone string
	// Purchase is OnDemand when empty.
	Purchase Purchase
}

// Found is the offer that is taken for what was wanted.
type Found struct {
	Offer
	// Age of the figure; 0: not known.
	Age time.Duration

	want  Want
	stock stock
}

// NewBook collects the offers that hold at a time. Those that cost less than nothing are left out.
//
// Of two for the same goods the one of the higher [Origin] is taken, then a published figure before an
// estimate, the one in force since a later time, the one read later, and the one given first.
func NewBook(now time.Time, offers []Offer) Book {
	b := Book{now, make(map[shelf]stock)}
	for _, o := range offers {
		if o.holds(now) {
			o.Purchase = o.Purchase.orDefault()
			s := b.shelves[o.shelf()]
			s.beaten = append(s.beaten, o)
			b.shelves[o.shelf()] = s
		}
	}
	for at, s := range b.shelves {
		b.shelves[at] = s.sorted()
	}
	return b
}

func (s stock) sorted() stock {
	all := s.beaten
	slices.SortStableFunc(all, func(a, b Offer) int {
		return cmp.Or(trust(a, b), a.From.Compare(b.From), a.AsOf.Compare(b.AsOf)) * -1
	})
	known := make(map[goods]bool, len(all))
	var out stock
	for _, o := range all {
		if known[o.goods()] {
			out.beaten = append(out.beaten, o)
			continue
		}
		known[o.goods()] = true
		out.taken = append(out.taken, o)
	}
	return out
}

// trust compares how much figures are to be relied on.
func trust(a, b Offer) int {
	published := 0
	if a.Estimate != b.Estimate {
		published = 1
		if a.Estimate {
			published = -1
		}
	}
	return cmp.Or(cmp.Compare(a.Origin, b.Origin), published)
}

// Find gives the offer that is taken for something wanted. Of those for goods that it may be the one of
// the higher [Origin] is taken, then a published figure before an estimate, one for the very instance
// type and zone, one for any, and the dearest, so that what is not known never looks cheap.
func (b Book) Find(w Want) (Found, bool) {
	s := b.shelves[Offer{Class: w.Class, Region: w.Region, Purchase: w.Purchase}.shelf()]
	best := -1
	for i, o := range s.taken {
		if o.fits(w) && (best < 0 || cmp.Or(trust(o, s.taken[best]), w.closeness(o, s.taken[best]), dearer(o, s.taken[best])) > 0) {
			best = i
		}
	}
	if best < 0 {
		return Found{}, false
	}
	f := Found{Offer: s.taken[best], want: w, stock: s}
	if !f.AsOf.IsZero() {
		f.Age = max(b.at.Sub(f.AsOf), 0)
	}
	return f, true
}

// fits says whether what is wanted may be what is offered.
func (o Offer) fits(w Want) bool {
	return (o.Instance == "" || w.Instance == "" || o.Instance == w.Instance) && (o.Zone == "" || w.Zone == "" || o.Zone == w.Zone)
}

// closeness compares how well offers that fit name what is wanted: the very thing, any, or one of several.
func (w Want) closeness(a, b Offer) int {
	rank := func(offered, wanted string) int {
		switch offered {
		case wanted:
			return 2
		case "":
			return 1
		default:
			return 0
		}
	}
	return cmp.Or(cmp.Compare(rank(a.Instance, w.Instance), rank(b.Instance, w.Instance)), cmp.Compare(rank(a.Zone, w.Zone), rank(b.Zone, w.Zone)))
}

// dearer compares what a GPU costs.
func dearer(a, b Offer) int { return cmp.Compare(a.GPUsPerHour(1), b.GPUsPerHour(1)) }

// Why tells people why the offer was taken and not another that fits: "live price: before the shipped
// default".
func (f Found) Why() string {
	var reasons []string
	note := func(reason string) {
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	for _, o := range slices.Concat(f.stock.taken, f.stock.beaten) {
		if o == f.Offer || !o.fits(f.want) {
			continue
		}
		switch {
		case o.Origin != f.Origin:
			note("before the " + o.Origin.String())
		case o.Estimate != f.Estimate:
			note("before an estimate")
		case o.goods() == f.goods() && !o.From.Equal(f.From):
			note("in force since " + f.From.UTC().Format(time.DateOnly))
		case o.goods() == f.goods() && !o.AsOf.Equal(f.AsOf):
			note("the newest")
		case o.goods() == f.goods():
			note("given first")
		case f.want.closeness(f.Offer, o) > 0:
			note("the closest fit")
		default:
			note("the dearest that it may be")
		}
	}
	if len(reasons) == 0 {
		return f.Origin.String()
	}
	return fmt.Sprintf("%s: %s", f.Origin, strings.Join(reasons, ", "))
}
