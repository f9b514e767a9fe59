package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of [Options].
const (
	DefaultItems       = 4096
	DefaultBytes       = 256 << 20
	DefaultTokens      = 64 << 20 // 16 Ki for each of as many requests as may wait
	DefaultTenantShare = 0.5
	DefaultWait        = 10 * time.Second
	DefaultTick        = 10 * time.Millisecond
	DefaultSettle      = 25 * time.Millisecond
	DefaultBeginWithin = time.Second
)

// Options of a [Gate]. The zero Options are good.
type Options struct {
	// Limits of what waits. A field that is 0 has its default: 4,096 requests, 256 MiB, 64 Mi tokens,
	// and half of each for one tenant.
	Limits Limits
	// Wait is how long a request may wait that has no deadline. 0: DefaultWait.
	Wait time.Duration
	// Tick is how often room is looked for while something waits, since load also changes without
	// this router. 0: DefaultTick.
	Tick time.Duration
	// Settle is how long a request that has reached its place may still be missing in what room
	// tells. It counts as load for as long, up to half more. 0: DefaultSettle.
	Settle time.Duration
	// BeginWithin is how long a request that waited counts as load of its own if nobody says that it
	// has reached its place. 0: DefaultBeginWithin.
	BeginWithin time.Duration
	// Registerer takes the metrics. Nil: none are kept.
	Registerer prometheus.Registerer
	// Now is the clock. Nil: the real one.
	Now func() time.Time
	// Rand is uniform in [0, 1). Nil: math/rand/v2.
	Rand func() float64
}

// Validate names the option that is wrong and the fix, or answers nil.
func (o Options) Validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Wait", o.Wait}, {"Tick", o.Tick}, {"Settle", o.Settle}, {"BeginWithin", o.BeginWithin}} {
		if d.value < 0 {
			return fmt.Errorf("options of the queue: %s is %v, leave it 0 for the default", d.name, d.value)
		}
	}
	o.defaults()
	return o.Limits.Validate()
}

func (o *Options) defaults() {
	o.Limits.Items = orElse(o.Limits.Items, DefaultItems)
	o.Limits.Bytes = orElse(o.Limits.Bytes, DefaultBytes)
	o.Limits.Tokens = orElse(o.Limits.Tokens, DefaultTokens)
	o.Limits.TenantShare = orElse(o.Limits.TenantShare, DefaultTenantShare)
	o.Wait = orElse(o.Wait, DefaultWait)
	o.Tick = orElse(o.Tick, DefaultTick)
	o.Settle = orElse(o.Settle, DefaultSettle)
	o.BeginWithin = orElse(o.BeginWithin, DefaultBeginWithin)
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
}

