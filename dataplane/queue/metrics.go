package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a gate. Labels are tiers and causes, which are few.
type metrics struct {
	wait    *prometheus.HistogramVec
	refusal *prometheus.CounterVec
}

// passed is the outcome of what was let in; others are causes.
const passed = "passed"

func newMetrics(reg prometheus.Registerer, g *Gate) (*metrics, error) {
	m := &metrics{
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "anabranch_queue_wait_seconds",
			Help:    "Time that requests stood in the queue, by tier and how it ended: passed, or why they were refused.",
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80},
		}, []string{"tier", "outcome"}),
		refusal: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_queue_refused_total",
			Help: "Requests refused for want of room, by tier and cause, whether they had waited or not.",
		}, []string{"tier", "cause"}),
	}
	if reg == nil {
		return m, nil
	}
	if err := errors.Join(reg.Register(m.wait), reg.Register(m.refusal), reg.Register(&collector{g})); err != nil {
		return nil, fmt.Errorf("register queue metrics: %w", err)
	}
	return m, nil
}

// waited counts a request that stood in the queue.
func (m *metrics) waited(w *waiter) {
	tier := Tier(w.item.Priority)
	if w.refusal == nil {
		m.wait.WithLabelValues(tier, passed).Observe(w.pass.Waited.Seconds())
		return
	}
	m.wait.WithLabelValues(tier, string(w.refusal.Cause)).Observe(w.refusal.Waited.Seconds())
	m.refused(w.item.Priority, w.refusal.Cause)
}

func (m *metrics) refused(priority int32, cause Cause) {
	m.refusal.WithLabelValues(Tier(priority), string(cause)).Inc()
}

// collector tells what waits when it is asked.
type collector struct{ gate *Gate }

var (
	waitingDesc = prometheus.NewDesc("anabranch_queue_requests", "Requests that wait for room now, by tier.", []string{"tier"}, nil)
	tokensDesc  = prometheus.NewDesc("anabranch_queue_tokens", "What the requests that wait cost in tokens, output counted double, by tier.", []string{"tier"}, nil)
	oldestDesc  = prometheus.NewDesc("anabranch_queue_oldest_seconds", "How long the request has waited that waits longest, by tier; 0 if none does.", []string{"tier"}, nil)
	bytesDesc   = prometheus.NewDesc("anabranch_queue_bytes", "Bytes held for requests that wait.", nil, nil)
)

// Describe names the metrics.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	to <- waitingDesc
	to <- tokensDesc
	to <- oldestDesc
	to <- bytesDesc
}

// Collect reads them.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	depths, bytes := c.gate.depths()
	for i, d := range depths {
		name := tiers[i].name
		to <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(d.Requests), name)
		to <- prometheus.MustNewConstMetric(tokensDesc, prometheus.GaugeValue, float64(d.Tokens), name)
		to <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, d.Oldest.Seconds(), name)
	}
	to <- prometheus.MustNewConstMetric(bytesDesc, prometheus.GaugeValue, float64(bytes))
}

// Depth is what waits of one tier.
type Depth struct {
	Tier     string
	Requests int64
	Tokens   int64
	// Oldest is how long the one has waited that waits longest. 0: none waits.
	Oldest time.Duration
}

// Depths is what waits, by tier from the highest down, all of them.
func (g *Gate) Depths() []Depth {
	depths, _ := g.depths()
	return depths
}

func (g *Gate) depths() ([]Depth, int64) {
	out := make([]Depth, len(tiers))
	for i := range tiers {
		out[i].Tier = tiers[i].name
	}
	now := g.o.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.queue.bands {
		d := &out[tierOf(b.priority)]
		d.Requests += b.held.items
		d.Tokens += b.held.cost
		for _, h := range b.heaviest.things {
			d.Oldest = max(d.Oldest, now.Sub(h.items.oldest.Arrived))
		}
	}
	return out, g.queue.Bytes()
}
