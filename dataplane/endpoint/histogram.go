package endpoint

import (
	"math"
	"sync"
	"time"
)

// Buckets of a histogram: eight to the octave from 1 ms, so that a quantile is off by at most 5 %.
const (
	perOctave = 8
	octaves   = 20 // up to 17 minutes
	half      = 15 * time.Second
)

type counts [perOctave * octaves]uint32

// histogram holds durations of the last 15 to 30 s.
type histogram struct {
	mu       sync.Mutex // guards all
	now, was counts     // this half of the window, and the one before
	turned   time.Time  // when now began
}

// bucket is where a duration is counted.
func bucket(d time.Duration) int {
	if d <= time.Millisecond {
		return 0
	}
	return min(int(math.Log2(float64(d)/float64(time.Millisecond))*perOctave), perOctave*octaves-1)
}

// middle is the duration that stands for those of a bucket.
func middle(i int) time.Duration {
	return time.Duration(math.Exp2((float64(i)+0.5)/perOctave) * float64(time.Millisecond))
}

func (h *histogram) add(d time.Duration, at time.Time) {
	i := bucket(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn(at)
	h.now[i]++
}

func (h *histogram) turn(at time.Time) {
	switch since := at.Sub(h.turned); {
	case since < half:
		return
	case since < 2*half:
		h.was, h.now = h.now, counts{}
	default:
		h.was, h.now = counts{}, counts{}
	}
	h.turned = at
}

// quantiles gives the durations below which the shares lie; 0 if there is nothing.
func (h *histogram) quantiles(at time.Time, shares ...float64) []time.Duration {
	h.mu.Lock()
	h.turn(at)
	all := h.now
	for i, n := range h.was {
		all[i] += n
	}
	h.mu.Unlock()

	var total uint64
	for _, n := range all {
		total += uint64(n)
	}
	out := make([]time.Duration, len(shares))
	if total == 0 {
		return out
	}
	for k, share := range shares {
		rank := uint64(math.Ceil(share * float64(total)))
		var seen uint64
		for i, n := range all {
			if seen += uint64(n); seen >= max(rank, 1) {
				out[k] = middle(i)
				break
			}
		}
	}
	return out
}
