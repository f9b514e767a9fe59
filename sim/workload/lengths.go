package workload

import (
	"errors"
	"fmt"
	"math"
)

// MaxTokens bounds every length, far above any context window.
const MaxTokens = 10_000_000

// Lengths is a distribution of token counts. Set one of Fixed, Max (with Min), Mean (with P99) and
// Quantiles; the zero value means the default of whoever has it.
type Lengths struct {
	// Fixed is always the same.
	Fixed int
	// Min and Max bound a uniform distribution, both included.
	Min, Max int
	// Mean and P99 are of a lognormal distribution, as prompts and answers tend to have. P99 lies
	// above the mean and at most 14.9 times above it, which is as skewed as a lognormal can be there.
	Mean, P99 float64
	// Quantiles is a table. Between its points it is a straight line on a logarithmic scale, which is
	// closer to skewed lengths than one on a plain scale.
	Quantiles []Quantile
	// Cap cuts what is longer. 0: [MaxTokens].
	Cap int
}

// Quantile says that a share P of all, 0 to 1, has at most so many tokens.
type Quantile struct {
	P      float64
	Tokens float64
}

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// Zero says that nothing is set.
func (l Lengths) Zero() bool {
	return l.Fixed == 0 && l.Min == 0 && l.Max == 0 && l.Mean == 0 && l.P99 == 0 && len(l.Quantiles) == 0
}

// or is l, or the default where l is zero.
func (l Lengths) or(def Lengths) Lengths {
	if l.Zero() {
		if l.Cap != 0 {
			def.Cap = l.Cap
		}
		return def
	}
	return l
}

// within is a length that is no longer than the cap.
func (l Lengths) within(n int) int {
	if l.Cap > 0 {
		n = min(n, l.Cap)
	}
	return n
}

// Validate names what is wrong, and the fix.
func (l Lengths) Validate() error {
	kinds := 0
	for _, set := range []bool{l.Fixed != 0, l.Min != 0 || l.Max != 0, l.Mean != 0 || l.P99 != 0, len(l.Quantiles) > 0} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return errors.New("is empty: set Fixed, Max, Mean or Quantiles")
	case kinds > 1:
		return errors.New("sets more than one of Fixed, Max, Mean and Quantiles: keep one")
	case l.Cap < 0 || l.Cap > MaxTokens:
		return fmt.Errorf("cap: is %d: set 1 to %d, or 0 for no cap", l.Cap, MaxTokens)
	case l.Fixed < 0 || l.Fixed > MaxTokens:
		return fmt.Errorf("fixed: is %d: set 1 to %d", l.Fixed, MaxTokens)
	case l.Max != 0 || l.Min != 0:
		if l.Min < 1 || l.Max < l.Min || l.Max > MaxTokens {
			return fmt.Errorf("min, max: are %d and %d: set 1 ≤ Min ≤ Max ≤ %d", l.Min, l.Max, MaxTokens)
		}
	case l.Mean != 0 || l.P99 != 0:
		_, _, err := lognormal(l.Mean, l.P99)
		return err
	case len(l.Quantiles) > 0:
		return checkQuantiles(l.Quantiles)
	}
	return nil
}

func checkQuantiles(table []Quantile) error {
	if len(table) < 2 || table[0].P != 0 || table[len(table)-1].P != 1 {
		return errors.New("quantiles: must go from P 0 to P 1: add the least and the greatest length")
	}
	for i, q := range table {
		if !(q.Tokens >= 0 && q.Tokens <= MaxTokens) {
			return fmt.Errorf("quantiles[%d].tokens: is %v: set 0 to %d", i, q.Tokens, MaxTokens)
		}
		if i > 0 && !(q.P > table[i-1].P && q.Tokens >= table[i-1].Tokens) {
			return fmt.Errorf("quantiles[%d]: is not above the one before: sort by P, lengths rising", i)
		}
	}
	return nil
}

// lognormal solves for the location and scale of the distribution with this mean and 99th percentile:
// ln mean = μ + σ²/2 and ln p99 = μ + z σ.
func lognormal(mean, p99 float64) (mu, sigma float64, err error) {
	if !(mean > 0 && mean <= MaxTokens && p99 > mean && p99 <= MaxTokens) {
		return 0, 0, fmt.Errorf("mean, p99: are %v and %v: set 0 < Mean < P99 ≤ %d", mean, p99, MaxTokens)
	}
	root := z99*z99 - 2*math.Log(p99/mean)
	if root < 0 {
		return 0, 0, fmt.Errorf("p99: is %.1f times Mean: no lognormal is so skewed, set at most 14.9 times, or Quantiles", p99/mean)
	}
	sigma = z99 - math.Sqrt(root)
	return math.Log(mean) - sigma*sigma/2, sigma, nil
}

// Quantile is the length that a share u of all, 0 to below 1, doesn't exceed; at least 1. A uniform u
// draws from the distribution.
func (l Lengths) Quantile(u float64) int {
	var x float64
	switch {
	case l.Fixed != 0:
		x = float64(l.Fixed)
	case l.Max != 0:
		x = math.Floor(float64(l.Min) + u*float64(l.Max-l.Min+1))
	case l.Mean != 0:
		mu, sigma, err := lognormal(l.Mean, l.P99)
		if err != nil {
			return 1
		}
		x = math.Round(math.Exp(mu + sigma*math.Sqrt2*math.Erfinv(2*u-1)))
	default:
		x = math.Round(interpolate(l.Quantiles, u))
	}
	return l.within(int(max(1, min(x, MaxTokens))))
}

// interpolate reads a table at u. Less than a token counts as one.
func interpolate(table []Quantile, u float64) float64 {
	for i := 1; i < len(table); i++ {
		a, b := table[i-1], table[i]
		if u <= b.P {
			from, to := max(a.Tokens, 1), max(b.Tokens, 1)
			return from * math.Pow(to/from, (u-a.P)/(b.P-a.P))
		}
	}
	return 1
}

// between is the mean of the stretch of a table from one length to another: that of a curve that
// grows by the same factor in equal steps.
func between(from, to float64) float64 {
	from, to = max(from, 1), max(to, 1)
	if to-from < 1e-6*from {
		return from
	}
	return (to - from) / math.Log(to/from)
}
