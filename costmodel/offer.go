package costmodel

import (
	"fmt"
	"strings"
	"time"
)

// Purchase is how a GPU is paid for.
type Purchase string

// The ways to buy. What is paid for whether it works or not is sunk: all but spot and on demand.
const (
	OnDemand Purchase = "on-demand"
	Spot     Purchase = "spot"
	Reserved Purchase = "reserved"
	// CapacityBlock is a number of instances for a time that is fixed and paid in advance.
	CapacityBlock Purchase = "capacity-block"
	Owned         Purchase = "owned"
)

// sunk says that the GPU costs the same idle as busy.
func (p Purchase) sunk() bool { return p == Reserved || p == CapacityBlock || p == Owned }

func (p Purchase) orDefault() Purchase {
	if p == "" {
		return OnDemand
	}
	return p
}

// Origin is how a price became known. A higher one beats a lower one.
type Origin int

// The origins, the weakest first.
const (
	Shipped  Origin = iota // comes with the program, see [ShippedOffers]
	File                   // a file that somebody keeps beside it
	Live                   // asked of the seller
	Override               // written by an operator
)

var origins = [...]string{Shipped: "shipped default", File: "price file", Live: "live price", Override: "operator's price"}

// String is how people call it: "live price".
func (o Origin) String() string {
	if o < 0 || int(o) >= len(origins) {
		return fmt.Sprintf("origin %d", int(o))
	}
	return origins[o]
}

// Offer is a price at which GPUs can be had: in a region or one of its zones, as an instance type or as
// such, bought in one way, for a time.
type Offer struct {
	// Class of GPU, e.g. "h100"; case does not matter.
	Class string
	// Instance is the type that is sold, e.g. "p5.48xlarge". Empty: whatever the GPUs sit in.
	Instance string
	// GPUs that PerHour buys: those of one instance. 0 means 1.
	GPUs   int
	Region string
	// Zone of the region. Empty: all of them.
	Zone string
	// Purchase is OnDemand when empty.
	Purchase Purchase
	PerHour  Micros
	// From and Until bound the time in which the offer holds, Until not included. Zero: no bound.
	From, Until time.Time
	Origin      Origin
	// Source says where the figure is published, for people.
	Source string
	// AsOf is when the figure was read there; zero: not known.
	AsOf time.Time
	// Estimate marks a figure that nobody published.
	Estimate bool
}

// holds says whether the offer can be taken at a time.
func (o Offer) holds(now time.Time) bool {
	return o.PerHour >= 0 && o.GPUs >= 0 && !now.Before(o.From) && (o.Until.IsZero() || now.Before(o.Until))
}

// GPUsPerHour is what so many GPUs cost for an hour by this offer, rounded up.
func (o Offer) GPUsPerHour(count int) Micros {
	return ceil(o.PerHour, int64(max(count, 0)), int64(max(o.GPUs, 1)))
}

// goods is what is sold: of two offers for the same goods one is taken.
type goods struct {
	shelf
	instance, zone string
}

func (o Offer) shelf() shelf {
	return shelf{strings.ToLower(o.Class), o.Region, o.Purchase.orDefault()}
}

func (o Offer) goods() goods { return goods{o.shelf(), o.Instance, o.Zone} }
