package usage

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	messages, failures, dropped, unknown prometheus.Counter
	tokens                               *prometheus.CounterVec
}

// newMetrics makes the metrics and registers them with r unless it is nil.
func newMetrics(r prometheus.Registerer, waiting func() int) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		messages: counter("anabranch_controlplane_usage_messages_total", "Messages of routers about what was used that this node had counted."),
		failures: counter("anabranch_controlplane_usage_failures_total", "Commands with what was used that this node could not commit; they are proposed again."),
		dropped:  counter("anabranch_controlplane_usage_dropped_total", "Messages of routers about what was used that found no room on this node; routers send them again."),
		unknown:  counter("anabranch_controlplane_usage_unknown_names_total", "Names in what was used that are in no table that is kept; it is counted for (other)."),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_controlplane_usage_tokens_total",
			Help: "Input and output tokens that this node had counted, by who told of them: a model server, or a router by estimate.",
		}, []string{"told_by"}),
	}
	m.tokens.WithLabelValues("model_server")
	m.tokens.WithLabelValues("estimate")
	if r == nil {
		return m, nil
	}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_controlplane_usage_waiting",
		Help: "Messages of routers about what was used that wait on this node to be counted.",
	}, func() float64 { return float64(waiting()) })
	for _, x := range []prometheus.Collector{m.messages, m.failures, m.dropped, m.unknown, m.tokens, gauge} {
		if err := r.Register(x); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// counted takes in a command that is committed.
func (m *metrics) counted(b *batch) {
	m.messages.Add(float64(len(b.command.GetRuns())))
	m.unknown.Add(float64(b.unknown))
	m.tokens.WithLabelValues("estimate").Add(float64(b.estimated))
	m.tokens.WithLabelValues("model_server").Add(float64(b.tokens - b.estimated))
}
