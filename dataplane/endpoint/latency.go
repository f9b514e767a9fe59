package endpoint

import (
	"cmp"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
)

// Times are quantiles of what has been seen lately. One is 0 while too little has been seen to tell
// it: at least one sample must lie beyond it, so that the 99th percentile takes a hundred.
type Times struct{ P50, P95, P99 time.Duration }

// or fills in what is not known from another place's.
func (t Times) or(other Times) Times {
	return Times{cmp.Or(t.P50, other.P50), cmp.Or(t.P95, other.P95), cmp.Or(t.P99, other.P99)}
}

const (
	// fadeEvery is how often what a latencies holds shrinks to fadeTo of it: a half-life of 43 s.
	fadeEvery = 10 * time.Second
	fadeTo    = 0.85
	// timesEvery is how old an answer of a latencies may be.
	timesEvery = 250 * time.Millisecond
	// fewest samples that say something of the median.
	fewest = 5
)

// latencies is a bounded histogram of durations that forgets, made to be asked for each request.
type latencies struct {
	mu     sync.Mutex // guards counts and faded
	counts [perOctave * octaves]float32
	faded  time.Time

	shown atomic.Pointer[shown]
}

// shown is what a latencies answered last.
type shown struct {
	at    time.Time
	times Times
}

func (h *latencies) add(d time.Duration, at time.Time) {
	i := bucket(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fade(at)
	h.counts[i]++
}

// fade makes what is old count less. The caller holds the lock.
func (h *latencies) fade(at time.Time) {
	steps := int64(at.Sub(h.faded) / fadeEvery)
	if steps <= 0 {
		return
	}
	if h.faded.IsZero() {
		h.faded = at
		return
	}
	h.faded = h.faded.Add(time.Duration(steps) * fadeEvery)
	factor := float32(math.Pow(fadeTo, float64(min(steps, 1000))))
	for i := range h.counts {
		if h.counts[i] *= factor; h.counts[i] < 0.01 {
			h.counts[i] = 0
		}
	}
}

// times are the quantiles as of now or shortly before.
func (h *latencies) times(now time.Time) Times {
	if s := h.shown.Load(); s != nil && now.Sub(s.at) < timesEvery && !now.Before(s.at) {
		return s.times
	}
	h.mu.Lock()
	h.fade(now)
	counts := h.counts
	h.mu.Unlock()
	s := &shown{at: now, times: quantiles(&counts)}
	h.shown.Store(s)
	return s.times
}

func quantiles(counts *[perOctave * octaves]float32) Times {
	total := 0.0
	for _, n := range counts {
		total += float64(n)
	}
	var t Times
	if total < fewest {
		return t
	}
	seen := 0.0
	for i, n := range counts {
		if n == 0 {
			continue
		}
		seen += float64(n)
		for _, q := range [...]struct {
			share float64
			to    *time.Duration
		}{{0.5, &t.P50}, {0.95, &t.P95}, {0.99, &t.P99}} {
			// A little less, for sums of floats.
			if *q.to == 0 && seen >= q.share*total-1e-3 && total*(1-q.share) >= 1-1e-3 {
				*q.to = middle(i)
			}
		}
	}
	return t
}

// pace is how soon and how steadily answers come.
type pace struct{ first, gap latencies }

// note takes in an answer: its first-token time, and the mean time between its tokens.
func (p *pace) note(first, gap time.Duration, now time.Time) {
	if first > 0 {
		p.first.add(first, now)
	}
	if gap > 0 {
		p.gap.add(gap, now)
	}
}

// FirstToken is how long answers of a model took to their first token, from sending; of the whole
// cluster where too little has been seen here.
func (e *Endpoint) FirstToken(model fleet.ModelID, now time.Time) Times {
	of := e.Cluster.FirstToken(model, now)
	if p := e.paces.of(model); p != nil {
		return p.first.times(now).or(of)
	}
	return of
}

// InterToken is how long there was between tokens, as a mean over each answer; of the whole cluster
// where too little has been seen here.
func (e *Endpoint) InterToken(model fleet.ModelID, now time.Time) Times {
	of := e.Cluster.InterToken(model, now)
	if p := e.paces.of(model); p != nil {
		return p.gap.times(now).or(of)
	}
	return of
}

// FirstToken is how long answers of a model took to their first token at the cluster, from sending,
// the way to another region included.
func (c *Cluster) FirstToken(model fleet.ModelID, now time.Time) Times {
	if w := c.windows.of(model); w != nil {
		return w.first.times(now)
	}
	return Times{}
}

// InterToken is how long there was between tokens at the cluster, as a mean over each answer.
func (c *Cluster) InterToken(model fleet.ModelID, now time.Time) Times {
	if w := c.windows.of(model); w != nil {
		return w.gap.times(now)
	}
	return Times{}
}