func orElse[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// Request is what the gate needs to know of a request.
type Request struct {
	// Lane names the places that may serve it: requests that could go to the same ones share it.
	Lane uint64
	// Priority, Tenant, Flow, Cost and Bytes are as in [Item].
	Priority     int32
	Tenant, Flow string
	Cost, Bytes  int64
	// Deadline is the latest time at which starting it makes sense; not after now: it can't wait.
	// Zero: [Options.Wait] from now.
	Deadline time.Time
	// Came is when it first came, if it comes again because a place that looked as if it had room had
	// none: it then goes before those of its flow that came later. Zero: now.
	Came time.Time
	// Slots is how many requests the place that room tells of takes at saturation 1, so that what has
	// just been let in can be counted. 0: not known; then room is believed as it is while nothing
	// waits, and what waits goes one by one, and faster as long as room remains.
	Slots float64
	// Ceiling is the saturation from which on it waits, if that is lower than that of its priority. 0: it is not.
	Ceiling float64
	// Held: it is held back for want of capacity, which is what it is refused for once it has waited for too long.
	Held bool
}

// ceiling is the saturation from which on the request is not let in.
func (r *Request) ceiling() float64 {
	if c := Ceiling(r.Priority); !(r.Ceiling > 0 && r.Ceiling < c) {
		return c
	}
	return r.Ceiling
}

// Gate lets requests in. Make one with [New], and keep [Gate.Run] running: without it what waits
// waits. It is safe for concurrent use.
type Gate struct {
	o       Options
	metrics *metrics
	start   time.Time
	elapsed func() time.Duration // since start
	wake    chan struct{}        // something may have changed; one is enough
	waiting atomic.Int64         // requests in the queue
	order   atomic.Pointer[order]
	tracks  atomic.Pointer[map[uint64]*track] // by lane; replaced, never changed
	heads   []*Item                           // of Run

	mu     sync.Mutex // guards what is below, and the plain fields of tracks
	queue  *Queue
	open   map[*Pass]struct{} // let in from the queue, not known to have reached their places
	closed bool
}

// order is an operator's: shed what is below a priority, until then. Zero: until told otherwise.
type order struct {
	below int32
	until time.Time
}

func (o *order) sheds(priority int32, now time.Time) bool {
	return priority < o.below && (o.until.IsZero() || now.Before(o.until))
}

// New makes a gate. It starts nothing.
func New(o Options) (*Gate, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.defaults()
	g := &Gate{o: o, wake: make(chan struct{}, 1), queue: NewQueue(o.Limits), open: make(map[*Pass]struct{})}
	g.tracks.Store(&map[uint64]*track{})
	if o.Now == nil {
		g.o.Now = time.Now
		g.start = time.Now()
		g.elapsed = func() time.Duration { return time.Since(g.start) } // reads one clock, not two
	} else {
		g.start = o.Now()
		g.elapsed = func() time.Duration { return o.Now().Sub(g.start) }
	}
	var err error
	if g.metrics, err = newMetrics(o.Registerer, g); err != nil {
		return nil, err
	}
	return g, nil
}

// Enter lets a request in, at once or when its turn has come and there is room, or refuses it;
// exactly one of the answers is nil. Room tells how full the least full place is that may serve it,
// now: 1 and above is full, NaN not known. It is called without a lock, also by [Gate.Run] while the
// request waits, and perhaps once more right after Enter has returned; what it reads must bear that.
func (g *Gate) Enter(ctx context.Context, r Request, room func() float64) (*Pass, *Refusal) {
	pass, refusal, wait := g.Offer(r, room)
	if wait == nil {
		return pass, refusal
	}
	select {
	case <-wait.w.done:
	case <-ctx.Done():
		g.leave(wait.w, errors.Is(ctx.Err(), context.DeadlineExceeded))
	}
	g.metrics.waited(wait.w)
	return wait.w.pass, wait.w.refusal
}

// Offer is [Gate.Enter] for callers that don't block: where that would wait, it answers with the wait,
// and exactly one of the three answers is not nil. What becomes of the wait is decided by [Gate.Run], or
// by [Gate.Look] where that doesn't run.
func (g *Gate) Offer(r Request, room func() float64) (*Pass, *Refusal, *Wait) {
	if o := g.order.Load(); o != nil {
		if now := g.o.Now(); o.sheds(r.Priority, now) {
			return nil, g.turnAway(&r, Ordered, 0), nil
		}
	}
	full := room()
	t := (*g.tracks.Load())[r.Lane]
	if t != nil && t.waiting.Load() == 0 && t.straight(full, r.ceiling(), r.Slots, g.slot) {
		return straight, nil, nil
	}
	return g.line(r, room, full)
}

// Wait is a request in the queue that nobody blocks for.
type Wait struct {
	gate *Gate
	w    *waiter
}

// Over says how the wait has ended; both answers are nil while it lasts. It changes nothing.
func (w *Wait) Over() (*Pass, *Refusal) {
	select {
	case <-w.w.done:
		return w.w.pass, w.w.refusal
	default:
		return nil, nil
	}
}

// Leave ends the wait, since its client has left; late: its time is over. A pass that it has got already
// goes to another.
func (w *Wait) Leave(late bool) { w.gate.leave(w.w, late) }

// Len is how many requests wait.
func (g *Gate) Len() int64 { return g.waiting.Load() }

// Look is one look at all that waits: it lets in what there is room for, and refuses what waits for too
// long. [Gate.Run] takes them by itself; without it they are to be taken whenever something ended that
// was let in, and each [Options.Tick] while something waits.
func (g *Gate) Look() { g.dispatch() }

// slot is the time in the slots of [recent]; two of them are [Options.Settle]. It begins above those
// of an empty one.
func (g *Gate) slot() uint64 { return uint64(2*g.elapsed())/uint64(g.o.Settle) + recentSlots + 1 }

// line lets a request in that nothing is before after all, or has it wait.
func (g *Gate) line(r Request, room func() float64, full float64) (*Pass, *Refusal, *Wait) {
	now := g.o.Now()
	w := &waiter{room: room, slots: r.Slots, ceiling: r.ceiling(), held: r.Held, full: full, done: make(chan struct{}), item: Item{
		Lane: r.Lane, Priority: r.Priority, Tenant: r.Tenant, Flow: r.Flow, Cost: r.Cost, Bytes: r.Bytes,
		Deadline: r.Deadline, Arrived: now, Came: orElse(r.Came, now),
	}}
	w.item.Value = w
	if r.Deadline.IsZero() {
		w.item.Deadline = now.Add(g.o.Wait)
	}
	pass, cause := g.join(w, now)
	switch {
	case pass != nil:
		return pass, nil, nil
	case cause != "":
		return nil, g.turnAway(&r, cause, full), nil
	}
	g.signal()
	return nil, nil, &Wait{g, w}
}

// join puts a request in the queue, or lets it in if none of its lane has a better claim and there
// is room, or says why neither.
func (g *Gate) join(w *waiter, now time.Time) (*Pass, Cause) {
	g.mu.Lock()
	defer g.mu.Unlock()
	it := &w.item
	t := g.track(it.Lane)
	w.track = t
	w.ceiling = orElse(w.ceiling, Ceiling(it.Priority))
	w.ahead, _ = g.queue.Ahead(it.Lane, it.Priority)
	if w.ahead == 0 && t.straight(w.full, w.ceiling, w.slots, g.slot) {
		return straight, ""
	}
	if g.closed {
		return nil, Closed
	}
	if o := g.order.Load(); o != nil && o.sheds(it.Priority, now) {
		return nil, Ordered // since it was looked at
	}
	if !it.Deadline.After(now) {
		return nil, w.outOfTime(w.full)
	}
	shed, cause := g.queue.Push(it)
	if cause != "" {
		return nil, cause
	}
	g.waiting.Add(1)
	if t.waiting.Add(1) == 1 {
		t.full = w.full
		t.rate.start(now)
	}
	for _, out := range shed {
		cause := Displaced
		if out.Priority == it.Priority {
			cause = Unfair
		}
		g.refuse(out, cause, now)
	}
	return nil, ""
}

// leave takes out a request whose context has ended. If its turn had just come it goes to another.
func (g *Gate) leave(w *waiter, late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.o.Now()
	cause := ClientGone
	if late {
		cause = w.outOfTime(w.track.full)
	}
	if g.queue.Remove(&w.item) {
		g.refuse(&w.item, cause, now)
		return
	}
	if w.pass != nil {
		g.settle(w.pass, false)
		w.pass = nil
		w.refusal = g.refused(w, cause, now)
		g.signal()
	}
}

// turnAway refuses a request that does not come to wait.
func (g *Gate) turnAway(r *Request, cause Cause, full float64) *Refusal {
	now := g.o.Now()
	g.mu.Lock()
	ahead, cost := g.queue.Ahead(r.Lane, r.Priority)
	estimate := g.track(r.Lane).rate.wait(cost, r.Cost, now)
	g.mu.Unlock()
	out := refusal(cause, max(estimate, g.orderFor(cause, now)), g.o.Rand())
	out.Ahead, out.Full = ahead, full
	g.metrics.refused(r.Priority, cause)
	return out
}

// Over refuses a request of a priority since its tenant has had what is its part while capacity is short.
func (g *Gate) Over(priority int32) *Refusal {
	g.metrics.refused(priority, OverShare)
	return refusal(OverShare, overAfter, g.o.Rand())
}

// Planned refuses a request of a priority since the routing table sheds it.
func (g *Gate) Planned(priority int32) *Refusal {
	g.metrics.refused(priority, Planned)
	return refusal(Planned, plannedAfter, g.o.Rand())
}

// orderFor is how long the order still holds that is the cause.
func (g *Gate) orderFor(cause Cause, now time.Time) time.Duration {
	if o := g.order.Load(); o != nil && cause == Ordered && !o.until.IsZero() {
		return o.until.Sub(now)
	}
	return 0
}

// Freed says that a request has ended at its place, so that there may be room. It never blocks, and
// does nothing while nothing waits.
func (g *Gate) Freed() {
	if g.waiting.Load() > 0 {
		g.signal()
	}
}

func (g *Gate) signal() {
	select {
	case g.wake <- struct{}{}:
	default: // it has been told, and not looked yet
	}
}

// Shed refuses all requests of lower priority, those that wait and those that come, until then; the
// zero time is until it is called again. [math.MinInt32] ends it.
func (g *Gate) Shed(below int32, until time.Time) {
	if below == math.MinInt32 {
		g.order.Store(nil)
		return
	}
	o := &order{below: below, until: until}
	g.order.Store(o)
	now := g.o.Now()
	if !until.IsZero() && !now.Before(until) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, it := range g.queue.Below(below, nil) {
		g.refuse(it, Ordered, now)
	}
}

// Close lets no more requests wait. Those that do are let in as before, for as long as [Gate.Run]
// runs; its end refuses those that are left.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}
