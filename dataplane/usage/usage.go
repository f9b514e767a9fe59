// Package usage counts what the requests of this router's own clients used, by the minute, and keeps it
// until the control plane has it in its account of money. It is told what each attempt did and how each
// request ended, and knows nothing else of requests. Who carries it to the control plane is package
// subscribe.
package usage

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

const (
	// MaxKeys is how many keys are told apart at a time. Those that come on top are counted for [Other].
	MaxKeys = 4096
	// MaxLines bounds what is kept for the control plane, at some 200 bytes a line. When there is more, minutes
	// are put together: see [Counter].
	MaxLines = 50_000
	// MaxIntervals bounds how many minutes, and longer times, are kept: six hours of minutes.
	MaxIntervals = 360
	// maxMessage is about how many bytes are handed over at once.
	maxMessage = 128 << 10
)

// Other stands for tenants that are not told apart. No tenant has such a name.
const Other fleet.TenantID = "(other)"

// Key says whose use it was, and where.
type Key struct {
	// Tenant is empty for what nobody asked for, such as copies that policy wants.
	Tenant fleet.TenantID
	// Model is the base model that was served.
	Model fleet.ModelID
	Class fleet.ClassID
	// Cluster that did the work.
	Cluster fleet.ClusterID
}

func (k Key) compare(l Key) int {
	return cmp.Or(cmp.Compare(k.Cluster, l.Cluster), cmp.Compare(k.Tenant, l.Tenant), cmp.Compare(k.Model, l.Model), cmp.Compare(k.Class, l.Class))
}

// anybodys is the key without what there may be too many of.
func (k Key) anybodys() Key { return Key{Tenant: Other, Model: k.Model, Cluster: k.Cluster} }

// Use is what was used. Nothing in it is below 0.
type Use struct {
	// Input tokens, cached ones included; Cached is the part of them that was in a prefix cache.
	Input, Cached, Output int64
	// Succeeded and Failed requests of clients. What came to nothing by the client's doing is neither.
	Succeeded, Failed int64
	// Bytes of answers that came from another region.
	Bytes int64
	// Estimated is the part of the input and output tokens that no model server told of.
	Estimated int64
}

func (u Use) plus(v Use) Use {
	return Use{
		u.Input + v.Input, u.Cached + v.Cached, u.Output + v.Output, u.Succeeded + v.Succeeded, u.Failed + v.Failed,
		u.Bytes + v.Bytes, u.Estimated + v.Estimated,
	}
}

// Options of a counter.
type Options struct {
	// Now is time.Now when nil.
	Now func() time.Time
	// Registerer takes the metrics. Nil: none are shown.
	Registerer prometheus.Registerer
}

// Counter counts use and keeps it. It never lets go of any: when there is too much of it the minutes of an
// hour are put together, the oldest first, then hours to days, and days with each other; and last of all
// the oldest is kept without its tenants. It is safe for concurrent use.
type Counter struct {
	now     func() time.Time
	metrics *metrics
	tally   *tally

	mu    sync.Mutex // guards what follows
	since int64      // minute to which what has been tallied belongs, in Unix seconds
	kept  backlog
}

// New returns a counter. What is counted is kept by the minute once Run runs.
func New(o Options) (*Counter, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Counter{now: o.Now, tally: newTally(MaxKeys), since: minute(o.Now()), kept: backlog{maxLines: MaxLines, maxIntervals: MaxIntervals}}
	var err error
	if c.metrics, err = newMetrics(o.Registerer, c); err != nil {
		return nil, fmt.Errorf("register metrics of usage: %w", err)
	}
	return c, nil
}

// Count adds to what is used. It takes no lock, and memory only for a key that is new.
func (c *Counter) Count(k Key, u Use) {
	if u == (Use{}) {
		return
	}
	if !c.tally.add(k, u) {
		c.metrics.folded.Inc()
	}
}

// Run closes minutes when they are over, until ctx ends.
func (c *Counter) Run(ctx context.Context) error {
	for {
		now := c.now()
		over := time.NewTimer(now.Truncate(time.Minute).Add(time.Minute).Sub(now))
		select {
		case <-ctx.Done():
			over.Stop()
			return nil
		case <-over.C:
			c.roll(c.now())
		}
	}
}

// roll keeps what has been counted since the last time as of the minute that was running then.
func (c *Counter) roll(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.add(c.since, c.tally.sweep())
	c.since = minute(now)
	c.metrics.coarsened.Add(float64(c.kept.shrink()))
}

// TakeUsage hands over what was used in minutes that are over, the oldest first and not too much at once,
// and forgets it. Last: no more will be asked for, and the minute that is running counts too. Empty: there is
// nothing.
func (c *Counter) TakeUsage(now time.Time, last bool) []*routerpb.UsageMinute {
	if last {
		c.roll(now)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.since
	if last {
		before += 60
	}
	return c.kept.take(before, maxMessage)
}

// waiting is how many lines are kept, and the start of the oldest in Unix seconds; 0: none is.
func (c *Counter) waiting() (lines int, oldest int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept.all) > 0 {
		oldest = c.kept.all[0].start
	}
	return c.kept.lines, oldest
}

func minute(t time.Time) int64 { return t.Truncate(time.Minute).Unix() }
