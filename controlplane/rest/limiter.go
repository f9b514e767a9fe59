package rest

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Refusals that are audited: ten at once and one each ten seconds for each actor, so that one actor
// needs more than a day to push everything else out of the trail.
const (
	denialBurst = 10
	denialEvery = 10 * time.Second
	// maxBuckets is how many actors are told apart before those who have been quiet are forgotten.
	maxBuckets = 10_000
)

// limiter is one token bucket for each of the names, and a count of what it did not let through.
type limiter struct {
	now     func() time.Time
	exceeds func() // is called for each that is not let through; nil: nobody asks

	mu      sync.Mutex // guards what follows
	buckets map[string]bucket
	pending int // buckets with something unrecorded
}

type bucket struct {
	level float64
	at    time.Time
	unrecorded
}

// unrecorded is what a name was not let through with.
type unrecorded struct {
	name     string
	count    uint64
	from, to time.Time
}

func newLimiter(now func() time.Time, exceeds func()) *limiter {
	return &limiter{now: now, exceeds: exceeds, buckets: map[string]bucket{}}
}

func (l *limiter) allow(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.filled(name)
	ok := b.level >= 1
	if ok {
		b.level--
	} else {
		if b.count == 0 {
			b.unrecorded = unrecorded{name: name, from: b.at}
			l.pending++
		}
		b.count++
		b.to = b.at
		if l.exceeds != nil {
			l.exceeds()
		}
	}
	l.buckets[name] = b
	return ok
}

// filled is the bucket of a name as of now.
func (l *limiter) filled(name string) bucket {
	now := l.now()
	b, known := l.buckets[name]
	if !known {
		l.forget(now)
		b = bucket{level: denialBurst, at: now}
	}
	b.level = min(denialBurst, b.level+max(0, now.Sub(b.at).Seconds()/denialEvery.Seconds()))
	b.at = now
	return b
}

// forget makes room: a full bucket with nothing to tell is as good as none.
func (l *limiter) forget(now time.Time) {
	if len(l.buckets) < maxBuckets {
		return
	}
	for name, b := range l.buckets {
		if b.count == 0 && now.Sub(b.at) >= denialBurst*denialEvery {
			delete(l.buckets, name)
		}
	}
}

// due takes out what was not let through, of the names that may do something again, and counts it as that.
func (l *limiter) due() []unrecorded {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == 0 {
		return nil
	}
	var out []unrecorded
	for name := range l.buckets {
		b := l.filled(name)
		if b.count > 0 && b.level >= 1 {
			out = append(out, b.unrecorded)
			b.level--
			b.unrecorded = unrecorded{}
			l.pending--
		}
		l.buckets[name] = b
	}
	slices.SortFunc(out, func(a, b unrecorded) int { return cmp.Compare(a.name, b.name) })
	return out
}

// restore puts back what could not be told.
func (l *limiter) restore(untold []unrecorded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range untold {
		b := l.filled(u.name)
		if b.count == 0 {
			b.unrecorded = unrecorded{name: u.name, to: u.to}
			l.pending++
		}
		b.count += u.count
		b.from = u.from
		l.buckets[u.name] = b
	}
}
