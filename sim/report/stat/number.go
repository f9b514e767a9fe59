// Package stat holds the statistics of reports: percentiles, means with confidence intervals over
// repeated runs, and changes between two series of runs. Everything is exact or computed to the
// precision of float64, and nothing is drawn at random, so that the same runs give the same figures.
package stat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// Number is a figure that may be unknown: NaN, which is null in JSON.
type Number float64

// Unknown is the figure of which nothing is known.
var Unknown = Number(math.NaN())

// Known says whether n is a finite figure.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON writes null for what is unknown, and nine significant digits else: more would only
// show how the last bits of a sum came about.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return fmt.Appendf(nil, "%.9g", float64(n)), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (n *Number) UnmarshalJSON(text []byte) error {
	if bytes.Equal(text, []byte("null")) {
		*n = Unknown
		return nil
	}
	var f float64
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	*n = Number(f)
	return nil
}

// Ratio is a/b; unknown where b is 0.
func Ratio(a, b float64) Number {
	if b == 0 {
		return Unknown
	}
	return Number(a / b)
}
