package costmodel

import "time"

// Priced is an amount of money with what is to be known of it.
type Priced struct {
	Cost Micros
	// Estimate: one of the prices behind it is. Unpriced: one is not known and was left out.
	Estimate, Unpriced bool
}

// Bill is what the GPUs of a cluster cost from one time to another at the prices of the book, worked or
// not, bought in whatever way. Bills of spans that follow each other add up to that of the whole.
func (b Book) Bill(region string, gpus []GPUs, from, until time.Time) Priced {
	bill := b.perHour(region, gpus, func(Purchase) bool { return true })
	bill.Cost = span(bill.Cost, from.UnixMicro(), until.UnixMicro())
	return bill
}

// perHour is what GPUs cost for an hour if they are bought in a way that counts.
func (b Book) perHour(region string, gpus []GPUs, counts func(Purchase) bool) (sum Priced) {
	for _, g := range gpus {
		if g.Count <= 0 || !counts(g.Purchase.orDefault()) {
			continue
		}
		price, ok := b.Find(Want{g.Class, region, g.Instance, g.Zone, g.Purchase})
		if !ok {
			sum.Unpriced = true
			continue
		}
		sum.Estimate = sum.Estimate || price.Estimate
		sum.Cost = add(sum.Cost, price.GPUsPerHour(g.Count))
	}
	return sum
}

// Bill is what the emissions of something that draws so many watts are made to cost from one time to another.
// Those of spans that follow each other add up to that of the whole.
func (c Carbon) Bill(watts int64, from, until time.Time) Micros {
	return span(c.Cost(watts), from.UnixMicro(), until.UnixMicro())
}

const microsPerHour = int64(time.Hour / time.Microsecond)

// span is the price of the time between two moments in microseconds, none if they are the wrong way
// round. What has been paid at each moment is rounded, and not the difference: so spans add up.
func span(perHour Micros, from, until int64) Micros {
	if from >= until {
		return 0
	}
	// Whole micro-dollars per microsecond, and the rest, which is paid bit by bit.
	whole, rest := int64(perHour)/microsPerHour, int64(perHour)%microsPerHour
	paid := func(at int64) int64 { // rest*at/microsPerHour, downwards
		hours, within := at/microsPerHour, at%microsPerHour
		if within < 0 {
			hours, within = hours-1, within+microsPerHour
		}
		part, _ := divide(rest, within, microsPerHour)
		return rest*hours + part
	}
	return add(times(Micros(whole), until-from), Micros(paid(until)-paid(from)))
}
