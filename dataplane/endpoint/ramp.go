package endpoint

import (
	"sync/atomic"
	"time"
)

const (
	// rampFor and rampAnswers are how long and how many good answers a slow start takes, and
	// rampStart the share of its traffic that a place begins with.
	rampFor     = 30 * time.Second
	rampAnswers = 30
	rampStart   = 0.1
	// rampAtMost ends a slow start of a place to which little goes.
	rampAtMost = 2 * time.Minute
)

// ramp is the slow start of a place that has come back, or is new among warm ones: its caches are
// cold, its kernels perhaps not compiled, and nothing shows yet that it can bear what the others do.
type ramp struct {
	from    atomic.Int64 // Unix ns; 0: at full share
	answers atomic.Int64 // good ones since
}

func (r *ramp) start(now time.Time) {
	r.answers.Store(0)
	r.from.Store(now.UnixNano())
}

func (r *ramp) answered() {
	if r.from.Load() != 0 {
		r.answers.Add(1)
	}
}

// share of its usual traffic that the place should get now, above 0 and at most 1.
func (r *ramp) share(now time.Time) float64 {
	from := r.from.Load()
	if from == 0 {
		return 1
	}
	since := time.Duration(now.UnixNano() - from)
	done := min(float64(since)/float64(rampFor), float64(r.answers.Load())/rampAnswers)
	if done >= 1 || since >= rampAtMost {
		r.from.CompareAndSwap(from, 0)
		return 1
	}
	return rampStart + (1-rampStart)*max(done, 0)
}
