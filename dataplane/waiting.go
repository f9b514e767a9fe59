package dataplane

import (
	"context"
	"sync"
	"time"

	"anabranch/dataplane/proxy"
)

// sweepEvery is how often attempts without content are compared with what is known of their
// places.
const sweepEvery = 100 * time.Millisecond

// waiting holds the attempts under way, so that those without content are taken away from a place
// that has been found dead. An answer that is not streamed shows nothing for as long as it is
// generated, and a place that hangs would keep it for that long.
type waiting struct {
	mu       sync.Mutex // guards attempts
	attempts map[*proxy.Attempt]pending
}

type pending struct {
	dead  func() (bool, string)
	since time.Time
	floor time.Duration
}

func newWaiting() *waiting { return &waiting{attempts: make(map[*proxy.Attempt]pending)} }

// add takes in an attempt; what it returns takes it out.
func (w *waiting) add(a *proxy.Attempt, p *place, since time.Time, floor time.Duration) func() {
	dead := p.cluster.Ejected
	if p.endpoint != nil {
		dead = p.endpoint.Ejected
	}
	w.mu.Lock()
	w.attempts[a] = pending{dead, since, floor}
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		delete(w.attempts, a)
		w.mu.Unlock()
	}
}

// sweep abandons the attempts that have waited for as long as silence may last at a place that is
// ejected. Ones with content are not touched.
func (w *waiting) sweep(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a, p := range w.attempts {
		if now.Sub(p.since) < p.floor {
			continue
		}
		if dead, _ := p.dead(); dead {
			a.Abandon()
		}
	}
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
