package leader

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/failover"
)

// metrics of what a leader plans and publishes; they stand still while its node does not lead.
type metrics struct {
	plans    prometheus.Histogram
	failures *prometheus.CounterVec
	health   *prometheus.CounterVec
	warnings prometheus.Counter
	unbilled prometheus.Counter
}

// Causes for which a table or health is not published.
const (
	causeUnsound   = "unsound"
	causeTooLarge  = "too_large"
	causeRefused   = "refused"
	causeUncertain = "not_committed"
)

func newMetrics() metrics {
	const prefix = "anabranch_controlplane_"
	m := metrics{
		plans: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "plan_seconds", Help: "Time to plan a table.",
			Buckets: []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1},
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "publish_failures_total", Help: "Tables, health and rollouts that this node planned as leader and could not commit, by cause: unsound, too_large, refused, not_committed.",
		}, []string{"cause"}),
		health: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "health_changes_total", Help: "Changes of clusters' health that this node found as leader, by what it became.",
		}, []string{"to"}),
		warnings: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "budget_warnings_total", Help: "Warnings that this node gave as leader, since a budget was spent up to one of its percentages.",
		}),
	}
	m.unbilled = prometheus.NewCounter(prometheus.CounterOpts{
		Name: prefix + "account_failures_total", Help: "Bills of minutes that this node made as leader and could not commit; they are made again.",
	})
	for _, cause := range []string{causeUnsound, causeTooLarge, causeRefused, causeUncertain} {
		m.failures.WithLabelValues(cause)
	}
	return m
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	return errors.Join(r.Register(m.plans), r.Register(m.failures), r.Register(m.health), r.Register(m.warnings), r.Register(m.unbilled))
}

func (m *metrics) planned(took time.Duration) { m.plans.Observe(took.Seconds()) }

func (m *metrics) failed(cause string) { m.failures.WithLabelValues(cause).Inc() }

func (m *metrics) became(to failover.State) { m.health.WithLabelValues(string(to)).Inc() }
