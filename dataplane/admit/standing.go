package admit

import (
	"time"

	"anabranch/ratelimit"
)

const (
	// jitter is the most that retry-after is stretched by, as a part of it, so that those refused
	// together don't come back together.
	jitter = 0.1
	// slotRetryMs is when to come back for a slot: nobody knows when a request ends.
	slotRetryMs = 1000
	// closedRetryMs is when to come back to a limit that is closed: the store is tried often.
	closedRetryMs = 1000
	// moment is the soonest to come back to a limit of which the store seems to have enough.
	moment = int64(ratelimit.HungryEvery / time.Millisecond)
)

// view is what the store's last answer said of a lane's levels. It is not changed.
type view struct {
	atNs int64
	// levels at the store, beside what routers hold; held by this one, slots in use included.
	levels, held []int64
	// endMs is how long after the answer the windows of money end, 0 of others.
	endMs []int64
	// The tightest limits, those with the smallest part of their burst left: of all, and of those that
	// count requests, tokens and slots. -1: there is none.
	tightest, requests, tokens, slots int
}

// newView reads an answer.
func newView(l *lane, in *ratelimit.In, out ratelimit.Out, nowNs, wallUs int64) *view {
	n := len(out.Path)
	numbers := make([]int64, 3*n)
	v := &view{
		atNs: nowNs, levels: numbers[:n:n], held: numbers[n : 2*n : 2*n], endMs: numbers[2*n:],
		tightest: -1, requests: -1, tokens: -1, slots: -1,
	}
	for i, g := range out.Path {
		v.levels[i], v.held[i] = g.Level, g.Held
		if l.units[i] == ofMoney {
			v.endMs[i] = max(in.Path[i].Window.NextUs-wallUs, 0) / 1000
		}
		v.tighten(&v.tightest, in, i)
		switch l.units[i] {
		case ofRequests:
			v.tighten(&v.requests, in, i)
		case ofInput, ofOutput, ofTotal:
			v.tighten(&v.tokens, in, i)
		case ofSlots:
			v.tighten(&v.slots, in, i)
		}
	}
	return v
}

func (v *view) tighten(at *int, in *ratelimit.In, i int) {
	part := func(i int) float64 { return float64(v.levels[i]+v.held[i]) / float64(in.Path[i].Limit.Burst) }
	if *at < 0 || part(i) < part(*at) {
		*at = i
	}
}

// allowed tells of a request that was let in.
func (l *lane) allowed(costs []int64, nowNs int64) ratelimit.Decision {
	d := ratelimit.Decision{Allowed: true, Tightest: -1}
	if v := l.view.Load(); v != nil {
		l.stand(&d, v, costs, nowNs)
	}
	return d
}

// stand fills in how the limits stand.
func (l *lane) stand(d *ratelimit.Decision, v *view, costs []int64, nowNs int64) {
	if v.requests >= 0 {
		d.Requests = l.standing(v, v.requests, costs, nowNs)
	}
	if v.tokens >= 0 {
		d.Tokens = l.standing(v, v.tokens, costs, nowNs)
	}
	if v.slots >= 0 {
		d.Slots = l.standing(v, v.slots, costs, nowNs)
	}
	switch d.Tightest = v.tightest; v.tightest {
	case -1:
	case v.requests:
		d.Limit, d.Cost, d.Remaining, d.ResetMs = d.Requests.Limit, d.Requests.Cost, d.Requests.Remaining, d.Requests.ResetMs
	case v.tokens:
		d.Limit, d.Cost, d.Remaining, d.ResetMs = d.Tokens.Limit, d.Tokens.Cost, d.Tokens.Remaining, d.Tokens.ResetMs
	default:
		s := l.standing(v, v.tightest, costs, nowNs)
		d.Limit, d.Cost, d.Remaining, d.ResetMs = s.Limit, s.Cost, s.Remaining, s.ResetMs
	}
}

