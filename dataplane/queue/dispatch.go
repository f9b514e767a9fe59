package queue

import (
	"context"
	"fmt"
	"time"
)

// waiter is a request in the queue.
type waiter struct {
	item  Item
	room  func() float64
	slots float64
	// ceiling that it is held to, see [Request]; held: refused as what is held back.
	ceiling float64
	held    bool
	track   *track
	ahead   int
	full    float64 // when it came

	// done is closed when one of the two below is set, under the gate's lock.
	done    chan struct{}
	pass    *Pass
	refusal *Refusal
}

// Pass says that a request was let in.
type Pass struct {
	// Waited is how long it stood in the queue, 0 if it didn't, and Ahead how many of its priority or
	// above stood before it in its lane when it came.
	Waited time.Duration
	Ahead  int
	// Full is what room told when it came, and Ceiling what that had to be below. Both are 0 if it
	// didn't wait.
	Full, Ceiling float64

	gate  *Gate // nil: it didn't wait
	track *track
	since time.Time
}

// String says for the record how the request came in.
func (p *Pass) String() string {
	if p.gate == nil {
		return "let in at once"
	}
	return fmt.Sprintf("let in after %v behind %d others, found saturation %.2f where below %.2f was wanted",
		p.Waited.Round(time.Millisecond), p.Ahead, p.Full, p.Ceiling)
}

// straight is the pass of all that do not wait.
var straight = &Pass{}

// Begun says that the request counts as load where it went, or goes nowhere after all. Call it
// once; more do nothing. Until then it is counted here, and the next in line may have to wait for
// that.
func (p *Pass) Begun() {
	g := p.gate
	if g == nil {
		return
	}
	g.mu.Lock()
	g.settle(p, true)
	g.mu.Unlock()
	g.Freed()
}

// settle ends a pass, if it hasn't ended: the request has begun, or goes nowhere. The gate's lock is
// held.
func (g *Gate) settle(p *Pass, begun bool) {
	if _, open := g.open[p]; !open {
		return
	}
	delete(g.open, p)
	if begun {
		p.track.recent.add(g.slot())
	}
	p.track.open.Add(-1)
}

// Run lets in what waits when there is room, and refuses what waits for too long, until ctx ends.
// Then it refuses all that is left.
func (g *Gate) Run(ctx context.Context) error {
	defer g.end()
	tick := time.NewTimer(g.o.Tick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.wake:
		case <-tick.C:
		}
		if g.dispatch() {
			tick.Reset(g.o.Tick)
		} else {
			tick.Stop()
		}
	}
}

// dispatch is one look at all lanes. True: there is something to look for again.
func (g *Gate) dispatch() bool {
	now := g.o.Now()
	g.mu.Lock()
	for _, it := range g.queue.Expire(now, nil) {
		w := it.Value.(*waiter)
		g.refuse(it, w.outOfTime(w.track.full), now)
	}
	for p := range g.open {
		if now.Sub(p.since) > g.o.BeginWithin {
			g.settle(p, true)
		}
	}
	g.heads = g.queue.Heads(g.heads[:0])
	g.mu.Unlock()
	for i, it := range g.heads {
		g.letIn(it.Value.(*waiter), now)
		g.heads[i] = nil // not to hold on to it
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.queue.Len() > 0 || len(g.open) > 0
}

// letIn lets as many in of a lane as there is room for, by what one of its requests sees.
func (g *Gate) letIn(head *waiter, now time.Time) {
	full := head.room()
	g.mu.Lock()
	defer g.mu.Unlock()
	t := head.track
	t.full = full
	for {
		it := g.queue.Peek(head.item.Lane)
		if it == nil {
			return
		}
		w := it.Value.(*waiter)
		if !t.lets(w.ceiling, w.slots, g.slot()) {
			return
		}
		g.queue.Pop(it.Lane)
		t.granted++
		t.rate.served(it.size.cost, now)
		t.open.Add(1)
		g.out(w, now)
		w.pass = &Pass{
			Waited: max(now.Sub(it.Arrived), 1), // it may have come since now
			Ahead:  w.ahead, Full: w.full, Ceiling: w.ceiling,
			gate: g, track: t, since: now,
		}
		g.open[w.pass] = struct{}{}
		close(w.done)
	}
}

// out counts a request out that has left the queue. The lock is held.
func (g *Gate) out(w *waiter, now time.Time) {
	g.waiting.Add(-1)
	if w.track.waiting.Add(-1) == 0 {
		w.track.rate.stop(now)
	}
}

// refuse tells a request that has been taken out of the queue why. The lock is held.
func (g *Gate) refuse(it *Item, cause Cause, now time.Time) {
	w := it.Value.(*waiter)
	w.refusal = g.refused(w, cause, now)
	g.out(w, now)
	close(w.done)
}

func (g *Gate) refused(w *waiter, cause Cause, now time.Time) *Refusal {
	_, cost := g.queue.Ahead(w.item.Lane, w.item.Priority)
	estimate := max(w.track.rate.wait(cost, w.item.Cost, now), g.orderFor(cause, now))
	r := refusal(cause, estimate, g.o.Rand())
	r.Waited, r.Ahead, r.Full = now.Sub(w.item.Arrived), w.ahead, w.full
	return r
}

// end refuses all that waits, and all that would.
func (g *Gate) end() {
	now := g.o.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, it := range g.queue.Drain(nil) {
		g.refuse(it, Closed, now)
	}
}
