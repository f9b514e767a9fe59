package admit

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/ratelimit"
)

// metrics of the admitter. Labels take only names of the table and fixed words, so that clients
// can't make series.
type metrics struct {
	decisions *prometheus.CounterVec
	calls     prometheus.Histogram
	refunds   prometheus.Counter
	skipped   prometheus.Counter
}

// newMetrics makes the metrics and registers them with r unless it is nil.
func newMetrics(r prometheus.Registerer, a *Admitter) (*metrics, error) {
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_quota_decisions_total",
			Help: "Requests judged by their tenant's quotas: decision is allowed or the reason of refusal, source is store or local (the store was away).",
		}, []string{"tenant", "decision", "source"}),
		calls: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "anabranch_quota_store_call_seconds",
			Help:    "Time of calls to the quota store, failed ones included.",
			Buckets: []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1},
		}),
		refunds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_quota_refunds_forgone_total",
			Help: "Refunds given up because the quota store may or may not have made them.",
		}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_quota_uncounted_total",
			Help: "Times that a quota was left out because its numbers can't be counted exactly.",
		}),
	}
	if r == nil {
		return m, nil
	}
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_quota_store_up",
		Help: "1 while the quota store answers, 0 while limits are kept by their degraded policy.",
	}, func() float64 {
		if a.StoreOK() {
			return 1
		}
		return 0
	})
	owed := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_quota_owed_buckets",
		Help: "Buckets that the quota store must still be charged with, or refunded, for what happened without it.",
	}, func() float64 { return float64(a.fallback.owing()) })
	var errs []error
	for _, c := range []prometheus.Collector{m.decisions, m.calls, m.refunds, m.skipped, up, owed} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register quota metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) decided(tenant fleet.TenantID, d ratelimit.Decision) {
	decision, source := "allowed", "store"
	if !d.Allowed {
		decision = string(d.Reason)
	}
	if d.Degraded {
		source = "local"
	}
	m.decisions.WithLabelValues(string(tenant), decision, source).Inc()
}

func (m *metrics) called(took time.Duration) { m.calls.Observe(took.Seconds()) }
func (m *metrics) forgone()                  { m.refunds.Inc() }
func (m *metrics) uncounted()                { m.skipped.Inc() }
