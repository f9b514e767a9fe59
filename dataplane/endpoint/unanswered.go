package endpoint

import (
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
)

// unanswered is what a cluster of this region knows of requests without an answer. Nothing is changed,
// and nothing allocated, while all are answered.
type unanswered struct {
	row  atomic.Pointer[row] // nil: none has gone without an answer
	last atomic.Int64        // Unix ns of the last answer
	ramp ramp                // for whom it was left alone
}

// change replaces the row by what f makes of it.
func (u *unanswered) change(f func(row) row) (was, is row) {
	for {
		p := u.row.Load()
		if p != nil {
			was = *p
		}
		if is = f(was); is == was || u.row.CompareAndSwap(p, &is) {
			return was, is
		}
	}
}

// answers takes in the first content of an answer.
func (u *unanswered) answers(now time.Time) {
	u.last.Store(now.UnixNano())
	u.ramp.answered()
	if p := u.row.Load(); p == nil || p.count == 0 {
		return
	}
	if was, _ := u.change(func(r row) row { return r.answered(now) }); !was.since.IsZero() {
		u.ramp.start(now)
	}
}

// Answering is whether a tenant's requests are answered at a cluster of this region.
type Answering struct {
	// Unanswered: so many in a row were not that the cluster is to be used only where no other is left.
	Unanswered bool
	// Trial: one of them may try now. See [Cluster.Try].
	Trial bool
	// Share of its usual traffic that the cluster should get, above 0 and at most 1: less than 1 while
	// it answers again.
	Share float64
}

// Answering tells what a tenant's requests may expect. The empty tenant stands for all: what one alone
// has met is then left out. Clusters of other regions have a breaker instead.
func (c *Cluster) Answering(t fleet.TenantID, now time.Time) Answering {
	r := c.unanswered.row.Load()
	switch {
	case r == nil || !r.concerns(t):
		return Answering{Share: 1}
	case !r.since.IsZero():
		return Answering{Unanswered: true, Trial: r.mayTry(t, now), Share: 1}
	}
	return Answering{Share: c.unanswered.ramp.share(now)}
}

// Try lets one request of a tenant in where they go unanswered. False: it is not time for it, or another
// is under way. The request must go there at once.
func (c *Cluster) Try(t fleet.TenantID, now time.Time) bool {
	cfg, may := &c.class.Load().Ejection, false
	c.unanswered.change(func(r row) row {
		if may = r.mayTry(t, now); may {
			return r.try(t, cfg, now)
		}
		return r
	})
	return may
}

// Row is how requests go unanswered at a cluster, for people.
type Row struct {
	// Requests without an answer in a row.
	Requests int
	// All: every tenant leaves the cluster alone; otherwise one, whose requests alone these were.
	All bool
	// Trial is how long it takes until one more may try; 0: it may now.
	Trial time.Duration
}

// Unanswered tells how requests go unanswered. False: the cluster is left alone by nobody.
func (c *Cluster) Unanswered(now time.Time) (Row, bool) {
	r := c.unanswered.row.Load()
	if r == nil || r.since.IsZero() {
		return Row{}, false
	}
	return Row{Requests: r.count, All: r.several, Trial: max(r.due.Sub(now), 0)}, true
}

// Overdue says that the request, which is still under way, has shown nothing for so long that it counts
// as one without an answer, if nobody has got one since it began. See [Endpoint.Overdue].
func (c *Call) Overdue(now time.Time) {
	if c.endpoint == nil || c.first.Load() || c.done.Load() || c.began.UnixNano() < c.cluster.unanswered.last.Load() {
		return
	}
	if dead, _ := c.endpoint.Ejected(); !dead {
		c.unanswered(now)
	}
}

// unanswered counts the request, once, as one without an answer.
func (c *Call) unanswered(now time.Time) {
	if !c.silent.CompareAndSwap(false, true) {
		return
	}
	cfg, rnd := &c.cluster.class.Load().Ejection, c.cluster.random()
	c.cluster.unanswered.change(func(r row) row { return r.failed(c.load.Tenant, c.began, cfg, now, rnd) })
}

// undecided takes in an end that says nothing of the cluster.
func (c *Call) undecided(now time.Time) {
	if p := c.cluster.unanswered.row.Load(); p != nil && !p.tried.IsZero() {
		rnd := c.cluster.random()
		c.cluster.unanswered.change(func(r row) row { return r.undecided(c.load.Tenant, c.began, now, rnd) })
	}
}

// restored: one of the cluster's endpoints was dead, and is in use again.
func (u *unanswered) restored(now time.Time) {
	if u.row.Load() != nil {
		u.change(func(r row) row { return r.hurried(now) })
	}
}
