package quotas

import (
	"math"

	"anabranch/ratelimit"
)

// envelope holds what is spent of a limit to rate × t + burst over every window at once: it is a
// bucket that is full at the start, filled by true time alone and never kept from running dry. How far
// it ran into debt at the worst is the largest excess over all windows.
type envelope struct {
	limit ratelimit.Limit
	parts int64 // a unit has as many as the period has microseconds
	atUs  int64
	least int64
	sum   int64
}

func newEnvelope(l ratelimit.Limit, nowUs int64) *envelope {
	full := l.Burst * l.PeriodMs * 1000
	return &envelope{limit: l, parts: full, atUs: nowUs, least: full}
}

func (e *envelope) spend(n, nowUs int64) {
	size := e.limit.PeriodMs * 1000
	full := e.limit.Burst * size
	if passed := nowUs - e.atUs; passed >= (full-e.parts)/e.limit.Amount+1 {
		e.parts = full
	} else {
		e.parts = min(e.parts+passed*e.limit.Amount, full)
	}
	e.atUs = nowUs
	e.parts = max(e.parts-n*size, math.MinInt64/4)
	e.least = min(e.least, e.parts)
	e.sum += n
}

// excess is the most that was spent above rate × t + burst in any window, in bursts; below 0 is what
// was left at the least.
func (e *envelope) excess() float64 {
	return -float64(e.least) / float64(e.limit.Burst*e.limit.PeriodMs*1000)
}
