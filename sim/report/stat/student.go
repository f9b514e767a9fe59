package stat

import "math"

// student is the quantile of Student's t distribution with df ≥ 1 degrees of freedom at 0.975: the
// factor of a two-sided 95 % interval, found by bisection.
func student(df int) float64 {
	low, high := 0.0, 16.0 // 12.7 with one degree of freedom is the largest
	for range 60 {
		mid := (low + high) / 2
		if within(mid, df) < 0.95 {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// within is P(|T| ≤ t), by the finite sums for whole degrees of freedom (Abramowitz and Stegun,
// 26.7.3 and 26.7.4). Beyond 10,000 the
// quantile changes by less than 0.0002, and df stops there.
func within(t float64, df int) float64 {
	df = min(df, 10_000)
	angle := math.Atan(t / math.Sqrt(float64(df)))
	sin, cos := math.Sincos(angle)
	term, sum := 1.0, 0.0
	if df%2 == 1 {
		term = cos
	}
	for k := 1 + df%2; k < df; k += 2 {
		sum += term
		term *= cos * cos * float64(k) / float64(k+1)
	}
	if df%2 == 1 {
		return (angle + sin*sum) * 2 / math.Pi
	}
	return sin * sum
}
