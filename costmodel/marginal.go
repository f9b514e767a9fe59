package costmodel

// GPUs are so many GPUs of one class, bought in one way.
type GPUs struct {
	Class    string
	Count    int
	Purchase Purchase
	// Instance and Zone are what they sit in and where. Empty: not known.
	Instance, Zone string
}

// Marginal is what work costs on a cluster beyond what is paid anyway.
type Marginal struct {
	// PerMillion work units, rounded up, so that what is not free never looks free.
	PerMillion Micros
	// Estimate: one of the prices behind it is. Unpriced: one is not known and was left out.
	Estimate, Unpriced bool
}

const (
	secondsPerHour = 3600
	million        = 1_000_000
)

// ClusterHour is what an hour of the cluster's GPUs costs beyond what is paid anyway: nothing for those
// that are sunk, the price for spot and on demand.
func (b Book) ClusterHour(region string, gpus []GPUs) Priced {
	return b.perHour(region, gpus, func(p Purchase) bool { return !p.sunk() })
}

// Marginal is the cost of a million work units on a cluster in a region with the given measured
// capacity in work units per second. Without a capacity nothing can be said, and it is free.
func (b Book) Marginal(region string, gpus []GPUs, capacityPerS int64) Marginal {
	hour := b.ClusterHour(region, gpus)
	m := Marginal{Estimate: hour.Estimate, Unpriced: hour.Unpriced}
	if capacityPerS <= 0 || hour.Cost == 0 {
		return m
	}
	m.PerMillion = ceil(hour.Cost, million, times(capacityPerS, secondsPerHour))
	return m
}
