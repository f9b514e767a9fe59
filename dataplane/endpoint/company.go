package endpoint

import (
	"sync"
	"time"
)

// company is what a request of this router shares the steps of its endpoint with: others that decode, and
// prompts that are computed meanwhile. It sums up both for as long as there is an endpoint, so that what
// was there between two moments is their difference. Those that are not streamed count as decoding from
// their beginning, and their prompts as computed at their end: nothing is heard of them in between.
type company struct {
	mu  sync.Mutex // guards what follows
	at  time.Time
	now int // requests that decode
	sum moment
	// Requests of this router and of others that newcomers found there, themselves among the former.
	own, others mean
}

// moment is what a company has come to.
type moment struct {
	decoding float64 // seconds of requests that decode
	prompts  float64 // tokens computed
}

// since is what came after an earlier one.
func (m moment) since(then moment) moment {
	return moment{m.decoding - then.decoding, m.prompts - then.prompts}
}

// join counts in a request that decodes from now on, its prompt of so many tokens being computed.
func (c *company) join(tokens float64, now time.Time) moment { return c.change(1, tokens, now) }

// leave counts one out again, and a prompt that is known only now to be computed.
func (c *company) leave(tokens float64, now time.Time) moment { return c.change(-1, tokens, now) }

// meets takes in what a newcomer found, itself among this router's own.
func (c *company) meets(own, others float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own.learn(own)
	c.others.learn(others)
}

// hardlyMore is how many requests there may be for each own one so that what others do is no matter.
const hardlyMore = 1.05

// all is how many requests there are for each of this router's own, lately. Those of other routers are
// taken to be like them.
func (c *company) all() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return 1 + c.others.or(0)/c.own.or(1)
}

func (c *company) change(requests int, tokens float64, now time.Time) moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := now.Sub(c.at); d > 0 {
		c.sum.decoding += float64(c.now) * d.Seconds()
		c.at = now
	}
	c.now += requests
	c.sum.prompts += tokens
	return c.sum
}
