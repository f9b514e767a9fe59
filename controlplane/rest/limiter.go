package rest

import (
	"sync"
	"time"
)

// Refusals that are audited: ten at once and one each ten seconds for each token, so that one token
// needs more than a day to push everything else out of the trail.
const (
	denialBurst = 10
	denialEvery = 10 * time.Second
)

// limiter is one token bucket for each of the names, which come from the replicated tokens and so
// are few.
type limiter struct {
	now func() time.Time

	mu      sync.Mutex // guards buckets
	buckets map[string]bucket
}

type bucket struct {
	level float64
	at    time.Time
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, buckets: map[string]bucket{}}
}

func (l *limiter) allow(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	b, known := l.buckets[name]
	if !known {
		b = bucket{level: denialBurst, at: now}
	}
	b.level = min(denialBurst, b.level+max(0, now.Sub(b.at).Seconds()/denialEvery.Seconds()))
	b.at = now
	ok := b.level >= 1
	if ok {
		b.level--
	}
	l.buckets[name] = b
	return ok
}
