package endpoint

import (
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

const (
	// relapses is how many requests without an answer are enough for a cluster that was left alone for
	// that lately.
	relapses = 3
	// dissent is how many requests of others than one tenant it takes until what happens is not that
	// tenant's alone.
	dissent = 3
)

// row is the judgement of a cluster by what becomes of its requests, whatever its endpoints say to
// canaries: how many in a row got no answer, and whether the cluster is therefore left alone, for
// whom, and until when. It is a value; the zero row is a cluster that answers.
//
// What one tenant alone meets counts for that tenant alone, since it may be its requests. Whose they are
// is found by a majority vote: each request of the one in question is a vote for it, each of another one
// against. (Boyer and Moore, "MJRTY: a fast majority vote algorithm", 1981.)
type row struct {
	count int            // requests in a row without an answer
	whose fleet.TenantID // of most of them
	votes int
	// several: more than one tenant's.
	several bool
	// since is when the cluster was left alone; zero: it is not.
	since    time.Time
	due      time.Time     // of the next trial
	interval time.Duration // from the end of a trial to the next, before jitter
	tried    time.Time     // when the trial under way was let in; zero: there is none
	trier    fleet.TenantID
	// ended is when it was last left alone no more; zero: never, or long ago.
	ended time.Time
}

// avoided says whether a tenant's requests leave the cluster alone. The empty tenant stands for all.
func (r row) avoided(t fleet.TenantID) bool { return !r.since.IsZero() && r.concerns(t) }

func (r row) concerns(t fleet.TenantID) bool { return r.several || t != "" && t == r.whose }

// failed takes in a request that began at a time and got no answer.
// rnd in [0,1) spreads trials by ± 50 %.
func (r row) failed(t fleet.TenantID, began time.Time, cfg *table.Ejection, now time.Time, rnd float64) row {
	again := !r.ended.IsZero() && now.Sub(r.ended) < cfg.ReprobeMax
	if r.since.IsZero() && !again {
		r.ended, r.interval, r.several = time.Time{}, 0, (r.count-r.votes)/2 >= dissent
	}
	r.count++
	switch {
	case r.votes == 0:
		r.whose, r.votes = t, 1
	case r.whose == t:
		r.votes++
	default:
		r.votes--
	}
	r.several = r.several || (r.count-r.votes)/2 >= dissent
	switch {
	case !r.since.IsZero():
		if r.tries(t, began) {
			r.interval = min(2*r.interval, cfg.ReprobeMax)
			r.tried, r.due = time.Time{}, r.after(now, rnd)
		}
	case again && r.count >= min(relapses, cfg.MinRequests):
		r.since, r.interval = now, min(max(r.interval, cfg.Reprobe), cfg.ReprobeMax)
		r.due = r.after(now, rnd)
	case !again && r.count >= cfg.MinRequests:
		r.since, r.interval = now, cfg.Reprobe
		r.due = r.after(now, rnd)
	}
	return r
}

func (r row) after(now time.Time, rnd float64) time.Time {
	return now.Add(time.Duration((0.5 + rnd) * float64(r.interval)))
}

// tries says whether a request is the trial under way.
func (r row) tries(t fleet.TenantID, began time.Time) bool {
	return !r.tried.IsZero() && t == r.trier && !began.Before(r.tried)
}

// mayTry says whether a request of the tenant may be the next trial.
func (r row) mayTry(t fleet.TenantID, now time.Time) bool { return r.avoided(t) && !now.Before(r.due) }

// try lets a request in as a trial. While it is under way no other is, unless nothing is heard of it for
// the longest pause between trials.
func (r row) try(t fleet.TenantID, cfg *table.Ejection, now time.Time) row {
	r.tried, r.trier, r.due = now, t, now.Add(cfg.ReprobeMax)
	return r
}

// undecided takes in a request whose end says nothing of the cluster: if it was the trial, another
// follows after the same pause.
func (r row) undecided(t fleet.TenantID, began, now time.Time, rnd float64) row {
	if r.tries(t, began) {
		r.tried, r.due = time.Time{}, r.after(now, rnd)
	}
	return r
}

// hurried lets the next trial go at once: the cluster shows signs of life.
func (r row) hurried(now time.Time) row {
	if !r.since.IsZero() && r.tried.IsZero() && r.due.After(now) {
		r.due = now
	}
	return r
}

// answered takes in an answer. For whom the cluster was left alone, and at what pace it was tried, is
// remembered for a relapse.
func (r row) answered(now time.Time) row {
	switch {
	case !r.since.IsZero():
		return row{whose: r.whose, several: r.several, interval: r.interval, ended: now}
	case !r.ended.IsZero():
		return row{whose: r.whose, several: r.several, interval: r.interval, ended: r.ended}
	}
	return row{}
}

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
