package costmodel

// GPUs are so many GPUs of one class, bought in one way.
type GPUs struct {
	Class    string
	Count    int
	Purchase Purchase
}

// Marginal is what work costs on a cluster beyond what is paid anyway.
type Marginal struct {
	// PerMillion work units, rounded up, so that what is not free never looks free.
	PerMillion Micros
	// Estimate: one of the prices behind it is. Unpriced: one is not known and was left out.
	Estimate, Unpriced bool
}

const secondsPerHour = 3600

// ClusterHour is what an hour of the cluster's GPUs costs beyond what is paid anyway: nothing for
// owned and reserved ones, the price for spot and on demand.
func (b Book) ClusterHour(region string, gpus []GPUs) (perHour Micros, estimate, unpriced bool) {
	for _, g := range gpus {
		if g.Count <= 0 || g.Purchase.orDefault().sunk() {
			continue
		}
		price, ok := b.Find(Want{Class: g.Class, Region: region, Purchase: g.Purchase})
		if !ok {
			unpriced = true
			continue
		}
		estimate = estimate || price.Estimate
		perHour = add(perHour, price.GPUsPerHour(g.Count))
	}
	return perHour, estimate, unpriced
}

// Marginal is the cost of a million work units on a cluster in a region with the given measured
// capacity in work units per second. Without a capacity nothing can be said, and it is free.
func (b Book) Marginal(region string, gpus []GPUs, capacityPerS int64) Marginal {
	perHour, estimate, unpriced := b.ClusterHour(region, gpus)
	m := Marginal{Estimate: estimate, Unpriced: unpriced}
	if capacityPerS <= 0 || perHour == 0 {
		return m
	}
	m.PerMillion = ceil(perHour, 1_000_000, int64(times(secondsPerHour, capacityPerS)))
	return m
}