// standing estimates a level: what the store had, and what of it is held here.
func (l *lane) standing(v *view, i int, costs []int64, nowNs int64) ratelimit.Standing {
	rule := &l.limits()[i].Limit
	s := ratelimit.Standing{Limit: *rule, Cost: costs[i]}
	s.Remaining = min(v.levels[i]+l.holding.Left(i, nowNs), rule.Burst)
	switch l.units[i] {
	case ofSlots, ofNothing:
	case ofMoney:
		s.ResetMs = max(v.endMs[i]-(nowNs-v.atNs)/1e6, 0)
	default:
		s.ResetMs = ratelimit.Bucket{Level: max(s.Remaining, -rule.Burst)}.WaitMs(*rule, rule.Burst)
	}
	return s
}

// refused tells of a request that its limits don't let in: by the limit that takes longest to have what
// is missing.
func (l *lane) refused(costs []int64, nowNs int64) ratelimit.Decision {
	d := ratelimit.Decision{Reason: ratelimit.ReasonOver, Tightest: -1}
	v := l.view.Load()
	if v == nil {
		d.Tightest, d.Limit, d.Cost, d.RetryAfterMs = 0, l.limits()[0].Limit, costs[0], moment
		return d
	}
	l.stand(&d, v, costs, nowNs)
	longest, at := int64(0), d.Tightest
	for i, cost := range costs {
		if cost == 0 || l.holding.Left(i, nowNs) >= cost {
			continue
		}
		if wait := l.wait(v, i, cost, nowNs); wait > longest {
			longest, at = wait, i
		}
	}
	s := l.standing(v, at, costs, nowNs)
	d.Tightest, d.Limit, d.Cost, d.Remaining, d.ResetMs = at, s.Limit, s.Cost, s.Remaining, s.ResetMs
	d.RetryAfterMs = max(longest, moment)
	return d
}

// wait is how long it takes until there is enough of a limit, in milliseconds, as far as can be told.
func (l *lane) wait(v *view, i int, cost, nowNs int64) int64 {
	rule := l.limits()[i].Limit
	switch l.units[i] {
	case ofNothing:
		return 0
	case ofSlots, ofMoney:
		if v.levels[i]+l.holding.Left(i, nowNs) >= cost {
			return 0 // it is there, and was not lent because another limit has less
		}
	}
	switch l.units[i] {
	case ofSlots:
		return slotRetryMs
	case ofMoney:
		return max(v.endMs[i]-(nowNs-v.atNs)/1e6, 0)
	}
	have := min(max(v.levels[i]+l.holding.Left(i, nowNs), -rule.Burst), rule.Burst)
	wait := ratelimit.Bucket{Level: have}.WaitMs(rule, min(cost, rule.Burst))
	return max(wait-(nowNs-v.atNs)/1e6, 0)
}

// plenty says whether the store has what costs need of each limit, as far as can be told from its last answer.
func (l *lane) plenty(costs []int64, nowNs int64) bool {
	v := l.view.Load()
	if v == nil {
		return false
	}
	for i, cost := range costs {
		if cost > 0 && l.wait(v, i, cost, nowNs) > 0 {
			return false
		}
	}
	return true
}

// tooLarge is a limit that could never let a request of these costs in, or -1.
func (l *lane) tooLarge(costs []int64) int {
	limits := l.limits()
	for i, c := range costs {
		if c > limits[i].Burst {
			return i
		}
	}
	return -1
}

// never tells of a request that is larger than a limit.
func (l *lane) never(at int, costs []int64, nowNs int64) ratelimit.Decision {
	d := ratelimit.Decision{}
	if v := l.view.Load(); v != nil {
		l.stand(&d, v, costs, nowNs)
	}
	d.Reason, d.Tightest, d.Limit, d.Cost = ratelimit.ReasonTooLarge, at, l.limits()[at].Limit, costs[at]
	d.Remaining, d.ResetMs = d.Limit.Burst, 0
	return d
}
