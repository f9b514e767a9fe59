package redisbucket

import (
	"context"
	"sync"
	"time"
)

const (
	// tolerated failures in a row: the next call is not made.
	tolerated = 2
	// probeEvery is how often a store that is away is tried, and lookEvery how often one that is
	// there is asked whether it is still fit.
	probeEvery = 250 * time.Millisecond
	lookEvery  = time.Second
)

// health says whether calls are worth making.
type health struct {
	mu     sync.Mutex // guards the rest
	failed int        // in a row
	cause  error      // why calls are not made; nil: they are
}

// why is the reason not to call, or nil.
func (h *health) why() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// fail counts a failed call. One that took all of its budget is enough: the next would hold up
// requests as long.
func (h *health) fail(err error, spent bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed++
	if spent || h.failed >= tolerated {
		h.cause = err
	}
}

// well counts a call that was answered. It does not end an absence: only a probe does.
func (h *health) well() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = 0
}

// back ends an absence.
func (h *health) back() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed, h.cause = 0, nil
}

// Healthy is nil while calls are made, else the reason why they are not.
func (l *Lender) Healthy() error { return l.health.why() }

// Run tries a store that is away until it is back, and asks one that is there whether it is still
// fit to keep quotas. It blocks until ctx ends. Without it, a Lender that has found its store away
// never asks again.
func (l *Lender) Run(ctx context.Context) error {
	ticks := time.NewTicker(probeEvery)
	defer ticks.Stop()
	every := int(lookEvery / probeEvery)
	for round := 1; ; round++ {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
		if l.Healthy() != nil || round%every == 0 {
			l.probe(ctx)
		}
	}
}

func (l *Lender) probe(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, l.budget)
	defer cancel()
	switch err := l.Check(call); {
	case err == nil:
		l.health.back()
	case ctx.Err() == nil:
		l.health.fail(err, true)
		l.reload(ctx)
	}
}
