// Package ratelimittest holds the behaviour that every ratelimit.Lender must show: scenarios as
// text, a walk beside a slow and obvious model, and a wild one beside ratelimit.Account. The lenders
// run under the suite's clock, so that they can be compared to the bit.
package ratelimittest

import (
	"sync/atomic"
	"time"
)

// Start is the time at which the suite's clock starts, in microseconds: a number of the size that
// a real clock shows, since the size is what arithmetic in doubles may trip over.
const Start = int64(1_767_225_600_000_000)

// Clock is the suite's time in microseconds.
type Clock struct{ us atomic.Int64 }

// Micros is the time now.
func (c *Clock) Micros() int64 { return c.us.Load() }

// Now is the time now.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.us.Load()) }

// Set sets the clock, backwards too.
func (c *Clock) Set(us int64) { c.us.Store(us) }
