package signal

import (
	"math"
	"time"
)

const (
	// smoothing is the time constant of the average over demand: after so long, 63 % of a step is seen.
	smoothing = 15 * time.Second
	// quick is that of the average which a trend may not pass: what was not seen for some seconds is not
	// foreseen.
	quick = 3 * time.Second
	// trendNoise is how much of the usual error a trend must be worth to be one. Of noise alone the two
	// averages differ by 0.18 standard deviations at a report each second, so that this is two to three times
	// what chance makes.
	trendNoise = 0.5
)

// series is a figure smoothed over time, with its trend: Brown's double exponential smoothing (1956), so that a
// figure that rises steadily is met without the lag of an average. Unlike it, it never overshoots: a trend
// counts by what it is worth beyond noise, and never beyond the quick average.
type series struct {
	// mean is the average, lag the average of the average, which is as far behind it as it is behind the
	// figure, and quick the average over a few seconds.
	mean, lag, quick float64
	// noise is by how much the figure usually misses what was foreseen.
	noise float64
}

// startOf is a series of which the first figure is all that is known.
func startOf(x float64) series { return series{mean: x, lag: x, quick: x} }

// next takes in a figure some time after the one before.
func (s series) next(x float64, after time.Duration) series {
	slow, fast := weightOf(after, smoothing), weightOf(after, quick)
	s.noise += slow * (math.Abs(x-(2*s.mean-s.lag)) - s.noise)
	t := max(after.Seconds(), 0) / smoothing.Seconds()
	s.lag = x + (s.lag-x+t*(s.mean-x))*math.Exp(-t) // as if the figure had been x all the time since
	s.mean += slow * (x - s.mean)
	s.quick += fast * (x - s.quick)
	return s
}

// value is what the figure is now, noise apart.
func (s series) value() float64 {
	trend := math.Abs(s.mean-s.lag) - trendNoise*s.noise
	switch {
	case trend <= 0:
		return s.mean
	case s.mean > s.lag:
		return max(s.mean, min(s.mean+trend, s.quick))
	}
	return max(min(s.mean, max(s.mean-trend, s.quick)), 0)
}

// weightOf is what a new figure counts in an average with a time constant.
func weightOf(after, constant time.Duration) float64 {
	return 1 - math.Exp(-max(after.Seconds(), 0)/constant.Seconds())
}
