package workload

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sample draws n lengths evenly over all quantiles.
func sample(l Lengths, n int) (mean float64, all []int) {
	for i := range n {
		x := l.Quantile((float64(i) + 0.5) / float64(n))
		mean += float64(x) / float64(n)
		all = append(all, x)
	}
	return mean, all
}

func TestLengthsHaveTheirMoments(t *testing.T) {
	for _, c := range []struct {
		name      string
		lengths   Lengths
		mean      float64
		p50, p99  float64
		tolerance float64
	}{
		{"fixed", Lengths{Fixed: 100}, 100, 100, 100, 1e-9},
		{"uniform", Lengths{Min: 1, Max: 9}, 5, 5, 9, 0.01},
		{"one value", Lengths{Min: 7, Max: 7}, 7, 7, 7, 1e-9},
		{"lognormal", Lengths{Mean: 1000, P99: 5000}, 1000, 686, 5000, 0.02},
		{"nearly even lognormal", Lengths{Mean: 1000, P99: 1200}, 1000, 997, 1200, 0.01},
		{"as skewed as can be", Lengths{Mean: 1000, P99: 14_900}, 1000, 74, 14_900, 0.25},
		{"table", Lengths{Quantiles: []Quantile{{0, 0}, {0.5, 100}, {1, 300}}}, 101.8, 100, 293, 0.01},
		{"capped", Lengths{Min: 1, Max: 100, Cap: 50}, 37.75, 50, 50, 0.01},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.lengths.Validate(); err != nil {
				t.Fatal(err)
			}
			mean, _ := sample(c.lengths, 100_000)
			near(t, "the mean", mean, c.mean, c.tolerance)
			near(t, "the median", float64(c.lengths.Quantile(0.5)), c.p50, 0.01+c.tolerance)
			near(t, "the 99th percentile", float64(c.lengths.Quantile(0.99)), c.p99, 0.01)
		})
	}
}

func TestBadLengths(t *testing.T) {
	for _, c := range []struct {
		lengths Lengths
		says    string
	}{
		{Lengths{}, "is empty"},
		{Lengths{Cap: 10}, "is empty"},
		{Lengths{Fixed: 1, Max: 2}, "more than one"},
		{Lengths{Fixed: -1}, "fixed: is -1"},
		{Lengths{Fixed: MaxTokens + 1}, "fixed: is"},
		{Lengths{Fixed: 1, Cap: -1}, "cap: is -1"},
		{Lengths{Max: 5}, "min, max: are 0 and 5"},
		{Lengths{Min: 6, Max: 5}, "min, max: are 6 and 5"},
		{Lengths{Mean: 10}, "mean, p99: are 10 and 0"},
		{Lengths{Mean: 10, P99: 9}, "mean, p99"},
		{Lengths{Mean: 10, P99: 200}, "p99: is 20.0 times Mean"},
		{Lengths{Mean: math.NaN(), P99: 200}, "mean, p99"},
		{Lengths{Mean: 1, P99: math.Inf(1)}, "mean, p99"},
		{Lengths{Quantiles: []Quantile{{0, 1}}}, "from P 0 to P 1"},
		{Lengths{Quantiles: []Quantile{{0, 1}, {0.5, 2}}}, "from P 0 to P 1"},
		{Lengths{Quantiles: []Quantile{{0, 1}, {0, 2}, {1, 3}}}, "quantiles[1]: is not above"},
		{Lengths{Quantiles: []Quantile{{0, 9}, {1, 3}}}, "quantiles[1]: is not above"},
		{Lengths{Quantiles: []Quantile{{0, -9}, {1, 3}}}, "quantiles[0].tokens"},
		{Lengths{Quantiles: []Quantile{{0, 1}, {1, math.NaN()}}}, "quantiles[1].tokens"},
	} {
		if err := c.lengths.Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: error is %v, want one that says %q", c.lengths, err, c.says)
		}
	}
}

func TestDefaultsKeepTheCap(t *testing.T) {
	if l := (Lengths{Cap: 10}).or(Lengths{Fixed: 100}); l.Quantile(0.5) != 10 {
		t.Errorf("a cap alone gives %d", l.Quantile(0.5))
	}
	if l := (Lengths{Fixed: 3}).or(Lengths{Fixed: 100}); l.Quantile(0.5) != 3 {
		t.Errorf("a length of one's own gives %d", l.Quantile(0.5))
	}
}

func TestQuantilesRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mean := rapid.Float64Range(1, 1e5).Draw(t, "mean")
		l := rapid.SampledFrom([]Lengths{
			{Fixed: 1 + int(mean)},
			{Min: 1, Max: 1 + int(mean)},
			{Mean: mean, P99: mean * rapid.Float64Range(1.001, 14.9).Draw(t, "skew")},
			{Quantiles: []Quantile{{0, 0}, {0.3, mean}, {1, 2 * mean}}},
		}).Draw(t, "lengths")
		l.Cap = rapid.IntRange(0, 1000).Draw(t, "cap")
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		u, v := rapid.Float64Range(0, 0.999999).Draw(t, "u"), rapid.Float64Range(0, 0.999999).Draw(t, "v")
		a, b := l.Quantile(min(u, v)), l.Quantile(max(u, v))
		if a < 1 || a > b || b > MaxTokens || l.Cap > 0 && b > l.Cap {
			t.Errorf("quantiles %v and %v are %d and %d", min(u, v), max(u, v), a, b)
		}
	})
}

func TestDelays(t *testing.T) {
	for _, c := range []struct {
		delays    Delays
		mean, p99 time.Duration
	}{
		{Delays{}, 0, 0},
		{Delays{Fixed: time.Second}, time.Second, time.Second},
		{Delays{Mean: time.Second}, time.Second, 4605 * time.Millisecond}, // ln 100
		{Delays{Mean: 20 * time.Second, P99: 2 * time.Minute}, 20 * time.Second, 2 * time.Minute},
	} {
		if err := c.delays.Validate(); err != nil {
			t.Fatal(err)
		}
		mean := 0.0
		for i := range 20_000 {
			mean += c.delays.Quantile((float64(i)+0.5)/20_000).Seconds() / 20_000
		}
		near(t, "the mean", mean, c.mean.Seconds(), 0.02)
		near(t, "the 99th percentile", c.delays.Quantile(0.99).Seconds(), c.p99.Seconds(), 0.001)
	}
	for _, d := range []Delays{{Fixed: 1, Mean: 1}, {Fixed: -1}, {Mean: -1}, {Mean: time.Second, P99: time.Millisecond}, {P99: 1}, {Mean: 3 * maxDelay}} {
		if d.Validate() == nil {
			t.Errorf("%+v is legal", d)
		}
	}
}
