package endpoint

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// backlog is prompt tokens on their way through prefill. Those of streams leave it when their
// first token comes; of other requests nothing is heard until the end, so theirs drain at the
// learned rate.
type backlog struct {
	mu    sync.Mutex // guards what follows
	exact float64    // tokens of streams without a first token
	count int        // of these streams
	since time.Time  // when the prompt that is being computed was begun, as far as is known
	fluid float64    // tokens of others, at the time at
	at    time.Time
}

func (b *backlog) add(tokens float64, stream bool, now time.Time, rate float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if stream {
		if b.count == 0 {
			b.since = now
		}
		b.exact += tokens
		b.count++
		return
	}
	b.drain(now, rate)
	b.fluid += tokens
}

// took takes a stream's tokens out: its first token has come, and the next prompt begins.
func (b *backlog) took(tokens float64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = now
	b.exact -= tokens
	if b.count--; b.count == 0 {
		b.exact = 0 // whatever rounding has left
	}
}

// tokens still to be computed. Of the prompt at the head, taken as one of mean size, what the rate
// would have done by now is done.
func (b *backlog) tokens(now time.Time, rate float64) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drain(now, rate)
	if b.count == 0 {
		return b.fluid
	}
	done := max(now.Sub(b.since).Seconds()*rate, 0)
	return b.fluid + b.exact - min(done, b.exact/float64(b.count))
}

func (b *backlog) drain(now time.Time, rate float64) {
	if d := now.Sub(b.at); d > 0 {
		b.fluid = max(b.fluid-d.Seconds()*rate, 0)
		b.at = now
	}
}

// atomicFloat is a float64 that is read without a lock.
type atomicFloat struct{ bits atomic.Uint64 }

func (f *atomicFloat) load() float64   { return math.Float64frombits(f.bits.Load()) }
func (f *atomicFloat) store(v float64) { f.bits.Store(math.Float64bits(v)) }
