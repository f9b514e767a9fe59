package workload

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Delays is a distribution of times between things, e.g. of thinking. The zero value is no delay.
type Delays struct {
	// Fixed is always the same.
	Fixed time.Duration
	// Mean is of an exponential distribution, or, with P99, of a lognormal one.
	Mean, P99 time.Duration
}

// maxDelay bounds delays and whole workloads.
const maxDelay = 366 * 24 * time.Hour

// Validate names what is wrong, and the fix.
func (d Delays) Validate() error {
	switch {
	case d.Fixed != 0 && (d.Mean != 0 || d.P99 != 0):
		return errors.New("sets both Fixed and Mean: keep one")
	case d.Fixed < 0 || d.Fixed > maxDelay || d.Mean < 0 || d.Mean > maxDelay || d.P99 < 0 || d.P99 > maxDelay:
		return fmt.Errorf("is negative or above %v: set 0 or more", maxDelay)
	case d.P99 != 0:
		_, _, err := lognormal(d.Mean.Seconds(), d.P99.Seconds())
		return err
	}
	return nil
}

// Quantile is the delay that a share u of all, 0 to below 1, doesn't exceed.
func (d Delays) Quantile(u float64) time.Duration {
	switch {
	case d.P99 != 0:
		mu, sigma, err := lognormal(d.Mean.Seconds(), d.P99.Seconds())
		if err != nil {
			return 0
		}
		return seconds(math.Exp(mu + sigma*math.Sqrt2*math.Erfinv(2*u-1)))
	case d.Mean != 0:
		return seconds(-d.Mean.Seconds() * math.Log1p(-u))
	default:
		return d.Fixed
	}
}

// seconds turns seconds into a duration that stays within bounds.
func seconds(s float64) time.Duration {
	return time.Duration(min(max(s, 0), 2*maxDelay.Seconds()) * float64(time.Second))
}
