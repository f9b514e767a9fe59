package publish

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"anabranch/api/delta"
	"anabranch/api/routerpb"
)

// metrics of what goes over the streams. The zero value keeps nothing.
type metrics struct {
	tables, bytes, answers *prometheus.CounterVec
	moved, foreign         prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	if r == nil {
		return &metrics{}, nil
	}
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "anabranch_controlplane_" + name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	m := &metrics{
		tables:  counters("tables_sent_total", "Routing tables sent to routers, whole or as what differs.", "as", "whole", "delta"),
		bytes:   counters("tables_sent_bytes_total", "Bytes of these before compression and framing.", "as", "whole", "delta"),
		answers: counters("table_answers_total", "Answers of routers to tables; misfits are deltas that they could not use.", "answer", "taken", "refused", "misfit"),
		moved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_controlplane_router_streams_moved_total",
			Help: "Streams that were ended so that their routers spread over the nodes.",
		}),
	}
	m.foreign = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "anabranch_controlplane_foreign_signals_total",
		Help: "Signals of routers that told the load of clusters of another region, of which that was left out.",
	})
	for _, c := range []prometheus.Collector{m.tables, m.bytes, m.answers, m.moved, m.foreign} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) count(sent *routerpb.ToRouter) {
	if m.tables == nil {
		return
	}
	as := "whole"
	if sent.GetDelta() != nil {
		as = "delta"
	}
	m.tables.WithLabelValues(as).Inc()
	m.bytes.WithLabelValues(as).Add(float64(proto.Size(sent)))
}

func (m *metrics) answered(ack *routerpb.Ack) {
	if m.answers == nil {
		return
	}
	answer := "refused"
	switch {
	case ack.GetOk():
		answer = "taken"
	case ack.GetCode() == delta.CodeBase || ack.GetCode() == delta.CodeDigest:
		answer = "misfit"
	}
	m.answers.WithLabelValues(answer).Inc()
}

func (m *metrics) struck(signals int) {
	if m.foreign != nil {
		m.foreign.Add(float64(signals))
	}
}
