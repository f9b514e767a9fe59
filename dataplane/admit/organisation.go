package admit

import (
	"sync"
	"sync/atomic"
	"time"

	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// organisation is what this router knows of one beside its table.
type organisation struct {
	id     string
	now    atomic.Pointer[table.Organisation] // newest
	sample atomic.Pointer[table.Path]         // one of its paths, of the newest table
	ledger *ledger
	gone   atomic.Bool  // it is not in the newest table
	far    atomic.Int64 // nanoseconds of a round trip to its store, smoothed; 0: not known

	mu      sync.Mutex // guards what follows
	tallies map[string]*tally
	// away: its store is not asked, or doesn't answer; since when, and how often that began.
	away      bool
	since     time.Time
	until     time.Time // when the last absence ended
	outages   int64
	degraded  time.Duration // in outages that have ended
	toldUntil time.Duration // of degraded time, by the last report

	// The owner's.
	meeting meeting
	unmet   bool // it is among those whose stores may have to be told of them
}

// tally is one limit of an organisation at this router, over all paths that it is on.
type tally struct {
	id   string
	kind ratelimit.Kind
	unit unit
	// open is requests that hold a slot of it.
	open atomic.Int64
	// Requests that were denied, or would have been, and those let in by paths that are forgotten.
	denied, wouldDeny, gone atomic.Int64
	window                  atomic.Pointer[window] // of money, the last one

	// Guarded by the organisation's lock.
	account account
	// level that the store had left when it answered last, at levelNs (0: never), and of money in the
	// window that began then.
	level, levelNs, windowUs int64
	// burst of the limit by that call.
	burst int64
	// toldAway: that its store is away was said in the last report of it.
	toldAway bool
	// told is what the store was told of, of what was spent; before: at the last report.
	told, before told
}

// told is units and requests, as counted up to some time.
type told struct {
	used, granted, back, taken, denied, wouldDeny int64
}

// tally finds or makes the tally of a limit.
func (o *organisation) tally(limit string, kind ratelimit.Kind) *tally {
	o.mu.Lock()
	defer o.mu.Unlock()
	x := o.tallies[limit]
	if x == nil {
		x = &tally{id: limit, kind: kind, unit: unitOf(kind)}
		o.tallies[limit] = x
	}
	return x
}

// organisation finds or makes an organisation. The admitter's lock is held.
func (a *Admitter) organisation(o *table.Organisation) *organisation {
	x := a.orgs[o.ID]
	if x == nil {
		x = &organisation{id: o.ID, ledger: &a.ledger, tallies: make(map[string]*tally)}
		x.now.Store(o)
		a.orgs[o.ID] = x
	}
	return x
}

// leave begins an outage, unless it has begun. It must be called with the lock held.
func (o *organisation) leave(now time.Time) (first bool) {
	if o.away {
		return false
	}
	o.away, o.since = true, now
	o.outages++
	return true
}

// back ends an outage, and says whether there was one.
func (o *organisation) back(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.away {
		return false
	}
	o.away, o.until = false, now
	o.degraded += max(now.Sub(o.since), 0)
	return true
}

// time for which the organisation was kept by its degraded policies, so far.
func (o *organisation) time(now time.Time) (total time.Duration, away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	total = o.degraded
	if o.away {
		total += max(now.Sub(o.since), 0)
	}
	return total, o.away
}

// meeting is how far an organisation's stores have been told of it, under one epoch.
type meeting struct {
	epoch int64
	seq   int64 // of calls without a want
	// flying: one of them is on its way. triedNs is when the last was sent.
	flying  atomic.Bool
	triedNs int64
	// former is done: the former home's store refuses the older epoch, or can't be asked and all that
	// it leased is over. firstNs is when it was first tried.
	former  atomic.Bool
	firstNs int64
	// young is done: the home's store knows that the organisation is new.
	young atomic.Bool
}

// settle makes ready for the newest epoch.
func (m *meeting) settle(o *table.Organisation) {
	if m.epoch == o.Epoch || m.flying.Load() {
		return
	}
	m.epoch, m.triedNs, m.firstNs = o.Epoch, 0, 0
	m.former.Store(!o.Moved)
	m.young.Store(!o.Young)
}

// step is the call that is to be made before any of a lease, if one is due: to the former home, or to
// the home itself of a young organisation. wait tells that leases must wait for it.
func (m *meeting) step(o *table.Organisation, nowNs int64, patience time.Duration) (due, former, wait bool) {
	m.settle(o)
	if m.epoch != o.Epoch {
		return false, false, true // what is on its way is of an older one
	}
	if !m.former.Load() {
		if m.firstNs == 0 {
			m.firstNs = nowNs
		}
		if time.Duration(nowNs-m.firstNs) >= patience {
			m.former.Store(true) // what it had leased is over by now
		}
	}
	due = !m.flying.Load() && (m.triedNs == 0 || time.Duration(nowNs-m.triedNs) >= ratelimit.HungryEvery)
	switch {
	case !m.former.Load():
		return due, true, true
	case !m.young.Load():
		return due, false, false
	}
	return false, false, false
}
