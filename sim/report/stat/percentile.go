package stat

import (
	"math"
	"slices"
)

// Percentile is the p-th percentile (0..100) of sorted values by nearest rank: the smallest of the
// values that at least p % of them do not exceed. It is always one of the values, never something
// between two. Unknown of none.
func Percentile(sorted []float64, p float64) Number {
	n := len(sorted)
	if n == 0 {
		return Unknown
	}
	// The tiny subtraction keeps 95 % of 20 at rank 19: the product is 19 and a bit in float64.
	rank := int(math.Ceil(p/100*float64(n) - 1e-9))
	return Number(sorted[min(max(rank, 1), n)-1])
}

// Spread says how values are spread. All are unknown when there was no value.
type Spread struct {
	Mean Number `json:"mean"`
	P50  Number `json:"p50"`
	P90  Number `json:"p90"`
	P95  Number `json:"p95"`
	P99  Number `json:"p99"`
}

// SpreadOf sorts the values in place.
func SpreadOf(values []float64) Spread {
	slices.Sort(values)
	return Spread{
		Mean: Mean(values),
		P50:  Percentile(values, 50),
		P90:  Percentile(values, 90),
		P95:  Percentile(values, 95),
		P99:  Percentile(values, 99),
	}
}

// Mean of the values; unknown of none.
func Mean(values []float64) Number {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return Ratio(sum, float64(len(values)))
}

// Variation is the coefficient of variation: the standard deviation of all the values (divided by
// their number, since they are all that there are) over their mean. 0: all are equal.
func Variation(values []float64) Number {
	mean := float64(Mean(values))
	sum := 0.0
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	if len(values) == 0 {
		return Unknown
	}
	return Ratio(math.Sqrt(sum/float64(len(values))), mean)
}
