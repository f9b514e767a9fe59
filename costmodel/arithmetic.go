package costmodel

import (
	"math"
	"math/bits"
)

// These saturate, and are for amounts that are not negative.

func add[N ~int64](a, b N) N {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times[N ~int64](a N, n int64) N { return ceil(a, n, 1) }

// ceil is a*n/d, rounded up. d is above 0.
func ceil[N ~int64](a N, n, d int64) N {
	quotient, rest := divide(a, n, d)
	if rest > 0 && quotient < math.MaxInt64 {
		quotient++
	}
	return quotient
}

// divide is a*n/d in 128 bits, rounded down, and what is left. d is above 0.
func divide[N ~int64](a N, n, d int64) (quotient N, rest uint64) {
	high, low := bits.Mul64(uint64(a), uint64(n))
	if high >= uint64(d) {
		return math.MaxInt64, 0
	}
	whole, rest := bits.Div64(high, low, uint64(d))
	return N(min(whole, math.MaxInt64)), rest
}
