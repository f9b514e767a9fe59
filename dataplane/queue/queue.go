// Package queue is flow control: where every place that may serve a request is full, the request
// waits for its turn, and what can't wait is refused with a reason and an honest time to come back.
//
// [Queue] is the decision: who is next, and who must go when there are too many. It has no clock
// and no goroutine. Higher priorities go first; within one, tenants get equal shares of tokens, and
// so do the flows of a tenant; a flow's requests stay in order. Requests that could go to different
// places stand in different lanes and don't wait for each other. [Gate] is the edge: it lets
// requests in while there is room for them, holds the others until there is, and tells those that
// it refuses why.
//
// How full places are is told by others, and so is when a request has reached its place.
package queue

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
)

const (
	// maxCost bounds what one request counts for, so that sums of any queue fit 64 bits.
	maxCost = 1 << 32
	// flowSlots is how many flows of one tenant are told apart; names beyond share, by their hash
	// (stochastic fairness queueing, McKenney 1990). A tenant that gives each request a flow of its
	// own would otherwise always have one that was never served, and starve its older ones.
	flowSlots = 256
)

// Limits bound what waits, over all lanes.
type Limits struct {
	// Items, Bytes and Tokens are the most that may wait; each > 0.
	Items  int
	Bytes  int64
	Tokens int64
	// TenantShare is the part of each, within (0, 1], that one tenant may hold.
	TenantShare float64
}

// Validate names the limit that is wrong, or answers nil.
func (l Limits) Validate() error {
	switch {
	case l.Items <= 0:
		return fmt.Errorf("limits of the queue: Items is %d, it must be above 0", l.Items)
	case l.Bytes <= 0:
		return fmt.Errorf("limits of the queue: Bytes is %d, it must be above 0", l.Bytes)
	case l.Tokens <= 0:
		return fmt.Errorf("limits of the queue: Tokens is %d, it must be above 0", l.Tokens)
	case !(l.TenantShare > 0 && l.TenantShare <= 1):
		return errors.New("limits of the queue: TenantShare must be above 0 and at most 1")
	}
	return nil
}

// whole is the limits as an amount, share that of one tenant, which is never less than one request.
func (l Limits) whole() amount { return amount{int64(l.Items), l.Bytes, l.Tokens} }

func (l Limits) share() amount {
	of := func(n int64) int64 { return max(1, int64(float64(n)*l.TenantShare)) }
	return amount{of(int64(l.Items)), of(l.Bytes), of(l.Tokens)}
}

// amount is how much waits.
type amount struct{ items, bytes, cost int64 }

func (a amount) plus(b amount) amount {
	return amount{a.items + b.items, a.bytes + b.bytes, a.cost + b.cost}
}

func (a amount) minus(b amount) amount {
	return amount{a.items - b.items, a.bytes - b.bytes, a.cost - b.cost}
}

func (a amount) within(b amount) bool {
	return a.items <= b.items && a.bytes <= b.bytes && a.cost <= b.cost
}

// Item is one request that waits. Its exported fields are set before it is pushed and not changed
// while it waits.
type Item struct {
	// Lane is where it may go: requests of one lane wait for the same places.
	Lane uint64
	// Priority: higher goes first, and is shed last.
	Priority int32
	// Tenant pays, Flow divides the tenant's requests; tenants share fairly, and then the flows of
	// each.
	Tenant, Flow string
	// Cost is its size in tokens, those of its output counted double. Less than 1 counts as 1, and
	// more than 1<<32 as that.
	Cost int64
	// Bytes that are held for it while it waits; below 0 counts as 0.
	Bytes int64
	// Deadline is the latest time at which starting it makes sense. Zero: there is none.
	Deadline time.Time
	// Arrived is when it was pushed, Came when it came for the first time, by which a flow is in order.
	// Came zero: it is behind all of its flow.
	Arrived, Came time.Time
	// Value is the caller's own.
	Value any

	size    amount
	order   uint64 // of arrival
	flow    *flow  // nil: it doesn't wait
	holding *holding
	links   [2]link // in the lists of its flow and its holding
	due     int     // slot among the deadlines
}

// Waits says whether the item is in a queue.
func (it *Item) Waits() bool { return it.flow != nil }

func (it *Item) before(other *Item) bool {
	if !it.Deadline.Equal(other.Deadline) {
		return it.Deadline.Before(other.Deadline)
	}
	return it.order < other.order
}

func (it *Item) slot() *int { return &it.due }

// Cause says why a request was not let in. The zero Cause: nothing was in its way.
type Cause string

// The causes.
const (
	// TenantShare: its tenant holds as much of the queue as one may.
	TenantShare Cause = "tenant_share"
	// QueueFull: the queue is full of what has the same priority or a higher one.
	QueueFull Cause = "queue_full"
	// Displaced: one of higher priority took its place in a full queue.
	Displaced Cause = "displaced"
	// Unfair: one of the same priority took its place in a full queue, of a tenant that had less
	// there than its own.
	Unfair Cause = "unfair"
	// Ordered: an operator has ordered that requests of its priority be shed.
	Ordered Cause = "ordered"
	// Planned: the routing table says that there is no room for it anywhere, see [Gate.Planned].
	Planned Cause = "planned"
	// HeldBack: its deadline passed while requests like it are held back for want of capacity, see [Request].
	HeldBack Cause = "held_back"
	// OverShare: its tenant has had its part while capacity is short, see [Gate.Over].
	OverShare Cause = "over_share"
	// OverCeiling: its deadline passed, and what room there was is kept for higher priorities.
	OverCeiling Cause = "over_ceiling"
	// Saturated: its deadline passed, and every place was full.
	Saturated Cause = "saturated"
	// Closed: the router is ending, or has.
	Closed Cause = "closed"
	// ClientGone: its client did not wait.
	ClientGone Cause = "client_gone"
)

