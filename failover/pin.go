package failover

import (
	"fmt"
	"time"
)

// Pin is an operator's word on the share of its weight that a place takes, for a time. It stands in the place of evidence,
// not of rules: it lets nobody in whom residency or a policy forbid. The zero Pin is none.
type Pin struct {
	// Until is when it ends by itself.
	Until time.Time
	// Share of the weight, 0..1.
	Share float64
}

// Holds says whether it has not ended.
func (p Pin) Holds(now time.Time) bool { return now.Before(p.Until) }

// off says whether an operator wants no new requests there now, by a drain or by a pin at nothing.
func (in Evidence) off(now time.Time) bool {
	return in.Drained || in.Pin.Holds(now) && in.Pin.Share <= 0
}

// pin takes or keeps the place at the share that an operator wants. Evidence is heard on, so that its runs are known
// when the pin ends, and moves nothing.
func (c Cluster) pin(p Pin, now time.Time) Cluster {
	share := min(max(p.Share, 0), 1)
	if c.State != Pinned {
		before := c.State
		c = c.enter(Pinned, "", now)
		c.OrderedAt, c.Before = now, before
	} else if c.Share != share {
		c.OrderedAt = now
	}
	c.Share = share
	c.Reason = fmt.Sprintf("pinned at %g %% by an operator until %s", 100*share, p.Until.UTC().Format(time.RFC3339))
	return c
}

// unpin ends a pin. What was out of use on evidence and got nothing meanwhile has shown nothing, and is so again. What
// got a part comes back from there by the steps and gates of a ramp. All else is in use, and judged.
func (c Cluster) unpin(v verdict, in Evidence, cfg Config, now time.Time) Cluster {
	reason := "its pin has ended"
	if in.Pin == (Pin{}) { // taken back, which an operator did just now
		reason, c.OrderedAt = "an operator has taken its pin back", now
	}
	before, share := c.Before, c.Share
	c.Before = ""
	unseen := share <= 0 && (Cluster{State: before}).Gone() && in.Blocked == "" // else it would empty a second region
	switch {
	case unseen && before == FailingOver:
		return c.evacuate(reason+"; it was being left before", cfg, now)
	case unseen:
		return c.enter(Evacuated, reason+"; it was out of use before", now)
	case share < 1:
		return c.ramp(cfg.stepAt(share), reason, cfg, now)
	case v.suspect:
		return c.suspect(v, cfg, now)
	}
	return c.enter(Healthy, reason, now)
}
