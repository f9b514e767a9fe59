package admit

import (
	"strconv"
	"sync"
	"sync/atomic"

	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// hold is what this router holds of a path, over all tables in which the path is the same.
type hold struct {
	org    *organisation
	path   atomic.Pointer[table.Path] // newest
	main   *lane                      // of Limits; nil: there are none
	shadow *lane                      // of Shadow; nil: there are none

	// Requests that were let in, and those of them that have settled.
	taken, settled atomic.Int64

	// The sweep's: taken when last looked at, and how often it was the same.
	sweptTaken int64
	quiet      int
}

// lane is a hold's Holding of limits that are called for together, and what goes on about it.
type lane struct {
	hold    *hold
	shadow  bool
	router  string // as the store knows this hold's calls
	holding *ratelimit.Holding
	units   []unit
	tallies []*tally
	slotted bool // some of the limits are slots

	// view is what the last answer said. Nil: there was none.
	view atomic.Pointer[view]
	// listed: the owner has it in its list, or is about to.
	listed atomic.Bool
	// flying: a call is on its way, and who sent it is the owner.
	flying atomic.Bool
	// stale is what the store refused as older than its own. Nil: nothing.
	stale atomic.Pointer[stale]

	mu      sync.Mutex    // guards what follows
	answers int64         // so far, errors among them
	next    chan struct{} // closed by the next; nil: nobody waits

	// The owner's: the epoch of the last call, and when that was made.
	epoch, calledNs int64
}

// stale is a policy that a store refused.
type stale struct{ epoch, policy, atNs int64 }

// of says whether it is still the organisation's.
func (s *stale) of(o *table.Organisation) bool {
	return s != nil && s.epoch == o.Epoch && s.policy == o.Version
}

// keep counts requests that hold slots of the lane's limits.
func (l *lane) keep(n int64) {
	for i, of := range l.units {
		if of == ofSlots {
			l.tallies[i].open.Add(n)
		}
	}
}

// has says whether the costs are held.
func (l *lane) has(costs []int64, nowNs int64) bool {
	for i, c := range costs {
		if c > 0 && l.holding.Left(i, nowNs) < c {
			return false
		}
	}
	return true
}

// limits are the newest rules of the lane.
func (l *lane) limits() []table.Limit {
	p := l.hold.path.Load()
	if l.shadow {
		return p.Shadow
	}
	return p.Limits
}

// count is how many answers there were, errors among them.
func (l *lane) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers
}

// after is closed once there have been more answers than seen.
func (l *lane) after(seen int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answers != seen {
		return closed
	}
	if l.next == nil {
		l.next = make(chan struct{})
	}
	return l.next
}

// answered wakes those who wait.
func (l *lane) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers++
	if l.next != nil {
		close(l.next)
		l.next = nil
	}
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// find is the hold of a request's path. It takes no lock and allocates nothing but for a path that is
// new since the last table.
func (a *Admitter) find(t *table.Table, p *table.Path) *hold {
	if h, ok := a.byPath.Load(p); ok {
		return h.(*hold)
	}
	return a.enter(t, p)
}

// enter makes a path known.
func (a *Admitter) enter(t *table.Table, p *table.Path) *hold {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.byID[p.ID]
	if h == nil {
		h = a.newHold(p)
		a.byID[p.ID] = h
	}
	if newest := a.table.Load(); newest == nil || t == newest || t.Ref.Newer(newest.Ref) {
		if t != newest {
			a.table.Store(t)
		}
		h.path.Store(p)
		h.org.now.Store(p.Org)
	}
	a.byPath.Store(p, h)
	return h
}

// newHold makes the hold of a path. The lock is held.
func (a *Admitter) newHold(p *table.Path) *hold {
	h := &hold{org: a.organisation(p.Org)}
	h.path.Store(p)
	// A store tells calls about the same limits apart by their numbers, and each hold counts its own: one that was
	// forgotten and is made again, or whose path differs by limits in shadow alone, is another router to it.
	router := a.run
	if a.holds > 0 {
		router += "." + strconv.Itoa(a.holds)
	}
	a.holds++
	h.main = newLane(h, p.Limits, router)
	if h.shadow = newLane(h, p.Shadow, router); h.shadow != nil {
		h.shadow.shadow = true
	}
	return h
}

func newLane(h *hold, limits []table.Limit, router string) *lane {
	if len(limits) == 0 {
		return nil
	}
	l := &lane{
		hold: h, router: router, units: make([]unit, len(limits)), tallies: make([]*tally, len(limits)),
	}
	rules := make([]ratelimit.Limit, len(limits))
	for i := range limits {
		rules[i] = limits[i].Limit
		l.tallies[i] = h.org.tally(limits[i].ID, limits[i].Kind)
		l.units[i] = l.tallies[i].unit
		l.slotted = l.slotted || l.units[i] == ofSlots
	}
	l.holding = ratelimit.NewHolding(rules)
	return l
}

// rouse has the owner look at a lane: somebody waits, or something is to be told.
func (a *Admitter) rouse(l *lane, now bool) {
	fresh := l.listed.CompareAndSwap(false, true)
	if fresh || now {
		a.queue.add(l, fresh)
	}
}

// queue is lanes that the owner should look at before its next round.
type queue struct {
	mu   sync.Mutex // guards all
	new  []*lane    // to be listed
	soon []*lane    // to be called for at once, if that is due
	bell chan struct{}
}

func (q *queue) add(l *lane, fresh bool) {
	q.mu.Lock()
	if fresh {
		q.new = append(q.new, l)
	}
	if len(q.soon) < maxSoon {
		q.soon = append(q.soon, l)
	}
	q.mu.Unlock()
	q.ring()
}

// maxSoon bounds the lanes that are looked at out of turn; the others' turn comes in milliseconds.
const maxSoon = 4096

func (q *queue) ring() {
	select {
	case q.bell <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (q *queue) take() (fresh, soon []*lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	fresh, soon = q.new, q.soon
	q.new, q.soon = nil, nil
	return fresh, soon
}
