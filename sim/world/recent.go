package world

import (
	"slices"
	"time"
)

// window is how far back a cluster looks when it tells of itself.
const window = 10 * time.Second

// recent is what went on at a cluster in the window, as the routers of its region see it.
type recent struct {
	firsts lane[time.Duration] // from sending to the first token
	ends   lane[ending]
	sum    ending
	count  int
	sorted []time.Duration
}

// ending is how one attempt ended.
type ending struct{ prompt, cached, failed int }

func (c *recent) first(now, took time.Duration) { *c.firsts.put(now) = took }

// ended notes the end of an attempt, but for those that say nothing about the cluster.
func (c *recent) ended(now time.Duration, a *attempt, how Outcome) {
	var e ending
	switch how {
	case Answered:
		e.prompt, e.cached = a.request.PromptTokens, a.cached
	case Refused, Silent, Broken:
		e.failed = 1
	case Left, Full, Unfit:
		return
	}
	*c.ends.put(now) = e
	c.add(e, 1)
}

func (c *recent) add(e ending, sign int) {
	c.count += sign
	c.sum.prompt += sign * e.prompt
	c.sum.cached += sign * e.cached
	c.sum.failed += sign * e.failed
}

// tell fills in the figures of the window up to now.
func (c *recent) tell(now time.Duration, t *Told) {
	for c.firsts.next() <= now-window {
		c.firsts.take()
	}
	for c.ends.next() <= now-window {
		c.add(*c.ends.take(), -1)
	}
	if n := c.firsts.size; n > 0 {
		c.sorted = c.sorted[:0]
		for i := range n {
			c.sorted = append(c.sorted, *c.firsts.peek(i))
		}
		slices.Sort(c.sorted)
		t.FirstToken = c.sorted[(n*95+99)/100-1]
	}
	if c.sum.prompt > 0 {
		t.PrefixHits = float64(c.sum.cached) / float64(c.sum.prompt)
	}
	if c.count > 0 {
		t.Errors = float64(c.sum.failed) / float64(c.count)
	}
}
