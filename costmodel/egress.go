package costmodel

// Lane is the price of traffic that leaves a region for another.
type Lane struct {
	// To is empty where the price is for all other regions that no lane names.
	From, To string
	// PerGB is for 10^9 bytes.
	PerGB Micros
	// Estimate marks a figure that nobody published.
	Estimate bool
}

// Egress looks up what traffic between regions costs. The zero Egress knows no prices.
type Egress struct{ lanes map[[2]string]Lane }

// NewEgress collects lanes. Of two for the same regions the first holds; negative prices are left out.
func NewEgress(list []Lane) Egress {
	e := Egress{make(map[[2]string]Lane, len(list))}
	for _, l := range list {
		at := [2]string{l.From, l.To}
		if _, known := e.lanes[at]; !known && l.PerGB >= 0 {
			e.lanes[at] = l
		}
	}
	return e
}

// Cost of sending bytes from a region to another, rounded up; nothing within a region.
func (e Egress) Cost(from, to string, bytes int64) Priced {
	if from == to || bytes <= 0 {
		return Priced{}
	}
	l, ok := e.lanes[[2]string{from, to}]
	if !ok {
		l, ok = e.lanes[[2]string{from, ""}]
	}
	return Priced{Cost: ceil(l.PerGB, bytes, 1_000_000_000), Estimate: l.Estimate, Unpriced: !ok}
}
