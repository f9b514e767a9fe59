package dataplane

import (
	"context"
	"sync"
	"time"

	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/proxy"
)

// sweepEvery is how often attempts without content are compared with what is known of their
// places.
const sweepEvery = 100 * time.Millisecond

// waitingLists is over how many lists the attempts are spread, so that requests don't queue for a
// lock.
const waitingLists = 64

// waiting holds the attempts under way, so that those without content are taken away from a place
// that has been found dead. An answer that is not streamed shows nothing for as long as it is
// generated, and a place that hangs would keep it for that long.
type waiting struct {
	lists [waitingLists]waitingList
}

type waitingList struct {
	mu    sync.Mutex // guards first, and the links of what is in the list
	first *pending
}

// pending is an attempt under way, linked with others.
type pending struct {
	attempt *proxy.Attempt
	place   mortal
	since   time.Time
	floor   time.Duration
	call    *endpoint.Call
	overdue time.Duration // after which it counts as unanswered; 0: it is not told
	told    bool

	list       *waitingList
	prev, next *pending
}

// mortal is an endpoint or a cluster.
type mortal interface {
	Ejected() (out bool, reason string)
}

func newWaiting() *waiting { return &waiting{} }

// add takes in an attempt, and drop takes it out.
func (w *waiting) add(p *pending) {
	p.list = &w.lists[uint64(p.since.UnixNano())/16%waitingLists] // as good as random
	p.list.mu.Lock()
	defer p.list.mu.Unlock()
	if p.next = p.list.first; p.next != nil {
		p.next.prev = p
	}
	p.list.first = p
}

func (w *waiting) drop(p *pending) {
	p.list.mu.Lock()
	defer p.list.mu.Unlock()
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		p.list.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	}
}

// each calls f for each attempt, with its list held.
func (w *waiting) each(f func(*pending)) {
	for i := range w.lists {
		l := &w.lists[i]
		l.mu.Lock()
		for p := l.first; p != nil; p = p.next {
			f(p)
		}
		l.mu.Unlock()
	}
}

// sweep abandons the attempts that have waited for as long as silence may last at a place that is
// ejected, and tells of those that have waited for long wherever they are. Ones with content are not
// touched.
func (w *waiting) sweep(now time.Time) {
	w.each(func(p *pending) {
		waited := now.Sub(p.since)
		if !p.told && p.overdue > 0 && waited >= p.overdue {
			p.told = true
			p.call.Overdue(now)
		}
		if waited < p.floor {
			return
		}
		if dead, _ := p.place.Ejected(); dead {
			p.attempt.Abandon()
		}
	})
}

func (w *waiting) run(ctx context.Context, now func() time.Time) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.sweep(now())
		}
	}
}
