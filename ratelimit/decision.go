package ratelimit

import "math/bits"

// Reason says why a decision fell as it did, in a word that does not change.
type Reason string

// The reasons of decisions.
const (
	// ReasonNone: allowed.
	ReasonNone Reason = ""
	// ReasonOver: a bucket lacks the units now; it will have them after RetryAfterMs.
	ReasonOver Reason = "over_limit"
	// ReasonTooLarge: the cost is above the bucket's size, so that no wait will ever do.
	ReasonTooLarge Reason = "exceeds_burst"
	// ReasonClosed: the authority is away and the tenant's policy is to admit nothing then.
	ReasonClosed Reason = "quota_store_away"
)

// Standing is how one limit of a path stood after the decision.
type Standing struct {
	// Limit is the zero Limit when no limit of the sort is on the path.
	Limit Limit
	// Cost is what the request asked of it.
	Cost int64
	// Remaining units, below 0 in debt. An estimate: others draw on the same bucket.
	Remaining int64
	// ResetMs until the bucket is full, rounded up, if nobody draws on it.
	ResetMs int64
}

// Decision is the answer to a request for the units of a path.
type Decision struct {
	Allowed bool
	// Reason why not; ReasonNone when allowed.
	Reason Reason
	// Tightest is the index in the path of the limit that refused (of several, the one that takes
	// longest), or when allowed of the one with the smallest part of its burst left. -1: the path
	// is empty.
	Tightest int
	// Remaining and ResetMs of the tightest limit, as in Standing.
	Remaining int64
	ResetMs   int64
	// RetryAfterMs until a repetition may pass, rounded up; 0 when allowed, or when none ever will
	// (ReasonTooLarge).
	RetryAfterMs int64
	// Degraded tells that the authority was not asked.
	Degraded bool
	// Limit and Cost of the tightest limit.
	Limit Limit
	Cost  int64
	// Requests and Tokens are the tightest limit of each sort on the path.
	Requests Standing
	Tokens   Standing
}

// Decide tells of buckets that TakeAll has gone over what a caller wants to know. It computes
// nothing that the buckets don't hold, so that every authority answers alike.
func Decide(path []Charge, buckets []Bucket, allowed bool) Decision {
	d := Decision{Allowed: allowed, Tightest: -1}
	requests, tokens := -1, -1
	for i := range path {
		if d.Tightest < 0 || tighter(path, buckets, allowed, i, d.Tightest) {
			d.Tightest = i
		}
		sort := &requests
		if path[i].Limit.Kind.Tokens() {
			sort = &tokens
		}
		if *sort < 0 || tighter(path, buckets, allowed, i, *sort) {
			*sort = i
		}
	}
	d.Requests = standing(path, buckets, requests)
	d.Tokens = standing(path, buckets, tokens)
	if d.Tightest < 0 {
		return d
	}
	s := standing(path, buckets, d.Tightest)
	d.Limit, d.Cost, d.Remaining, d.ResetMs = s.Limit, s.Cost, s.Remaining, s.ResetMs
	switch {
	case allowed:
	case s.Cost > s.Limit.Burst:
		d.Reason = ReasonTooLarge
	default:
		d.Reason = ReasonOver
		d.RetryAfterMs = buckets[d.Tightest].WaitMs(s.Limit, s.Cost)
	}
	return d
}

func standing(path []Charge, buckets []Bucket, i int) Standing {
	if i < 0 {
		return Standing{}
	}
	l := path[i].Limit
	return Standing{
		Limit:     l,
		Cost:      path[i].Cost,
		Remaining: buckets[i].Level,
		ResetMs:   buckets[i].WaitMs(l, l.Burst),
	}
}

// tighter says whether step a is tighter than step b. Of a refused path those that refused come
// first, by the longer wait; else it is the smaller part of the burst that counts.
func tighter(path []Charge, buckets []Bucket, allowed bool, a, b int) bool {
	if !allowed {
		wa, wb := refusal(path[a], buckets[a]), refusal(path[b], buckets[b])
		if wa != wb {
			return wa > wb
		}
	}
	return smallerPart(buckets[a].Level, path[a].Limit.Burst, buckets[b].Level, path[b].Limit.Burst)
}

// refusal orders refusals: 0 is none, never is the longest.
func refusal(c Charge, b Bucket) int64 {
	switch {
	case b.Level >= c.Cost:
		return 0
	case c.Cost > c.Limit.Burst:
		return exact
	}
	return max(1, b.WaitMs(c.Limit, c.Cost))
}

// smallerPart compares la/ba < lb/bb without dividing; bursts are above 0.
func smallerPart(la, ba, lb, bb int64) bool {
	if (la < 0) != (lb < 0) {
		return la < 0
	}
	ah, al := bits.Mul64(magnitude(la), uint64(bb))
	bh, bl := bits.Mul64(magnitude(lb), uint64(ba))
	less, more := ah < bh || ah == bh && al < bl, ah > bh || ah == bh && al > bl
	if la < 0 {
		return more
	}
	return less
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return uint64(-n)
	}
	return uint64(n)
}
