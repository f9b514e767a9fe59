// Package ratelimit is the arithmetic of quotas in whole numbers: token buckets, paths of limits
// that a request passes all or none of, and leases, by which an authority hands out parts of the limits'
// levels to routers that then decide by themselves. It knows neither Redis nor HTTP; the same arithmetic as
// one Redis call is in ratelimit/redisbucket, and ratelimit/ratelimittest holds both to the same
// results, bit for bit.
package ratelimit

import (
	"errors"
	"fmt"
)

// Kind says what a limit counts.
type Kind string

// The kinds of limit.
const (
	Requests     Kind = "requests"
	InputTokens  Kind = "input-tokens"
	OutputTokens Kind = "output-tokens"
	TotalTokens  Kind = "total-tokens"
)

// Valid says whether the kind is one of those that flow in at a rate, which are those above.
func (k Kind) Valid() bool {
	switch k {
	case Requests, InputTokens, OutputTokens, TotalTokens:
		return true
	}
	return false
}

// Tokens says whether the kind counts tokens, rather than requests or something else.
func (k Kind) Tokens() bool { return k == InputTokens || k == OutputTokens || k == TotalTokens }

// Limit is one bucket's rule: Amount units flow in evenly over each Period, into a bucket that
// holds Burst of them.
type Limit struct {
	// ID names the bucket among those of its organisation.
	ID   string
	Kind Kind
	// Amount is the units per period, > 0.
	Amount int64
	// PeriodMs is the period in milliseconds, > 0; a minute is 60,000.
	PeriodMs int64
	// Burst is the bucket's size in units, > 0.
	Burst int64
}

const (
	// exact is the first whole number with a neighbour that a double can't hold. Redis scripts
	// compute in doubles, so no product may reach it.
	exact = 1 << 53
	// maxID bounds the length of a limit's name in bytes.
	maxID = 512
)

// Validate says what is wrong with the limit, or nil. Besides the signs, the bucket must be small
// enough for the arithmetic to be exact: 2 × Burst × PeriodMs below 2^53, which at a period of one
// minute is 75 thousand million units.
func (l Limit) Validate() error {
	switch {
	case l.ID == "" || len(l.ID) > maxID:
		return fmt.Errorf("limit's id is %d bytes long, want 1 to %d", len(l.ID), maxID)
	case !l.Kind.Valid():
		return fmt.Errorf("limit %s: kind %q is not known", l.ID, l.Kind)
	case l.Amount <= 0 || l.PeriodMs <= 0 || l.Burst <= 0:
		return fmt.Errorf("limit %s: amount %d, period %d ms and burst %d must all be above 0", l.ID, l.Amount, l.PeriodMs, l.Burst)
	case !fits(l, l.PeriodMs):
		return fmt.Errorf("limit %s: %w: burst %d over %d ms", l.ID, ErrTooLarge, l.Burst, l.PeriodMs)
	}
	return nil
}

// ErrTooLarge tells that a limit's numbers can't be multiplied exactly; a shorter period with
// proportionally fewer units says the same rate in smaller numbers.
var ErrTooLarge = errors.New("limit is too large to count exactly")

// fits says whether all products of the arithmetic stay exact when a period has the given number
// of time units. The largest is the filling of a bucket from its deepest debt.
func fits(l Limit, period int64) bool {
	room := (exact - 1 - l.Amount) / period
	return l.Amount < exact && room >= 3 && l.Burst <= (room-1)/2
}

// Unit is the time unit of the limit's arithmetic in microseconds: 1, or 1,000 where microseconds
// would take a product past 2^53 (above some 75 million units of burst at a period of a minute).
func (l Limit) Unit() int64 {
	if l.PeriodMs < exact/1000 && fits(l, l.PeriodMs*1000) {
		return 1
	}
	return 1000
}

// Period is the period in the limit's own time unit, see [Limit.Unit].
func (l Limit) Period() int64 { return l.PeriodMs * 1000 / l.Unit() }

// FillMs is how long the bucket takes to fill from its deepest debt of −Burst, in milliseconds
// rounded up. A bucket idle for longer is full, so that nothing need be remembered of it.
func (l Limit) FillMs() int64 {
	return ceilDiv(2*l.Burst*l.PeriodMs, l.Amount)
}

func ceilDiv(n, by int64) int64 { return (n + by - 1) / by }