// Queue holds what waits. The zero Queue is of no use; make one with [NewQueue]. It is not safe for
// concurrent use.
type Queue struct {
	limits    Limits
	lanes     map[uint64]*lane
	bands     []*band // by priority, the lowest first
	tenants   map[string]*amount
	deadlines heap[*Item]
	held      amount
	arrivals  uint64
}

// NewQueue makes an empty queue. The limits must be valid.
func NewQueue(l Limits) *Queue {
	return &Queue{limits: l, lanes: make(map[uint64]*lane), tenants: make(map[string]*amount)}
}

// Len is how many items wait.
func (q *Queue) Len() int { return int(q.held.items) }

// Bytes is how many are held for what waits.
func (q *Queue) Bytes() int64 { return q.held.bytes }

// Tokens is what all that waits costs.
func (q *Queue) Tokens() int64 { return q.held.cost }

// Push puts an item in the queue, and takes out those that must go so that the limits hold. Where
// there is no place for it the cause says why, and nothing else changes. An item that was taken out
// for it had a lower priority ([Displaced]), or the same one ([Unfair]).
func (q *Queue) Push(it *Item) (shed []*Item, cause Cause) {
	it.size = amount{1, max(it.Bytes, 0), min(max(it.Cost, 1), maxCost)}
	if shed, cause = q.makeRoom(it); cause != "" {
		return nil, cause
	}
	q.arrivals++
	it.order = q.arrivals
	l := q.lanes[it.Lane]
	if l == nil {
		l = &lane{key: it.Lane}
		q.lanes[it.Lane] = l
	}
	l.push(it)
	q.hold(it)
	if !it.Deadline.IsZero() {
		q.deadlines.push(it)
	}
	return shed, ""
}

// Peek is the item of a lane whose turn is next: of the highest priority there, the first of the
// flow and tenant with the least service. Nil: none waits there.
func (q *Queue) Peek(key uint64) *Item {
	if l := q.lanes[key]; l != nil {
		return l.head()
	}
	return nil
}

// Pop takes the item out whose turn is next, and charges its cost to its tenant and flow. It does
// not look at deadlines: call [Queue.Expire] before.
func (q *Queue) Pop(key uint64) *Item {
	it := q.Peek(key)
	if it != nil {
		q.lanes[key].serve(it)
		q.take(it)
	}
	return it
}

// Remove takes an item out that is not to be served. False: it wasn't in the queue.
func (q *Queue) Remove(it *Item) bool {
	if !it.Waits() {
		return false
	}
	q.take(it)
	return true
}

// take takes an item out of everything that it is in.
func (q *Queue) take(it *Item) {
	l := q.lanes[it.Lane]
	l.remove(it)
	if len(l.levels) == 0 {
		delete(q.lanes, it.Lane)
	}
	q.release(it)
	if it.due > 0 {
		q.deadlines.remove(it)
	}
}

// Expire takes out the items whose deadlines are before now, and appends them.
func (q *Queue) Expire(now time.Time, to []*Item) []*Item {
	for q.deadlines.len() > 0 && q.deadlines.top().Deadline.Before(now) {
		it := q.deadlines.top()
		q.take(it)
		to = append(to, it)
	}
	return to
}

// Below takes out the items of lower priority than given, the lowest first, and appends them.
func (q *Queue) Below(priority int32, to []*Item) []*Item {
	for len(q.bands) > 0 && q.bands[0].priority < priority {
		to = append(to, q.shed(q.bands[0]))
	}
	return to
}

// Drain takes all items out and appends them, the lowest priority first.
func (q *Queue) Drain(to []*Item) []*Item {
	for len(q.bands) > 0 {
		to = append(to, q.shed(q.bands[0]))
	}
	return to
}

// Ahead is what waits in a lane at a priority or above: how many, and their cost.
func (q *Queue) Ahead(key uint64, priority int32) (items int, cost int64) {
	l := q.lanes[key]
	if l == nil {
		return 0, 0
	}
	for _, level := range l.levels {
		if level.priority < priority {
			break
		}
		items += level.items
		cost += level.cost
	}
	return items, cost
}

// Heads appends the next item of each lane, the highest priority first and then the one that came
// first.
func (q *Queue) Heads(to []*Item) []*Item {
	from := len(to)
	for _, l := range q.lanes {
		to = append(to, l.head())
	}
	slices.SortFunc(to[from:], func(a, b *Item) int {
		if a.Priority != b.Priority {
			return cmp.Compare(b.Priority, a.Priority)
		}
		return cmp.Compare(a.order, b.order)
	})
	return to
}

// slotOf is which of its tenant's flows a name counts as.
func slotOf(flow string) uint8 { return uint8(xxhash.Sum64String(flow) % flowSlots) }
