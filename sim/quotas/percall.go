package quotas

import "time"

// patience is how long the schemes that ask every time wait for the store: more than twice the longest round
// trip. The defaults of their clients are 3 s (go-redis's ReadTimeout) and 20 ms (the timeout of
// Envoy's rate limit filter, with which only the nearest region could ask at all).
const patience = int64(500 * time.Millisecond)

// answer decides by the store's answer, or without one as policy says; share is closed to schemes
// without shares.
func (w *world) answer(r *request, answered, passes bool) {
	if !answered {
		passes = w.spec.Fault.policy() == Open
	}
	w.conclude(r, passes)
}

// perCall asks the store for every request: a script with a token bucket for each limit, which takes from all
// of them or from none.
type perCall struct {
	w    *world
	have *buckets
}

func newPerCall(w *world) scheme {
	p := &perCall{w: w}
	p.lose()
	return p
}

func (p *perCall) ask(r *request) {
	passes := false
	p.w.send(r.router, patience, func() {
		p.w.result.Messages++
		passes = p.have.take(r, p.w.storeUs(), false)
	}, func(answered bool) { p.w.answer(r, answered, passes) })
}

func (*perCall) crash(int) {}
func (p *perCall) lose()   { p.have = fullBuckets(p.w.limits, p.w.storeUs()) }

// redisRate asks the store for every request, as github.com/go-redis/redis_rate does: the script
// script_allow_n.lua, GCRA in seconds as doubles by the store's clock, once for each limit, all in one
// pipeline. A limit that passes is charged even if another does not. The key's expiry is left out: what
// it forgets is no longer in force.
type redisRate struct {
	w   *world
	tat []float64 // theoretical arrival time of each limit, in seconds; 0: no key
}

func newRedisRate(w *world) scheme { return &redisRate{w: w, tat: make([]float64, len(w.limits))} }

// allow is the script.
func (p *redisRate) allow(limit int, cost int64) bool {
	l := p.w.limits[limit]
	const jan2017 = 1483228800
	now := float64(p.w.storeUs())/1e6 - jan2017
	interval := float64(l.PeriodMs) / 1000 / float64(l.Amount)
	tat := max(p.tat[limit], now)
	if p.tat[limit] == 0 {
		tat = now
	}
	next := tat + interval*float64(cost)
	if now-(next-interval*float64(l.Burst)) < 0 {
		return false
	}
	p.tat[limit] = next
	return true
}

func (p *redisRate) ask(r *request) {
	passes := false
	p.w.send(r.router, patience, func() {
		p.w.result.Messages++
		passes = true
		for i, l := range path(r.tenant) {
			passes = p.allow(l, r.costs[i]) && passes
		}
	}, func(answered bool) { p.w.answer(r, answered, passes) })
}

func (*redisRate) crash(int) {}
func (p *redisRate) lose()   { clear(p.tat) }

// windows asks the store for every request, as github.com/envoyproxy/ratelimit does
// (src/redis/fixed_cache_impl.go): a counter for each limit and window, by the rate limit service's own
// clock. With several limits a first pipeline reads the counters; if that finds one that would go over,
// a second one counts only there, and otherwise everywhere. A window is as long as the burst takes to flow in.
type windows struct {
	w      *world
	window []int64 // its number, of each limit
	count  []int64
}

func newWindows(w *world) scheme {
	return &windows{w: w, window: make([]int64, len(w.limits)), count: make([]int64, len(w.limits))}
}

// counter is the limit's in the present window.
func (x *windows) counter(limit int) *int64 {
	if n := x.w.now / x.w.spec.Burst.Nanoseconds(); x.window[limit] != n {
		x.window[limit], x.count[limit] = n, 0
	}
	return &x.count[limit]
}

func (x *windows) ask(r *request) {
	way := path(r.tenant)
	full := -1
	read := func() {
		x.w.result.Messages++
		for i, l := range way {
			if *x.counter(l)+r.costs[i] > x.w.limits[l].Burst {
				full = i
				return
			}
		}
	}
	passes := false
	count := func() {
		x.w.result.Messages++
		passes = full < 0
		for i, l := range way {
			if full < 0 || full == i {
				*x.counter(l) += r.costs[i]
			}
			passes = passes && *x.counter(l) <= x.w.limits[l].Burst
		}
	}
	x.w.send(r.router, patience, read, func(answered bool) {
		if !answered {
			x.w.answer(r, false, false)
			return
		}
		x.w.send(r.router, patience, count, func(answered bool) { x.w.answer(r, answered, passes) })
	})
}

func (*windows) crash(int) {}
func (x *windows) lose()   { clear(x.count) }
