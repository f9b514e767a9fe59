package costmodel

import (
	"math"
	"math/bits"
)

// TokenPrice is what a provider asks for a million tokens.
type TokenPrice struct{ Input, Cached, Output Micros }

// Cost is what a usage costs, rounded to the nearest micro-dollar.
func (p TokenPrice) Cost(u Usage) Micros {
	u = u.sane()
	var high, low uint64
	for _, part := range [...]struct {
		price  Micros
		tokens int64
	}{{p.Input, u.Input - u.Cached}, {p.Cached, u.Cached}, {p.Output, u.Output}} {
		h, l := bits.Mul64(uint64(max(part.price, 0)), uint64(part.tokens)) // below 2^126
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high += h + carry
	}
	low, carry := bits.Add64(low, million/2, 0)
	if high += carry; high >= million {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(high, low, million)
	return Micros(min(quotient, math.MaxInt64))
}

// Marginal is what a million work units cost, an output token being outputWeight of them (above 0): the
// dearer of as many of input and of output, since the mix is not known.
func (p TokenPrice) Marginal(outputWeight float64) Micros {
	return max(p.Input, Micros(float64(p.Output)/outputWeight))
}
