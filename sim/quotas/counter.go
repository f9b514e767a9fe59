package quotas

import (
	"time"

	"anabranch/ratelimit"
)

// syncEvery is how often counters are brought together. Kong's sync_rate may be as low as 20 ms and is
// recommended to be 1 s or more (developer.konghq.com/plugins/rate-limiting-advanced); APISIX has a
// sync_interval of 100 ms and up.
const syncEvery = 100 * time.Millisecond

// counter lets routers count by themselves: each admits while the level it was last told, less what it
// has admitted since, is above 0, and tells the store each 100 ms. The store's level may fall below 0, to a debt of
// a burst. A router that is new takes the buckets for full.
type counter struct {
	w       *world
	buckets []ratelimit.Bucket
	views   []*view
}

// view is what a router knows.
type view struct {
	level []int64 // as last told
	since []int64 // spent and not told
	sent  []int64 // told, and not yet in level
	busy  bool
}

func newCounter(w *world) scheme {
	c := &counter{w: w, views: make([]*view, len(w.routers))}
	c.lose()
	for i := range w.routers {
		c.crash(i)
		w.after(w.random.Int64N(syncEvery.Nanoseconds()), func() { c.sync(i) })
	}
	return c
}

func (c *counter) crash(router int) {
	v := &view{level: make([]int64, len(c.w.limits)), since: make([]int64, len(c.w.limits)), sent: make([]int64, len(c.w.limits))}
	for i, l := range c.w.limits {
		v.level[i] = l.Burst
	}
	c.views[router] = v
}

func (c *counter) lose() {
	c.buckets = nil
	for _, l := range c.w.limits {
		c.buckets = append(c.buckets, ratelimit.Full(l, c.w.storeUs()))
	}
}

func (c *counter) ask(r *request) {
	v := c.views[r.router]
	way := path(r.tenant)
	for _, l := range way {
		if v.level[l]-v.since[l]-v.sent[l] <= 0 {
			c.w.deny(r)
			return
		}
	}
	for i, l := range way {
		v.since[l] += r.costs[i]
	}
	c.w.admit(r)
}

// sync tells the store what was spent and takes over its levels.
func (c *counter) sync(router int) {
	c.w.after(syncEvery.Nanoseconds(), func() { c.sync(router) })
	v := c.views[router]
	if v.busy {
		return
	}
	v.busy = true
	v.sent, v.since = v.since, v.sent
	told := append([]int64(nil), v.sent...)
	levels := make([]int64, len(c.buckets))
	c.w.send(router, patience, func() {
		c.w.result.Messages++
		for i, l := range c.w.limits {
			c.buckets[i] = c.buckets[i].Refill(l, c.w.storeUs()).Charge(l, told[i])
			levels[i] = c.buckets[i].Level
		}
	}, func(answered bool) {
		v.busy = false
		for i := range v.sent {
			if answered {
				v.level[i] = levels[i]
			} else {
				v.since[i] += v.sent[i]
			}
			v.sent[i] = 0
		}
	})
}
