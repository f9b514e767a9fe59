package costmodel

// Lane is the price of traffic that leaves a region for another.
type Lane struct {
	// To is empty where the price is for all other regions that no lane names.
	From, To string
	// PerGB is for 10^9 bytes.
	PerGB Micros
}

// Egress looks up what traffic between regions costs. The zero Egress knows no prices.
type Egress struct{ perGB map[[2]string]Micros }

// NewEgress collects lanes. Of two for the same regions the first holds; negative prices are left out.
func NewEgress(lanes []Lane) Egress {
	e := Egress{make(map[[2]string]Micros, len(lanes))}
	for _, l := range lanes {
		at := [2]string{l.From, l.To}
		if _, known := e.perGB[at]; !known && l.PerGB >= 0 {
			e.perGB[at] = l.PerGB
		}
	}
	return e
}

// Cost of sending bytes from a region to another, rounded up; nothing within a region. Not ok: the
// price is not known.
func (e Egress) Cost(from, to string, bytes int64) (cost Micros, ok bool) {
	if from == to {
		return 0, true
	}
	price, ok := e.perGB[[2]string{from, to}]
	if !ok {
		price, ok = e.perGB[[2]string{from, ""}]
	}
	return ceil(price, max(bytes, 0), 1_000_000_000), ok
}
