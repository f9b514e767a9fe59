package quotas

import (
	"time"

	"anabranch/ratelimit"
)

// outage is what a router spends by itself while it can't reach the store: its part of every limit.
type outage struct {
	begun        bool
	since, until int64 // of the last one, ns; until counts once it is over
	parts        int64 // of ratelimit.ShareParts
	have         *buckets
	charged      []int64 // of each limit, and not settled with the store
}

func newOutage(w *world, router int) outage {
	region := w.routers[router].region
	o := outage{parts: w.parts[region].Parts / int64(w.spec.Regions[region].Routers), charged: make([]int64, len(w.limits))}
	var own []ratelimit.Limit
	for _, l := range w.limits {
		// The period is stretched rather than the amount cut, so that nothing is rounded away.
		l.PeriodMs = l.PeriodMs * ratelimit.ShareParts / o.parts
		l.Burst = max(l.Burst*o.parts/ratelimit.ShareParts, 1)
		own = append(own, l)
	}
	o.have = fullBuckets(own, w.now/1000)
	for i := range own {
		o.have.state[i].Level = most(own[i])
	}
	return o
}

// most is what an outage begins with.
func most(own ratelimit.Limit) int64 { return (own.Burst*overshoot + 99) / 100 }

// begin an outage, unless it has begun. What a former one left is not granted anew.
func (o *outage) begin(now int64) {
	if o.begun {
		return
	}
	o.begun, o.since = true, now
	for i, l := range o.have.limits {
		b := o.have.state[i].Refill(l, now/1000)
		b.Level = min(b.Level, most(l))
		o.have.state[i] = b
	}
}

// charge counts what was spent without the store.
func (o *outage) charge(r *request) {
	for i, l := range path(r.tenant) {
		o.charged[l] += r.costs[i]
	}
}

// settle takes an answer of the store for a tenant's limits, and says what of them is to be charged: what was
// spent without the store, but for what that had set aside for the router. Nil: nothing.
func (o *outage) settle(tenant int, limits []ratelimit.Limit, now int64, gap ratelimit.Gap) []int64 {
	if o.begun {
		o.begun, o.until = false, now
	}
	over := gap.Within(time.Duration(now-o.since), time.Duration(now-o.until))
	var charges []int64
	for i, l := range path(tenant) {
		n := o.charged[l] - ratelimit.Allowance(limits[i], o.parts, over)
		o.charged[l] = 0
		if n > 0 {
			if charges == nil {
				charges = make([]int64, levels)
			}
			charges[i] = n
		}
	}
	return charges
}
