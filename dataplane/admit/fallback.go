package admit

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"anabranch/ratelimit"
)

const (
	// cold is the part of its own bucket, in percent, that a router may spend at the start of an
	// outage: the routers together then exceed the limit by at most a fifth of the burst.
	cold = 20
	// closedRetryMs is when to come back to a limit that is closed: the authority is tried often.
	closedRetryMs = 1000
	// idle accounts that owe nothing are forgotten; a bucket has long filled by then.
	idle = 10 * time.Minute
)

// fallback keeps the limits while the authority is away: a local bucket of this router's part of
// each, and an account of what the authority must be charged with once it is back.
type fallback struct {
	mu       sync.Mutex // guards accounts and what is in them
	accounts map[accountKey]*account
}

type accountKey struct{ tenant, limit string }

type account struct {
	limit   ratelimit.Limit  // as the authority knows it
	owed    int64            // to be charged; below 0: to be refunded
	local   ratelimit.Limit  // this router's part
	bucket  ratelimit.Bucket // of local
	era     int64            // outage in which bucket was last used; 0: never
	touched time.Time
}

func newFallback() *fallback { return &fallback{accounts: make(map[accountKey]*account)} }

// take decides without the authority, by the degraded policy of each step.
func (f *fallback) take(tenant string, steps []step, now time.Time, era int64) ratelimit.Decision {
	for i := range steps {
		if steps[i].degraded == "closed" || steps[i].degraded != "open" && !(steps[i].share > 0) {
			return closed(steps[i].charge, i)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	accounts := make([]*account, len(steps))
	var path []ratelimit.Charge
	var buckets []ratelimit.Bucket
	var index []int
	for i := range steps {
		c := f.account(tenant, steps[i].charge.Limit, now)
		accounts[i] = c
		if steps[i].degraded == "open" {
			continue
		}
		c.begin(steps[i].share, now, era)
		path = append(path, ratelimit.Charge{Limit: c.local, Cost: enough(steps[i].charge, c.local)})
		buckets = append(buckets, c.bucket)
		index = append(index, i)
	}
	allowed := ratelimit.TakeAll(path, buckets, now.UnixMicro())
	for j, i := range index {
		if allowed {
			// What a large request costs above the local bucket's size is its debt.
			buckets[j] = buckets[j].Charge(path[j].Limit, steps[i].charge.Cost-path[j].Cost)
		}
		accounts[i].bucket = buckets[j]
	}
	if allowed {
		for i := range steps {
			accounts[i].owed += steps[i].charge.Bounded()
		}
	}
	return global(ratelimit.Decide(path, buckets, allowed), steps, index)
}

// adjust settles a path without the authority.
func (f *fallback) adjust(tenant string, path []ratelimit.Charge, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range path {
		a := f.account(tenant, c.Limit, now)
		a.owed += c.Bounded()
		if a.era == 0 {
			continue
		}
		local := []ratelimit.Charge{{Limit: a.local, Cost: c.Cost}}
		buckets := []ratelimit.Bucket{a.bucket}
		ratelimit.AdjustAll(local, buckets, now.UnixMicro())
		a.bucket = buckets[0]
	}
}

// debt is what one tenant owes the authority.
type debt struct {
	tenant string
	path   []ratelimit.Charge
}

// due lists what is owed, in paths that one call can carry, ordered by tenant and limit.
func (f *fallback) due() []debt {
	f.mu.Lock()
	defer f.mu.Unlock()
	var keys []accountKey
	for k, a := range f.accounts {
		if a.owed != 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b accountKey) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.limit, b.limit))
	})
	var out []debt
	for _, k := range keys {
		if n := len(out); n == 0 || out[n-1].tenant != k.tenant || len(out[n-1].path) == ratelimit.MaxPath {
			out = append(out, debt{tenant: k.tenant})
		}
		a, last := f.accounts[k], &out[len(out)-1]
		last.path = append(last.path, ratelimit.Charge{Limit: a.limit, Cost: a.owed})
	}
	return out
}

// paid takes off the account what the authority has been charged with, or what is forgone.
func (f *fallback) paid(tenant string, path []ratelimit.Charge) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range path {
		if a := f.accounts[accountKey{tenant, c.Limit.ID}]; a != nil {
			a.owed -= c.Cost
		}
	}
}

// owing counts the buckets with anything owed.
func (f *fallback) owing() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, a := range f.accounts {
		if a.owed != 0 {
			n++
		}
	}
	return n
}

// forget drops accounts that nobody used for long and that owe nothing.
func (f *fallback) forget(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, a := range f.accounts {
		if a.owed == 0 && now.Sub(a.touched) > idle {
			delete(f.accounts, k)
		}
	}
}

// account finds or opens the account of a limit; mu is held.
func (f *fallback) account(tenant string, l ratelimit.Limit, now time.Time) *account {
	k := accountKey{tenant, l.ID}
	a := f.accounts[k]
	if a == nil {
		a = &account{}
		f.accounts[k] = a
	}
	a.limit, a.touched = l, now
	return a
}

// begin makes the account's local bucket ready for an outage: it starts cold, and where a former
// outage left less, with that.
func (a *account) begin(share float64, now time.Time, era int64) {
	a.local = part(a.limit, share)
	first := (a.local.Burst*cold + 99) / 100
	switch {
	case a.era == 0:
		a.bucket = ratelimit.Bucket{Level: first, StampUs: now.UnixMicro()}
	case a.era != era:
		a.bucket = a.bucket.Refill(a.local, now.UnixMicro())
		a.bucket.Level = min(a.bucket.Level, first)
	}
	a.era = era
}

// part is a share of a limit. The period is stretched rather than the amount cut, so that no
// limit is rounded away.
func part(l ratelimit.Limit, share float64) ratelimit.Limit {
	if share >= 1 {
		return l
	}
	p := l
	p.Burst = max(1, int64(float64(l.Burst)*share))
	p.PeriodMs = int64(math.Ceil(float64(l.PeriodMs) / share))
	if share < 1e-6 || p.Validate() != nil {
		// A millionth of a limit is one unit of burst at a millionth of the rate.
		p.Burst, p.PeriodMs = 1, l.PeriodMs*1e6
	}
	return p
}

// enough is what the local bucket must hold for a charge to pass: its cost, or a full bucket if
// it costs more than that but no more than the limit itself allows.
func enough(c ratelimit.Charge, local ratelimit.Limit) int64 {
	if c.Cost > c.Limit.Burst {
		return c.Cost
	}
	return min(c.Cost, local.Burst)
}

// closed refuses for want of the authority.
func closed(c ratelimit.Charge, at int) ratelimit.Decision {
	return ratelimit.Decision{
		Reason:       ratelimit.ReasonClosed,
		Tightest:     at,
		RetryAfterMs: closedRetryMs,
		Degraded:     true,
		Limit:        c.Limit,
		Cost:         c.Cost,
	}
}

// global tells a local decision in terms of the tenant's own limits: index maps the local path to
// the steps.
func global(d ratelimit.Decision, steps []step, index []int) ratelimit.Decision {
	d.Degraded = true
	if d.Tightest < 0 {
		return d
	}
	d.Tightest = index[d.Tightest]
	d.Limit, d.Cost = steps[d.Tightest].charge.Limit, steps[d.Tightest].charge.Cost
	for _, s := range []*ratelimit.Standing{&d.Requests, &d.Tokens} {
		for i := range steps {
			if c := steps[i].charge; s.Limit.ID == c.Limit.ID {
				s.Limit, s.Cost = c.Limit, c.Cost
			}
		}
	}
	return d
}
