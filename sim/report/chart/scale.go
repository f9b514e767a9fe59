package chart

import "math"

// scale turns values into places on the drawing.
type scale struct {
	low, high float64 // values
	from, to  float64 // places
	log       bool
}

// newScale covers the values from low to high. A logarithmic one needs low > 0; where there is no
// extent it makes some.
func newScale(low, high, from, to float64, log bool) scale {
	if !(high > low) || math.IsInf(high-low, 0) {
		high = low + max(math.Abs(low), 1)
	}
	return scale{low, high, from, to, log}
}

func (s scale) at(v float64) float64 {
	share := (v - s.low) / (s.high - s.low)
	if s.log {
		share = math.Log(max(v, s.low)/s.low) / math.Log(s.high/s.low)
	}
	return s.from + min(max(share, 0), 1)*(s.to-s.from)
}

// maxTicks ends the search for ticks where float64 can't tell one from the next.
const maxTicks = 100

// ticks are about n round values within the scale.
func (s scale) ticks(n int) []float64 {
	if s.log {
		return s.logTicks(n)
	}
	step := nice((s.high - s.low) / float64(n))
	var out []float64
	first := math.Ceil(s.low/step - 1e-9)
	for i := range maxTicks {
		v := (first+float64(i))*step + 0 // + 0 makes −0 a 0
		if !(v <= s.high*(1+1e-9)+1e-12) {
			break
		}
		out = append(out, v)
	}
	return out
}

// nice is the smallest of 1, 2, 2.5 and 5 times a power of ten that is not below x.
func nice(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if x <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

func (s scale) logTicks(n int) []float64 {
	for _, multiples := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		var out []float64
		from, to := math.Floor(math.Log10(s.low)), math.Ceil(math.Log10(s.high))
		for k := from; k <= min(to, from+maxTicks); k++ {
			for _, m := range multiples {
				if v := m * math.Pow(10, k); v >= s.low*(1-1e-9) && v <= s.high*(1+1e-9) {
					out = append(out, v)
				}
			}
		}
		if len(out) <= n || len(multiples) == 1 {
			return out
		}
	}
	return nil
}

// roundUp is the next tick above, so that the highest value has room.
func roundUp(high float64, n int) float64 {
	if !(high > 0) {
		return 1
	}
	step := nice(high / float64(n))
	return math.Ceil(high/step-1e-9) * step
}
