package redisbucket

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// steady is how far two clocks may drift apart between two looks without one of them having been set.
	steady = 100 * time.Millisecond
	// drift is the part of the time between two looks that comes on top: twice the 500 ppm to which clocks are slewed
	// (adjtimex(2)).
	drift = 1000
)

// clocks are those of the servers, beside this process's own, which is never set.
type clocks struct {
	mu   sync.Mutex // guards last
	last map[string]reading
}

// reading is what a server's clock showed, and between which moments of this process.
type reading struct {
	shown     time.Time
	sent, got time.Time
}

// step takes a reading of a server's clock and says by how much, at the least, it was set since the one before;
// below 0: backward. 0: it was not, or this is the first.
func (c *clocks) step(server string, r reading) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, known := c.last[server]
	if c.last == nil {
		c.last = make(map[string]reading)
	}
	c.last[server] = r
	if !known {
		return 0
	}
	shown, most, least := r.shown.Sub(last.shown), r.got.Sub(last.sent), r.sent.Sub(last.got)
	within := steady + most/drift
	switch {
	case shown > most+within:
		return shown - most
	case shown < least-within:
		return shown - least
	}
	return 0
}

// watch looks at the servers' clocks and tells of those that were set: buckets fill by them. Of a primary that
// took over from another one it tells by how much the two differ, in a cluster nothing.
func (l *Lender) watch(ctx context.Context) {
	if l.stepped == nil {
		return
	}
	one := func(ctx context.Context, server string, c redis.Cmdable) error {
		sent := time.Now()
		shown, err := c.Time(ctx).Result()
		if err != nil {
			return err
		}
		if by := l.clocks.step(server, reading{shown: shown, sent: sent, got: time.Now()}); by != 0 {
			l.stepped(by)
		}
		return nil
	}
	// Who can't be asked is looked at again in a second; calls find out by themselves.
	if c, ok := l.client.(*redis.ClusterClient); ok {
		_ = c.ForEachMaster(ctx, func(ctx context.Context, m *redis.Client) error { return one(ctx, m.Options().Addr, m) })
		return
	}
	_ = one(ctx, everything, l.client)
}
