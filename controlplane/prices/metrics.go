package prices

import (
	"errors"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/state"
	"anabranch/costmodel/pricelist"
)

// maxShown bounds the clusters whose price is shown as a metric: the first by name.
const maxShown = 1000

// metrics show prices as this node knows them, and what went wrong while it led.
type metrics struct {
	view func() *state.View
	now  func() time.Time

	failures                               *prometheus.CounterVec
	age, failing, offers, doubted, gpuHour *prometheus.Desc
}

func newMetrics(view func() *state.View, now func() time.Time) *metrics {
	const prefix = "anabranch_price_"
	of := []string{"source"}
	return &metrics{
		view: view, now: now,
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "refresh_failures_total", Help: "Questions of this node, as leader, that a source of prices has not answered.",
		}, of),
		age: prometheus.NewDesc(prefix+"age_seconds",
			"Time since the last good answer of a source of prices that is committed, which is up to an hour before the very last; +Inf: there was none.", of, nil),
		failing: prometheus.NewDesc(prefix+"source_failing", "1 if a source of prices fails. To be without credentials is no failure.", of, nil),
		offers:  prometheus.NewDesc(prefix+"offers", "Prices that are kept of a source.", of, nil),
		doubted: prometheus.NewDesc(prefix+"doubted", "Prices of a source that have moved too far to be believed, so that the last one stays.", of, nil),
		gpuHour: prometheus.NewDesc("anabranch_gpu_hour_dollars",
			"What a GPU of a cluster costs for an hour, on average; missing: it is not known. Of the first 1,000 clusters by name.", []string{"cluster"}, nil),
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	return errors.Join(r.Register(m.failures), r.Register(m))
}

func (m *metrics) failed(source string) { m.failures.WithLabelValues(source).Inc() }

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.age, m.failing, m.offers, m.doubted, m.gpuHour} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	view, now := m.view(), m.now()
	gauge := func(d *prometheus.Desc, value float64, label string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, label)
	}
	for _, s := range view.PriceSources() {
		age, failing, doubted := math.Inf(1), 0.0, 0
		if s.GetReadUnixMs() != 0 {
			age = max(now.Sub(time.UnixMilli(s.GetReadUnixMs())).Seconds(), 0)
		}
		if s.GetStanding() == string(pricelist.Failing) {
			failing = 1
		}
		for _, o := range s.GetOffers() {
			if o.GetDoubt() != nil {
				doubted++
			}
		}
		gauge(m.age, age, s.GetName())
		gauge(m.failing, failing, s.GetName())
		gauge(m.offers, float64(len(s.GetOffers())), s.GetName())
		gauge(m.doubted, float64(doubted), s.GetName())
	}
	clusters := Clusters(view, view.Offers(), now)
	for _, c := range clusters[:min(len(clusters), maxShown)] {
		if cost, ok := c.PerGPUHour(); ok {
			gauge(m.gpuHour, cost.USD(), string(c.ID))
		}
	}
}
