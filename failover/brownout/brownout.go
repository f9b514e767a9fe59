// Package brownout is what a router gives up, and in which order, while capacity is short: a ladder of six steps that
// it climbs while the shortage lasts and comes down once it is over, and the fair shares of those who must do with
// less. All of it are values of what is seen and of the time; it needs no control plane.
package brownout

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Step of the ladder. Each keeps what the ones below it have given up.
type Step uint8

// The steps, the least painful first.
const (
	// None: nothing is given up.
	None Step = iota
	// NoExtras: second copies of requests, copies for tests, and canaries of places that are well.
	NoExtras
	// HoldBatch: batch requests wait for more room than they else need, and get 429 when they have waited for too long.
	HoldBatch
	// ShortBatch: answers to batch requests are cut short.
	ShortBatch
	// FloorBestEffort: best-effort tenants get their floor, a part of all that is let in.
	FloorBestEffort
	// ShareStandard: standard tenants get fair shares of what their tier gets.
	ShareStandard
	// ShareTop: and so do those of the top tier.
	ShareTop
	// Last is the last step.
	Last = ShareTop
)

// String says in words what is given up.
func (s Step) String() string {
	names := [...]string{
		"none", "hedges, copies and background canaries are off", "batch is held back", "batch answers are cut short",
		"best-effort has its floor", "standard has fair shares", "top has fair shares",
	}
	return names[min(int(s), len(names)-1)]
}

// Config are the numbers. The zero Config is as [Config.WithDefaults] fills it in.
type Config struct {
	// Off: there is no brown-out; what is full is for the queue alone.
	Off bool
	// EnterAt is the saturation of the least full place from which on capacity is short, and LeaveAt that below which
	// it is no more. 0.9, where standard requests begin to wait, and 0.8.
	EnterAt, LeaveAt float64
	// Enter is how long a shortage lasts for each step up, and Leave how long there is none for each step down; 5 s, 30 s.
	Enter, Leave time.Duration
	// BatchCeiling is the saturation from which on batch requests wait once they are held back; 0.3.
	BatchCeiling float64
	// BatchTokens is the most that an answer to a batch request has when these are cut short; 512.
	BatchTokens int64
	// Floor is the part of all that is let in that best-effort tenants get together, 0..1; 0.1.
	Floor float64
}

// WithDefaults fills in what is not given.
func (c Config) WithDefaults() Config {
	c.EnterAt, c.LeaveAt = or(c.EnterAt, 0.9), or(c.LeaveAt, 0.8)
	c.Enter, c.Leave = or(c.Enter, 5*time.Second), or(c.Leave, 30*time.Second)
	c.BatchCeiling, c.BatchTokens, c.Floor = or(c.BatchCeiling, 0.3), or(c.BatchTokens, 512), or(c.Floor, 0.1)
	return c
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// Validate names the number that is wrong and the fix, or answers nil. Numbers that are not given are right.
func (c Config) Validate() error {
	c = c.WithDefaults()
	within := func(x, least, most float64) bool { return x >= least && x <= most } // nor a number
	switch {
	case !within(c.EnterAt, 0.1, 10):
		return fmt.Errorf("enter at saturation %v: give 0.1 to 10", c.EnterAt)
	case !within(c.LeaveAt, 0.05, 10) || c.LeaveAt >= c.EnterAt:
		return fmt.Errorf("leave at saturation %v: give 0.05 or more, below that to enter, %v", c.LeaveAt, c.EnterAt)
	case c.Enter < time.Second || c.Enter > time.Hour:
		return fmt.Errorf("a step is entered after %v: give 1s to 1h", c.Enter)
	case c.Leave < c.Enter || c.Leave > 24*time.Hour:
		return fmt.Errorf("a step is left after %v: give no less than the %v to enter one, and at most 24h", c.Leave, c.Enter)
	case !within(c.BatchCeiling, 0.01, 0.6):
		return fmt.Errorf("batch is held back from saturation %v on: give 0.01 to 0.6, as it is else", c.BatchCeiling)
	case c.BatchTokens < 1:
		return errors.New("batch answers are cut to less than a token: give 1 or more")
	case !within(c.Floor, 0.001, 1):
		return fmt.Errorf("the floor of best-effort is %v: give 0.001 to 1", c.Floor)
	}
	return nil
}

// Signs of a shortage, as one router sees them for one model.
type Signs struct {
	// Saturation of the least full of the places that may serve it; 1 is full, +Inf: none is alive. NaN: not known,
	// which is no sign.
	Saturation float64
	// Waiting: requests wait, or were refused, for want of room, of tiers that are not to.
	Waiting bool
	// Shed: the routing table in force sheds some of it, and is kept up to date.
	Shed bool
}

func (s Signs) short(c Config) bool { return s.Shed || s.Waiting || s.Saturation >= c.EnterAt }

func (s Signs) over(c Config) bool {
	return !s.Shed && !s.Waiting && (math.IsNaN(s.Saturation) || s.Saturation < c.LeaveAt)
}

// Ladder is where a model stands. The zero Ladder is at its foot.
type Ladder struct {
	step Step
	// short is since when there is a shortage, and over since when there is none; or, if that is later, when the last
	// step was made. Zero: there is none, or it is not over.
	short, over time.Time
}

// Step that it has reached.
func (l Ladder) Step() Step { return l.step }

// Next is the ladder after a look at what is to be seen. It goes up or down by one step at most, so looks should be
// closer together than a step may take. Between the saturations to enter and to leave it stays; a shortage that comes
// and goes more quickly than a step takes moves it neither way.
func (l Ladder) Next(s Signs, c Config, now time.Time) Ladder {
	if c.Off {
		return Ladder{}
	}
	c = c.WithDefaults()
	l.short = since(l.short, s.short(c), now)
	l.over = since(l.over, s.over(c), now)
	switch {
	case lasted(l.short, c.Enter, now) && l.step < Last:
		l.step++
		l.short = now
	case lasted(l.over, c.Leave, now) && l.step > None:
		l.step--
		l.over = now
	}
	return l
}

// since is when what is so began to be so; zero: it is not. A clock that was set back begins anew.
func since(began time.Time, is bool, now time.Time) time.Time {
	switch {
	case !is:
		return time.Time{}
	case began.IsZero() || began.After(now):
		return now
	}
	return began
}

func lasted(began time.Time, d time.Duration, now time.Time) bool {
	return !began.IsZero() && now.Sub(began) >= d
}
