package rollout

import (
	"time"

	"anabranch/api/fleet"
)

// The grain and the reach of a [Tally].
const (
	TallyGrain = 10 * time.Second
	TallyReach = 10 * time.Minute
)

// Tally counts what routers report, by router and time, as far back as [TallyReach]. The zero Tally is
// empty and ready. It is soft state of one leader: not safe for use by several goroutines.
type Tally struct {
	routers map[fleet.RouterID]*counted
	cut     time.Time
}

// Cut makes what is heard from now on count apart from all before.
func (t *Tally) Cut(now time.Time) { t.cut = now }

// counted is one router's reports.
type counted struct {
	last  int64 // when the last report was written, by the router's clock
	slots []slot
}

// slot is what was reported within one grain from start on.
type slot struct {
	start time.Time
	Count
}

// Hear adds a report that a router wrote at a time of its own; one that was heard before counts once.
func (t *Tally) Hear(router fleet.RouterID, written int64, c Count, now time.Time) {
	if t.routers == nil {
		t.routers = map[fleet.RouterID]*counted{}
	}
	r := t.routers[router]
	if r == nil {
		r = &counted{}
		t.routers[router] = r
	}
	if written == r.last {
		return
	}
	r.last = written
	if n := len(r.slots); n > 0 && now.Sub(r.slots[n-1].start) < TallyGrain && !r.slots[n-1].start.Before(t.cut) {
		r.slots[n-1].Count = r.slots[n-1].Add(c)
		return
	}
	r.slots = append(r.slots, slot{now, c})
	for len(r.slots) > 0 && now.Sub(r.slots[0].start) > TallyReach {
		r.slots = r.slots[1:]
	}
}

// Forget drops routers of which nothing was heard for as long as a tally reaches.
func (t *Tally) Forget(now time.Time) {
	for id, r := range t.routers {
		if n := len(r.slots); n == 0 || now.Sub(r.slots[n-1].start) > TallyReach {
			delete(t.routers, id)
		}
	}
}

// Sum counts the routers that of chooses, in the slots that began at from or after and before until.
func (t *Tally) Sum(of func(fleet.RouterID) bool, from, until time.Time) Count {
	var sum Count
	for id, r := range t.routers {
		if !of(id) {
			continue
		}
		for _, s := range r.slots {
			if !s.start.Before(from) && s.start.Before(until) {
				sum = sum.Add(s.Count)
			}
		}
	}
	return sum
}
