package costmodel

import "strings"

// Purchase is how a GPU is paid for.
type Purchase string

// The ways to buy. Reserved and owned GPUs are paid for whether they work or not.
const (
	OnDemand Purchase = "on-demand"
	Spot     Purchase = "spot"
	Reserved Purchase = "reserved"
	Owned    Purchase = "owned"
)

// sunk says that the GPU costs the same idle as busy.
func (p Purchase) sunk() bool { return p == Reserved || p == Owned }

func (p Purchase) orDefault() Purchase {
	if p == "" {
		return OnDemand
	}
	return p
}

// Price is what one GPU-hour costs in one region.
type Price struct {
	// Class of GPU, e.g. "h100"; case does not matter.
	Class  string
	Region string
	// Purchase is OnDemand when empty.
	Purchase Purchase
	PerHour  Micros
	// Estimate marks a figure that nobody published.
	Estimate bool
}

// Book looks up prices. It never changes; the zero Book knows none.
type Book struct{ prices map[offer]Price }

type offer struct {
	class, region string
	purchase      Purchase
}

func (p Price) offer() offer {
	return offer{strings.ToLower(p.Class), p.Region, p.Purchase.orDefault()}
}

// NewBook collects prices. Of two for the same thing a published one beats an estimate, then the
// first one given wins. Negative prices are left out.
func NewBook(prices []Price) Book {
	b := Book{make(map[offer]Price, len(prices))}
	for _, p := range prices {
		if p.PerHour < 0 {
			continue
		}
		p.Purchase = p.Purchase.orDefault()
		was, known := b.prices[p.offer()]
		if !known || was.Estimate && !p.Estimate {
			b.prices[p.offer()] = p
		}
	}
	return b
}

// GPUHour finds the price of a GPU-hour; an empty purchase means on demand.
func (b Book) GPUHour(class, region string, purchase Purchase) (Price, bool) {
	p, ok := b.prices[Price{Class: class, Region: region, Purchase: purchase}.offer()]
	return p, ok
}
