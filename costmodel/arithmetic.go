package costmodel

import (
	"math"
	"math/bits"
)

// These saturate, and are for amounts that are not negative.

func add(a, b Micros) Micros {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a Micros, n int64) Micros { return ceil(a, n, 1) }

// ceil is a*n/d in 128 bits, rounded up. d is above 0.
func ceil(a Micros, n, d int64) Micros {
	high, low := bits.Mul64(uint64(a), uint64(n))
	if high >= uint64(d) {
		return math.MaxInt64
	}
	quotient, rest := bits.Div64(high, low, uint64(d))
	if rest > 0 && quotient < math.MaxInt64 {
		quotient++
	}
	return Micros(min(quotient, math.MaxInt64))
}
