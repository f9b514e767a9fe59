package quota

import (
	"math"
	"testing"
	"time"
)

// charge is units that were let through at a time.
type charge struct {
	at    time.Time
	units float64
}

// excess is by how much charges, in the order of their times, exceed rate × t + burst in the worst of all
// windows; 0: in none. Rate is units a second. It is the overflow of a bucket that fills by charges and
// leaks at the rate: what lies in it at any time is the most of all windows that end then.
func excess(charges []charge, rate, burst float64) float64 {
	level, most := 0.0, 0.0
	var last time.Time
	for _, c := range charges {
		if !last.IsZero() {
			level = max(level-rate*c.at.Sub(last).Seconds(), 0)
		}
		last = c.at
		level += c.units
		most = max(most, level-burst)
	}
	return most
}

func TestExcessIsOfTheWorstWindow(t *testing.T) {
	at := func(ms int, units float64) charge { return charge{time.UnixMilli(int64(ms)), units} }
	for name, tt := range map[string]struct {
		charges []charge
		want    float64
	}{
		"nothing":                      {nil, 0},
		"a burst":                      {[]charge{at(0, 100)}, 0},
		"more than a burst":            {[]charge{at(0, 100), at(0, 7)}, 7},
		"the rate after a burst":       {[]charge{at(0, 100), at(1000, 10), at(2000, 10)}, 0},
		"a second burst too soon":      {[]charge{at(0, 100), at(1000, 100)}, 90},
		"a second burst after a pause": {[]charge{at(0, 100), at(10_000, 100)}, 0},
		"a window within":              {[]charge{at(0, 1), at(60_000, 60), at(60_500, 60), at(90_000, 1)}, 15},
	} {
		if got := excess(tt.charges, 10, 100); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
