package inquiry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of what is asked at this node. The zero value keeps nothing.
type metrics struct {
	took      *prometheus.HistogramVec
	tails     prometheus.Gauge
	decisions *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	if r == nil {
		return &metrics{}, nil
	}
	m := &metrics{
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "anabranch_controlplane_explain_seconds",
			Help:    "Time until a router had said what became of a request, by whether it knew it, or until there was no answer.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 3},
		}, []string{"answer"}),
		tails: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "anabranch_controlplane_decision_tails", Help: "Tails of decisions that are followed at this node.",
		}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_controlplane_decisions_total", Help: "Records of requests that routers had for the tails followed at this node.",
		}, []string{"as"}),
	}
	for _, as := range []string{"told", "dropped"} {
		m.decisions.WithLabelValues(as)
	}
	for _, c := range []prometheus.Collector{m.took, m.tails, m.decisions} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) explained(took time.Duration, e Explanation, err error) {
	if m.took == nil {
		return
	}
	answer := "known"
	switch {
	case err != nil:
		answer = "none"
	case len(e.Record) == 0:
		answer = "unknown"
	}
	m.took.WithLabelValues(answer).Observe(took.Seconds())
}

func (m *metrics) followers(more float64) {
	if m.tails != nil {
		m.tails.Add(more)
	}
}

func (m *metrics) told(records int, dropped uint64) {
	if m.decisions == nil {
		return
	}
	m.decisions.WithLabelValues("told").Add(float64(records))
	m.decisions.WithLabelValues("dropped").Add(float64(dropped))
}
