package modelserver

import "time"

// clock maps wall time to an engine's virtual time: stretched by a scale, and stopped while
// paused. The zero of virtual time is when the clock was made.
type clock struct {
	scale  float64 // wall time per virtual time
	since  time.Time
	base   time.Duration // virtual time at since
	paused bool
}

func newClock(scale float64, now time.Time) clock { return clock{scale: scale, since: now} }

// virtual is the virtual time at a wall time.
func (c *clock) virtual(now time.Time) time.Duration {
	if c.paused {
		return c.base
	}
	return c.base + time.Duration(float64(now.Sub(c.since))/c.scale)
}

// wall is how much wall time a stretch of virtual time takes.
func (c *clock) wall(d time.Duration) time.Duration {
	return time.Duration(float64(d) * c.scale)
}

// pause stops or restarts virtual time.
func (c *clock) pause(now time.Time, stop bool) {
	c.base = c.virtual(now)
	c.since, c.paused = now, stop
}
