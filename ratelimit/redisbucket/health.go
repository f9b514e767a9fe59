package redisbucket

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"anabranch/ratelimit"
)

const (
	// tolerated failures in a row: the next call is not made.
	tolerated = 2
	// probeEvery is how often a store that is away is tried, and lookEvery how often one that is
	// there is asked whether it is still fit.
	probeEvery = 250 * time.Millisecond
	lookEvery  = time.Second
)

// everything is the part of a store that is all of it.
const everything = ""

// health says whether calls are worth making. In a cluster each organisation is a part with a
// health of its own, so that a server which is away takes only those that it serves with it; anywhere one is
// of which something is kept that can't be read.
type health struct {
	log *slog.Logger // nil: none

	mu    sync.Mutex // guards what follows
	parts map[string]*ailing
	ill   int       // parts that are not called
	since time.Time // when the first of them was not
}

// ailing is a part of which calls have failed.
type ailing struct {
	failed int   // in a row
	cause  error // why calls are not made; nil: they are
}

// why is the reason not to call, or nil.
func (h *health) why(part string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range []string{everything, part} {
		if p := h.parts[name]; p != nil && p.cause != nil {
			return p.cause
		}
	}
	return nil
}

// fail counts a failed call. One that took all of its budget is enough: the next would hold up
// requests as long.
func (h *health) fail(part string, err error, spent bool) {
	if h.failed(part, err, spent) && h.log != nil {
		h.log.Warn("a quota store is away, limits are kept by their degraded policies", "error", err)
	}
}

// failed counts it, and says whether nothing was away before.
func (h *health) failed(part string, err error, spent bool) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.parts[part]
	if p == nil {
		p = &ailing{}
		if h.parts == nil {
			h.parts = make(map[string]*ailing)
		}
		h.parts[part] = p
	}
	p.failed++
	if !spent && p.failed < tolerated {
		return false
	}
	if p.cause == nil {
		h.ill++
		if first = h.ill == 1; first {
			h.since = time.Now()
		}
	}
	p.cause = err
	return first
}

// well counts a call that was answered. It does not end an absence: only a probe does.
func (h *health) well(part string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.parts[part]; p != nil && p.cause == nil {
		delete(h.parts, part)
	}
}

// back ends an absence.
func (h *health) back(part string) {
	if away, last := h.returned(part); last && h.log != nil {
		h.log.Info("a quota store is back", "away", away.Round(time.Millisecond))
	}
}

// returned notes it, and says whether nothing is away any more, and for how long something was.
func (h *health) returned(part string) (away time.Duration, last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.parts[part]
	delete(h.parts, part)
	if p == nil || p.cause == nil {
		return 0, false
	}
	h.ill--
	return time.Since(h.since), h.ill == 0
}

// away lists the parts that are not called.
func (h *health) away() (parts []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, p := range h.parts {
		if p.cause != nil {
			parts = append(parts, name)
		}
	}
	return parts
}

// part is what an organisation's calls share their fate with.
func (l *Lender) part(org string) string {
	if _, ok := l.client.(*redis.ClusterClient); ok {
		return org
	}
	return everything
}

// Healthy is nil while calls about the organisation are made, else the reason why they are not.
func (l *Lender) Healthy(org string) error { return l.health.why(org) }

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
		for _, part := range l.health.away() {
			l.probe(ctx, part)
		}
		if round%every == 0 {
			l.look(ctx)
		}
	}
}

// probe asks for a part that is away.
func (l *Lender) probe(ctx context.Context, part string) {
	call, cancel := context.WithTimeout(ctx, l.budget)
	defer cancel()
	var err error
	if part == everything {
		err = l.Check(call)
	} else {
		err = l.client.MGet(call, Prefix+"{"+part+"}:epoch").Err()
	}
	if err == nil {
		l.health.back(part)
		return
	}
	l.reload(ctx)
}

// look notices an absence before a request does, and a store that is no longer fit.
func (l *Lender) look(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, l.budget)
	defer cancel()
	err := l.Check(call)
	_, cluster := l.client.(*redis.ClusterClient)
	if err == nil {
		l.watch(call)
		return
	}
	if ctx.Err() != nil || cluster && !errors.Is(err, ratelimit.ErrUnfit) {
		return
	}
	l.health.fail(everything, err, true)
}
