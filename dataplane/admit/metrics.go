package admit

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// waits are the metrics of waiting: for stores, and for them to be asked.
type waits struct {
	calls, batch, waits prometheus.Histogram
	stales              prometheus.Counter
}

// newMetrics makes the metrics and registers them with r unless it is nil.
func newMetrics(r prometheus.Registerer, a *Admitter) (*waits, error) {
	m := &waits{
		calls: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "anabranch_quota_store_call_seconds",
			Help:    "Time of round trips to quota stores, failed ones included.",
			Buckets: []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5},
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "anabranch_quota_store_batch_calls",
			Help:    "Calls for leases that one round trip to a quota store carries.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256},
		}),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "anabranch_quota_wait_seconds",
			Help:    "Time that requests waited for a quota store. Those that did not wait are not counted.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1},
		}),
		stales: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_quota_stale_answers_total",
			Help: "Calls that a quota store refused, since it had heard of a newer policy than the router.",
		}),
	}
	if r == nil {
		return m, nil
	}
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_quota_store_up",
		Help: "1 while all quota stores answer, 0 while limits are kept by their degraded policy.",
	}, func() float64 {
		if a.StoreOK() {
			return 1
		}
		return 0
	})
	var errs []error
	for _, c := range []prometheus.Collector{m.calls, m.batch, m.waits, m.stales, up} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register quota metrics: %w", err)
	}
	return m, nil
}

func (m *waits) called(took time.Duration, calls int) {
	m.calls.Observe(took.Seconds())
	m.batch.Observe(float64(calls))
}

// waited counts a wait since began; a zero time is none.
func (m *waits) waited(began time.Time, now func() time.Time) {
	if !began.IsZero() {
		m.waits.Observe(now().Sub(began).Seconds())
	}
}
