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
	mu    sync.Mutex // guards the three below
	exact float64    // of streams without a first token
	fluid float64    // of others, when it was last touched
	at    time.Time
}

func (b *backlog) add(tokens float64, stream bool, now time.Time, rate float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if stream {
		b.exact += tokens
		return
	}
	b.drain(now, rate)
	b.fluid += tokens
}

// took takes a stream's tokens out.
func (b *backlog) took(tokens float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.exact -= tokens; b.exact < 1e-6 {
		b.exact = 0
	}
}

func (b *backlog) tokens(now time.Time, rate float64) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drain(now, rate)
	return b.exact + b.fluid
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
