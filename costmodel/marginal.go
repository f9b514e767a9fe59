package costmodel

import (
	"math"
	"math/bits"
)

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
		price, ok := b.GPUHour(g.Class, region, g.Purchase)
		if !ok {
			unpriced = true
			continue
		}
		estimate = estimate || price.Estimate
		perHour = add(perHour, times(price.PerHour, int64(g.Count)))
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
	// perHour * 1e6 / (3600 * capacity), in 128 bits, rounded up.
	perHourCapacity := uint64(times(secondsPerHour, capacityPerS))
	high, low := bits.Mul64(uint64(perHour), 1_000_000)
	if high >= perHourCapacity {
		m.PerMillion = math.MaxInt64
		return m
	}
	quotient, rest := bits.Div64(high, low, perHourCapacity)
	if rest > 0 && quotient < math.MaxInt64 {
		quotient++
	}
	m.PerMillion = Micros(min(quotient, math.MaxInt64))
	return m
}

// add and times saturate for amounts that are not negative.
func add(a, b Micros) Micros {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a Micros, n int64) Micros {
	high, low := bits.Mul64(uint64(a), uint64(n))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return Micros(low)
}
