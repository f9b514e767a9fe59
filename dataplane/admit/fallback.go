package admit

import (
	"math"
	"time"

	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// overshoot is the part of a burst, in percent, by which all routers together may exceed a limit while
// the store is away: each may spend its share of it at once, and then at its share of the rate.
const overshoot = 20

// account is what a router may spend of one limit by itself while the store is away.
type account struct {
	outage int64            // in which it was last used; 0: never
	local  ratelimit.Limit  // of a rate: this router's part
	bucket ratelimit.Bucket // of local
	// Of money: what may be spent in this outage, and what was spent by itself in the window.
	left, spent int64
	windowUs    int64
	// charged in this outage, settlements included: the store is told of it when it is back.
	charged int64
	// Of a rate: answered tells that the store is back. It set as much as allowed aside meanwhile, which need not be
	// charged, and was told of the rest, or of what was the rest then.
	answered      bool
	allowed, told int64
}

// tell answers what a rate is to be charged with beyond what it has been, below 0 what is to be given
// back.
func (a *account) tell() int64 {
	// Below 0 is what was reserved and told in a former absence, and not used.
	rest := max(a.charged-a.allowed, min(a.charged, 0))
	n := rest - a.told
	a.told = rest
	return n
}

// owed is what the store has not been told of.
func (a *account) owed() int64 {
	if a.answered {
		return 0
	}
	return max(a.charged, 0)
}

// flows says whether the limit is a rate, of which the store sets shares aside.
func (x *tally) flows() bool { return x.unit != ofSlots && x.unit != ofMoney && x.unit != ofNothing }

// direct is what of the costs the store is told of whatever it has set aside: those of all but rates.
func (l *lane) direct(costs []int64) []int64 {
	out := make([]int64, len(costs))
	for i, x := range l.tallies {
		if !x.flows() {
			out[i] = costs[i]
		}
	}
	return out
}

// take decides by the degraded policy of each limit, and charges all or none, of which part (0..1) is this
// router's.
func (o *organisation) take(l *lane, costs []int64, part float64, now time.Time) ratelimit.Decision {
	limits := l.limits()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leave(now)
	for i := range limits {
		if d := limits[i].Degraded; d == table.DegradedClosed || d != table.DegradedOpen && !(part > 0) {
			return shut(limits[i].Limit, costs[i], i)
		}
	}
	for i := range limits {
		x := l.tallies[i]
		o.begin(x, &limits[i], part, now)
		if limits[i].Degraded == table.DegradedOpen || costs[i] == 0 {
			continue
		}
		if wait := x.lacks(&limits[i], costs[i], part, now); wait > 0 {
			return short(l, i, costs[i], wait)
		}
	}
	for i := range limits {
		l.tallies[i].charge(&limits[i], costs[i], limits[i].Degraded != table.DegradedOpen)
	}
	return l.alone(costs, part)
}

// alone tells how the router's own parts stand after a request was let in. The lock is held.
func (l *lane) alone(costs []int64, part float64) ratelimit.Decision {
	d := ratelimit.Decision{Allowed: true, Tightest: -1, Degraded: true}
	limits := l.limits()
	least := math.Inf(1)
	for i := range limits {
		a := &l.tallies[i].account
		if limits[i].Degraded == table.DegradedOpen || a.local.Burst == 0 {
			continue
		}
		s := ratelimit.Standing{
			Limit: limits[i].Limit, Cost: costs[i],
			Remaining: a.bucket.Level, ResetMs: a.bucket.WaitMs(a.local, a.local.Burst),
		}
		sort := &d.Tokens
		if l.units[i] == ofRequests {
			sort = &d.Requests
		}
		left := float64(a.bucket.Level) / float64(a.local.Burst)
		if sort.Limit.Amount == 0 || float64(sort.Remaining)/float64(share(sort.Limit, part).Burst) > left {
			*sort = s
		}
		if left < least {
			least, d.Tightest, d.Limit, d.Cost, d.Remaining, d.ResetMs = left, i, s.Limit, s.Cost, s.Remaining, s.ResetMs
		}
	}
	return d
}

// begin makes an account ready for an outage: it starts cold, and where a former outage left less, with
// that, so that a flapping store grants nothing anew. The lock is held.
func (o *organisation) begin(x *tally, l *table.Limit, part float64, now time.Time) {
	a := &x.account
	fresh := a.outage != o.outages
	first := a.outage == 0
	a.outage = o.outages
	if fresh {
		if a.answered || !x.flows() {
			a.charged = 0
		}
		a.answered, a.allowed, a.told = false, 0, 0
	}
	switch x.unit {
	case ofSlots, ofNothing:
	case ofMoney:
		w, err := o.ledger.window(x, now, l)
		if err != nil {
			return // the table has only calendars that are known
		}
		if a.windowUs != w.FromUs {
			a.windowUs, a.spent, fresh = w.FromUs, 0, true
		}
		if fresh {
			a.left = scaled(max(o.remains(x, l.Burst, w.FromUs), 0), part)
		}
	default:
		a.local = share(l.Limit, part)
		most := (a.local.Burst*overshoot + 99) / 100
		a.bucket = a.bucket.Refill(a.local, now.UnixMicro())
		if first {
			a.bucket = ratelimit.Bucket{Level: most, StampUs: now.UnixMicro()}
		} else if fresh {
			a.bucket.Level = min(a.bucket.Level, most)
		}
	}
}

// lacks is how long, in milliseconds, until the account has the cost; 0: it has. The lock is held.
func (x *tally) lacks(l *table.Limit, cost int64, part float64, now time.Time) int64 {
	a := &x.account
	switch x.unit {
	case ofNothing:
		return 0
	case ofSlots:
		// Those in use since before the outage count, so that all routers together have no more than
		// the limit and a fifth.
		if x.open.Load()+cost > scaled(l.Burst, part*(100+overshoot)/100) {
			return slotRetryMs
		}
		return 0
	case ofMoney:
		if cost > a.left || a.spent+cost > scaled(l.Burst, part*overshoot/100) {
			return closedRetryMs
		}
		return 0
	}
	// A request that costs more than the router's part, but not more than the limit, passes when the
	// part is full.
	need := cost
	if cost <= l.Burst {
		need = min(cost, a.local.Burst)
	}
	if a.bucket.Level >= need {
		return 0
	}
	return max(a.bucket.WaitMs(a.local, min(need, a.local.Burst)), 1)
}

// charge takes the cost from the account; below 0 it gives back. The lock is held.
func (x *tally) charge(l *table.Limit, cost int64, bounded bool) {
	a := &x.account
	if x.unit == ofSlots || x.unit == ofNothing {
		return
	}
	a.charged += cost
	switch x.unit {
	case ofMoney:
		a.left -= cost
		a.spent += cost
	default:
		if !bounded || a.local.Burst == 0 {
			return
		}
		if cost > 0 {
			a.bucket = a.bucket.Charge(a.local, cost)
		} else {
			a.bucket = a.bucket.Give(a.local, -cost)
		}
	}
}

// adjust settles what was taken from the accounts of this outage, and takes what the store is not to be
// told of out of the changes.
func (o *organisation) adjust(l *lane, changes []int64) {
	limits := l.limits()
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range limits {
		if x := l.tallies[i]; x.account.outage > 0 && x.account.outage == o.outages {
			x.charge(&limits[i], changes[i], limits[i].Degraded != table.DegradedOpen)
			switch {
			case !x.flows():
			case x.account.answered:
				changes[i] = x.account.tell()
			default:
				changes[i] = 0
			}
		}
	}
}

// share is a part of a limit. The period is stretched rather than the amount cut, so that no limit is
// rounded away.
func share(l ratelimit.Limit, part float64) ratelimit.Limit {
	if part >= 1 {
		return l
	}
	p := l
	p.Burst = max(1, int64(float64(l.Burst)*part))
	p.PeriodMs = int64(math.Ceil(float64(l.PeriodMs) / part))
	if part < 1e-6 || p.Validate() != nil {
		// A millionth of a limit is one unit of burst at a millionth of the rate.
		p.Burst, p.PeriodMs = 1, l.PeriodMs*1e6
	}
	return p
}

// shut refuses for want of the store.
func shut(l ratelimit.Limit, cost int64, at int) ratelimit.Decision {
	return ratelimit.Decision{
		Reason: ratelimit.ReasonClosed, Tightest: at, RetryAfterMs: closedRetryMs, Degraded: true, Limit: l, Cost: cost,
	}
}

// short refuses by the router's own part of a limit.
func short(l *lane, at int, cost, waitMs int64) ratelimit.Decision {
	rule := l.limits()[at].Limit
	d := ratelimit.Decision{
		Reason: ratelimit.ReasonOver, Tightest: at, RetryAfterMs: waitMs, ResetMs: waitMs, Degraded: true, Limit: rule, Cost: cost,
	}
	if l.units[at] == ofMoney {
		d.Reason = ratelimit.ReasonClosed // there may be more, and nobody knows
	}
	standing := ratelimit.Standing{Limit: rule, Cost: cost, ResetMs: waitMs}
	switch l.units[at] {
	case ofRequests:
		d.Requests = standing
	case ofInput, ofOutput, ofTotal:
		d.Tokens = standing
	}
	return d
}
