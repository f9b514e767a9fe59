package signal

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fed is a series that has seen a figure of 1,000 for long, and then one each so often.
func fed(every time.Duration, seconds int, figure func(second float64) float64) (s series, high float64) {
	s = startOf(1000)
	for at := every; at <= time.Duration(seconds)*time.Second; at += every {
		s = s.next(figure(at.Seconds()), every)
		high = max(high, s.value())
	}
	return s, high
}

func TestATrendIsMetWithoutLagAndWithoutOvershoot(t *testing.T) {
	steady := func(float64) float64 { return 1000 }
	ramp := func(by, until float64) func(float64) float64 {
		return func(s float64) float64 { return 1000 + by*min(s, until) }
	}
	step := func(s float64) float64 { return 3000 }
	tests := map[string]struct {
		every     time.Duration
		seconds   int
		figure    func(float64) float64
		want, off float64
		atMost    float64
	}{
		"a steady figure":                     {time.Second, 100, steady, 1000, 1e-9, 1000},
		"a rise, a minute on":                 {time.Second, 60, ramp(50, 60), 4000, 50 * 3.5, 4000},
		"a rise, told each five seconds":      {5 * time.Second, 60, ramp(50, 60), 4000, 50 * 6, 4000},
		"a rise that has ended":               {time.Second, 120, ramp(50, 60), 4000, 40, 4000},
		"a fall, a minute on":                 {time.Second, 60, ramp(-10, 60), 400, 10 * 3.5, 1000},
		"a step, after three time constants":  {time.Second, 45, step, 3000, 100, 3000},
		"a step, after one":                   {time.Second, 15, step, 3000, 2000 * 0.4, 3000},
		"a figure that alternates":            {time.Second, 120, func(s float64) float64 { return 1000 + 500*math.Pow(-1, s) }, 1000, 40, 1250},
		"a figure that falls to nothing":      {time.Second, 200, func(float64) float64 { return 0 }, 0, 1, 1000},
		"a rise after which there is a gap":   {time.Second, 60, ramp(50, 60), 4000, 50 * 3.5, 4000},
		"waves of twenty seconds do not grow": {time.Second, 240, func(s float64) float64 { return 1000 + 300*math.Sin(s*math.Pi/10) }, 1000, 140, 1140},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, high := fed(tt.every, tt.seconds, tt.figure)
			if math.Abs(s.value()-tt.want) > tt.off {
				t.Errorf("is %.1f, want %.1f within %.1f", s.value(), tt.want, tt.off)
			}
			if high > tt.atMost+1e-6 {
				t.Errorf("was %.1f, want at most %.1f", high, tt.atMost)
			}
		})
	}
}

// Noise must not be taken for a trend: the figure varies by hardly more than a plain average does.
func TestNoiseIsNoTrend(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := startOf(1000)
	var value, mean float64
	const n = 20_000
	for range n {
		s = s.next(1000+200*random.NormFloat64(), time.Second)
		value += (s.value() - 1000) * (s.value() - 1000)
		mean += (s.mean - 1000) * (s.mean - 1000)
	}
	if ratio := math.Sqrt(value / mean); ratio > 1.1 {
		t.Errorf("varies %.2f times as much as a plain average", ratio)
	}
}

// Whatever comes, and after whatever gaps: within what was seen.
func TestASeriesStaysWithinWhatWasSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		figures := rapid.SliceOfN(rapid.Float64Range(0, 1e9), 1, 50).Draw(t, "figures")
		low, high := figures[0], figures[0]
		s := startOf(figures[0])
		for _, x := range figures[1:] {
			low, high = min(low, x), max(high, x)
			s = s.next(x, time.Duration(rapid.IntRange(-1000, 100_000).Draw(t, "ms"))*time.Millisecond)
			if v := s.value(); !(v >= low-1e-6*high-1e-9 && v <= high+1e-6*high+1e-9) {
				t.Fatalf("is %v of figures from %v to %v", v, low, high)
			}
		}
	})
}
