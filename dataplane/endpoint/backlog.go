package endpoint

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// backlog is prompt tokens on their way through prefill, at one server or at several side by side.
// Those of streams leave it when their first token comes. Of other requests nothing is heard until the end, so theirs drain at the
// learned rate, in the order in which they were sent; what is left of one leaves with its end.
type backlog struct {
	mu         sync.Mutex // guards what follows
	exact      float64    // tokens of streams without a first token
	count      int        // of these streams
	rate       float64    // tokens/s, as last told
	since      time.Time  // when the prompt that is being computed was begun, as far as is known
	fluid      float64    // tokens of others, at the time at
	others     int        // with tokens left
	head, tail *queued    // of others, those with tokens left
	at         time.Time
	streams    *queued // those without a first token, in no order
}

// queued is one request's part of a backlog.
type queued struct {
	left          float64 // tokens
	whole         float64 // tokens that there were at first
	stream        bool
	before, after *queued // of the streams, or in the line of those that are not streamed
}

func (b *backlog) add(q *queued, now time.Time, rate float64, servers int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rate = rate
	q.whole = q.left
	if q.stream {
		if b.count == 0 {
			b.since = now
		}
		b.exact += q.left
		b.count++
		if q.after = b.streams; q.after != nil {
			q.after.before = q
		}
		b.streams = q
		return
	}
	b.drain(now, rate, servers)
	if q.left <= 0 {
		return
	}
	b.fluid += q.left
	b.others++
	if q.before = b.tail; b.tail == nil {
		b.head = q
	} else {
		b.tail.after = q
	}
	b.tail = q
}

// took takes out what is left of a request, once: its first token has come, and the next prompt
// begins, or it has ended without.
func (b *backlog) took(q *queued, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !q.stream {
		b.remove(q)
		return
	}
	b.since = now
	if q.after != nil {
		q.after.before = q.before
	}
	if q.before != nil {
		q.before.after = q.after
	} else {
		b.streams = q.after
	}
	q.before, q.after = nil, nil
	b.exact -= q.left
	if b.count--; b.count == 0 {
		b.exact = 0 // whatever rounding has left
	}
}

// tokens still to be computed before those of a newcomer. Of the prompt at the head of each server,
// taken as one of mean size, what the rate, that of one server, would have done by now is done, after
// the overhead (s) that each prompt has. Of several servers one takes up the newcomer when all but
// servers-1 of the prompts are done.
func (b *backlog) tokens(now time.Time, rate, overhead float64, servers int) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drain(now, rate, servers)
	all := b.count + b.others
	if all < servers {
		return 0
	}
	left := b.fluid
	if b.count > 0 {
		done := max((now.Sub(b.since).Seconds()-overhead)*rate, 0)
		left += b.exact - min(done, b.exact/float64(b.count))*float64(min(servers, b.count))
	}
	if servers > 1 {
		left *= float64(all-servers+1) / float64(all*servers)
	}
	return left
}

// whole is all that a single server has to compute since it began with the prompt that it is at, and how
// long ago that was: who measures by these two needs to believe no rate. False: not all of it is streams,
// or there is none.
func (b *backlog) whole(now time.Time) (tokens float64, ago time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count == 0 || b.others > 0 {
		return 0, 0, false
	}
	return b.exact, max(now.Sub(b.since), 0), true
}

// pending is how many requests have prompts that are not known to be computed.
func (b *backlog) pending() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count + b.others
}

// expected is how long the prompt that is being computed takes, as one of mean size, at the rate last
// used; 0 if there is none whose first token would be told.
func (b *backlog) expected() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count == 0 || b.rate <= 0 {
		return 0
	}
	return seconds(b.exact / float64(b.count) / b.rate)
}

// longest is how long the longest of the prompts takes that are not known to be computed, at the rate last used;
// 0 if there is none. Those that are not streamed are in line for as long as the rate is believed to need.
func (b *backlog) longest() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate <= 0 {
		return 0
	}
	most := 0.0
	for _, first := range [...]*queued{b.streams, b.head} {
		for q := first; q != nil; q = q.after {
			most = max(most, q.whole)
		}
	}
	return seconds(most / b.rate)
}

// drain takes out what the rate has done since it was last asked.
func (b *backlog) drain(now time.Time, rate float64, servers int) {
	d := now.Sub(b.at)
	if d <= 0 {
		return
	}
	b.at = now
	done := d.Seconds() * rate * float64(min(servers, b.others))
	for q := b.head; q != nil && q.left <= done; q = b.head {
		done -= q.left
		b.remove(q)
	}
	if b.head != nil {
		b.head.left -= done
		b.fluid -= done
	}
}

// remove takes a request out of the line; one that is not in it has nothing left.
func (b *backlog) remove(q *queued) {
	if q.left <= 0 {
		return
	}
	b.fluid = max(b.fluid-q.left, 0)
	b.others--
	q.left = 0
	if q.before == nil {
		b.head = q.after
	} else {
		q.before.after = q.after
	}
	if q.after == nil {
		b.tail = q.before
	} else {
		q.after.before = q.before
	}
	q.before, q.after = nil, nil
	if b.head == nil {
		b.fluid = 0 // whatever rounding has left
	}
}

// atomicFloat is a float64 that is read without a lock.
type atomicFloat struct{ bits atomic.Uint64 }

func (f *atomicFloat) load() float64   { return math.Float64frombits(f.bits.Load()) }
func (f *atomicFloat) store(v float64) { f.bits.Store(math.Float64bits(v)) }
