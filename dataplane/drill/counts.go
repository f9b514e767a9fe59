package drill

import (
	"sync/atomic"

	"anabranch/api/routerpb"
	"anabranch/failover/drill"
)

// tiers as a report tells them, the highest last.
var tiers = [...]string{"batch", "best-effort", "standard", "top"}

// Fate is what became of a request, as a drill counts it.
type Fate uint8

// The fates. Any is none of the others.
const (
	Any     Fate = iota
	Retried      // answered after more than one attempt
	Shed         // refused for want of room
	Limited      // refused by a quota
	Lost         // failed without content
	Broken       // ended mid-stream by an error
	fates   = iota
)

// Ended is one client's request that has ended.
type Ended struct {
	// Tier that its priority counts as; one that there is none of counts for no tier.
	Tier string
	Fate Fate
	// TTFTMs is the time from its arrival to the first token, in ms; 0: there was none to be told.
	TTFTMs float64
	// Scoped: it is within the drill's scope. Away: it was answered elsewhere than by a drilled cluster.
	// Shifted: it was sent by the drill's weights, or would have been.
	Scoped, Away, Shifted bool
	// Protected: its tenant's 429s are counted apart.
	Protected bool
}

// Counts is what is counted of requests while a table has a drill. It is lock-free; the zero Counts has
// counted nothing.
type Counts struct {
	scoped, away, shifted atomic.Uint64
	protected, denied     atomic.Uint64
	prefix, cached        atomic.Uint64
	tiers                 [len(tiers)]tally
}

type tally struct {
	all  [fates]atomic.Uint64 // by fate
	ttft [drill.Buckets]atomic.Uint64
}

// Ended counts a request.
func (c *Counts) Ended(e *Ended) {
	for i := range tiers {
		if tiers[i] == e.Tier {
			c.tiers[i].all[e.Fate].Add(1)
			if e.TTFTMs > 0 {
				c.tiers[i].ttft[drill.Bucket(e.TTFTMs)].Add(1)
			}
		}
	}
	count := func(n *atomic.Uint64, yes bool) {
		if yes {
			n.Add(1)
		}
	}
	count(&c.scoped, e.Scoped)
	count(&c.away, e.Scoped && e.Away)
	count(&c.shifted, e.Scoped && e.Shifted)
	count(&c.protected, e.Protected)
	count(&c.denied, e.Protected && e.Fate == Limited)
}

// Prompt counts a prompt of which its model server told what was cached.
func (c *Counts) Prompt(tokens, cached int64) {
	c.prefix.Add(uint64(max(tokens, 0)))
	c.cached.Add(uint64(max(min(cached, tokens), 0)))
}

// Drain is what was counted since the last call, as a report tells it.
func (c *Counts) Drain() *routerpb.DrillSignal {
	s := &routerpb.DrillSignal{
		Scoped: c.scoped.Swap(0), Away: c.away.Swap(0), Shifted: c.shifted.Swap(0),
		ProtectedRequests: c.protected.Swap(0), ProtectedDenied: c.denied.Swap(0),
		PrefixTokens: c.prefix.Swap(0), CachedTokens: c.cached.Swap(0),
	}
	for i := range c.tiers {
		if t := c.tiers[i].drain(tiers[i]); t != nil {
			s.Tiers = append(s.Tiers, t)
		}
	}
	return s
}

// drain is nil where nothing was counted.
func (t *tally) drain(tier string) *routerpb.TierSignal {
	var n [fates]uint64
	total := uint64(0)
	for i := range t.all {
		n[i] = t.all[i].Swap(0)
		total += n[i]
	}
	s := &routerpb.TierSignal{Tier: tier, Total: total, Retried: n[Retried], Shed: n[Shed], Limited: n[Limited], Lost: n[Lost], Broken: n[Broken]}
	last := 0
	buckets := make([]uint64, drill.Buckets)
	for i := range t.ttft {
		if buckets[i] = t.ttft[i].Swap(0); buckets[i] > 0 {
			last = i + 1
		}
	}
	s.Ttft = buckets[:last]
	if total == 0 && last == 0 {
		return nil
	}
	return s
}
