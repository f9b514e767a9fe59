package admit

import (
	"sync"

	"anabranch/ratelimit"
)

// Reservation is what a request was charged with when it was let in. There is one for a request,
// whatever becomes of its attempts. It is safe for concurrent use.
type Reservation struct {
	admitter *Admitter
	hold     *hold // nil: the request has no limits
	degraded bool  // some of it was let in by degraded policies
	shadow   bool  // it is charged to the limits in shadow
	late     bool  // it holds no slots: what it used is only told, see Charge

	mu      sync.Mutex // guards what follows
	use     use        // reserved
	settled bool
}

// Reserved are the tokens that are reserved.
func (r *Reservation) Reserved() (input, output int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.use.input, r.use.output
}

// Grow reserves for so many output tokens in all, from what this router holds and without waiting. It
// answers false where that isn't there, and nothing has changed.
func (r *Reservation) Grow(output int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := r.use
	to.output = output
	if to = to.bounded(); to.output <= r.use.output || r.settled {
		return true
	}
	if r.hold != nil && r.hold.main != nil {
		var room [ratelimit.MaxPath]int64
		changes := room[:len(r.hold.main.units)]
		r.changes(changes, r.hold.main, &to)
		if !r.spend(changes) {
			return false
		}
	}
	if r.shadow {
		r.charge(r.hold.shadow, &to)
	}
	r.use = to
	return true
}

// changes is what the other use costs more than the one that is reserved. Slots don't change.
func (r *Reservation) changes(to []int64, l *lane, other *use) {
	for i, of := range l.units {
		to[i] = other.cost(of) - r.use.cost(of)
	}
}

// spend takes more from what is held or, while the store is away, from the router's own part.
func (r *Reservation) spend(changes []int64) bool {
	a, l := r.admitter, r.hold.main
	if l.holding.Spend(changes, a.mono()) == ratelimit.Spent {
		return true
	}
	if a.why(l) == nil {
		a.rouse(l, true)
		return false
	}
	t := a.table.Load()
	if t == nil || !a.alone(t, l, changes).Allowed {
		return false
	}
	r.degraded = true
	return true
}

// Cut says whether a stream that can't grow to so many output tokens in all is to be ended: for the limit
// that lacks what it would take, and that says so.
func (r *Reservation) Cut(output int64) (l ratelimit.Limit, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hold == nil || r.hold.main == nil {
		return l, false
	}
	to := r.use
	to.output = output
	to = to.bounded()
	lane := r.hold.main
	var room [ratelimit.MaxPath]int64
	changes := room[:len(lane.units)]
	r.changes(changes, lane, &to)
	limits, now, v := lane.limits(), r.admitter.mono(), lane.view.Load()
	for i, more := range changes {
		if !limits[i].Cut || more <= 0 {
			continue
		}
		have := lane.holding.Left(i, now)
		if v != nil { // of what its siblings lack the store lends none
			have += v.levels[i]
		}
		if have < more {
			return limits[i].Limit, true
		}
	}
	return l, false
}

// Settle charges what the request really used instead of what was reserved, and frees its slots. Only the
// first call counts. Requests is 1, or 0 for one that was not sent anywhere.
func (r *Reservation) Settle(requests, input, output int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled {
		return
	}
	r.settled = true
	if r.hold == nil {
		return
	}
	to := r.use
	to.requests, to.input, to.output = requests, input, output
	to = to.bounded()
	if r.hold.main != nil {
		r.charge(r.hold.main, &to)
	}
	if r.shadow {
		r.charge(r.hold.shadow, &to)
	}
	r.hold.settled.Add(1)
}

// charge settles with the limits of a lane.
func (r *Reservation) charge(l *lane, to *use) {
	var room [ratelimit.MaxPath]int64
	changes := room[:len(l.units)]
	r.changes(changes, l, to)
	if r.settled {
		for i, of := range l.units {
			switch of {
			case ofSlots:
				changes[i] = -1
				if r.late {
					changes[i] = 0
				}
			case ofMoney:
				r.admitter.ledger.count(l.hold.org.id, l.tallies[i], to.money(), r.admitter.clock(), &l.limits()[i])
			}
		}
		if l.slotted && !l.shadow && !r.late {
			l.keep(-1)
		}
	}
	if r.degraded && !l.shadow {
		l.hold.org.adjust(l, changes)
	}
	l.holding.Charge(changes)
	r.admitter.rouse(l, false)
}
