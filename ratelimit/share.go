package ratelimit

import (
	"fmt"
	"math/bits"
	"time"
)

const (
	// ShareParts is what shares are counted in: a million parts are the whole limit.
	ShareParts = 1_000_000
	// MaxShares is the most regions among which an organisation's limits are shared.
	MaxShares = 32
)

// Share is a region's part of all limits of an organisation, for when it is cut off from the authority.
type Share struct {
	Region string
	// Parts of ShareParts, from 0. Those of all regions together are no more than that.
	Parts int64
}

// Gap is the last time for which an authority set aside a region's share, since it heard nothing of it.
// Both are ages at the time of the answer, so that they need no common clock. The zero Gap is none.
type Gap struct {
	// From is how long ago it began, [Always] where the authority remembers nothing before; To is how
	// long ago it ended.
	From, To time.Duration
}

// Always is the age of what began before everything that an authority remembers.
const Always = (exact - 1) * time.Microsecond

// Within is how much of the gap lies in the time that began from ago and ended to ago.
func (g Gap) Within(from, to time.Duration) time.Duration {
	return max(min(g.From, from)-max(g.To, to), 0)
}

// Allowance is how much of a limit a router with the given parts of it may have spent by itself over
// a time for which they were set aside, see [Gap]: only what it spent beyond that is to be charged.
// The allowances of several routers are together never more than what was set aside, as long as
// their parts are no more than their region's. Nothing is set aside of Money, and of Slots nothing
// that could be charged.
func Allowance(l Limit, parts int64, over time.Duration) int64 {
	us := over.Microseconds()
	if parts <= 0 || us <= 0 || l.Amount <= 0 || l.PeriodMs <= 0 || l.Kind == Slots || l.Kind == Money {
		return 0
	}
	// amount × parts × µs ÷ (a million × period in µs), where only the last product may need 128 bits.
	parts = min(parts, ShareParts)
	whole, rest := us/ShareParts*parts, us%ShareParts*parts
	us = min(whole+rest/ShareParts, exact-1)
	hi, lo := bits.Mul64(uint64(us), uint64(min(l.Amount, exact)))
	period := uint64(min(l.PeriodMs, exact/1000)) * 1000
	if hi >= period {
		return exact - 1
	}
	n, _ := bits.Div64(hi, lo, period)
	return int64(min(n, exact-1))
}

// validateShares says what is wrong with the shares of an organisation, or nil.
func validateShares(shares []Share) error {
	if len(shares) > MaxShares {
		return fmt.Errorf("%d regions have shares, at most %d can", len(shares), MaxShares)
	}
	sum := int64(0)
	for i, s := range shares {
		if s.Region == "" || len(s.Region) > maxID {
			return fmt.Errorf("name of a region with a share is %d bytes long, want 1 to %d", len(s.Region), maxID)
		}
		if s.Parts < 0 || s.Parts > ShareParts {
			return fmt.Errorf("share of %s is %d parts, want 0 to %d", s.Region, s.Parts, ShareParts)
		}
		for j := range i {
			if shares[j].Region == s.Region {
				return fmt.Errorf("region %s has two shares", s.Region)
			}
		}
		sum += s.Parts
	}
	if sum > ShareParts {
		return fmt.Errorf("shares are %d parts together, want at most %d", sum, ShareParts)
	}
	return nil
}

// Shares splits a limit among routers or regions for when they are cut off, in parts of
// ShareParts: each has the floor, or its even part of all if that is less, and what is left is split by
// the usage. Together they are never more than the whole. Usage below 0 counts as 0.
func Shares(usage []int64, floor int64) []int64 {
	if len(usage) == 0 {
		return nil
	}
	n := int64(len(usage))
	floor = min(max(floor, 0), ShareParts/n)
	var sum float64
	for _, u := range usage {
		sum += float64(max(u, 0))
	}
	left := float64(ShareParts - n*floor)
	shares := make([]int64, n)
	var given int64
	for i, u := range usage {
		part := 1 / float64(n)
		if sum > 0 {
			part = float64(max(u, 0)) / sum
		}
		shares[i] = floor + min(int64(left*part), ShareParts-n*floor-given)
		given += shares[i] - floor
	}
	return shares
}
