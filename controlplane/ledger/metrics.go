package ledger

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of what this node brings into the ledger.
type metrics struct {
	messages, failures, dropped prometheus.Counter
}

func newMetrics() metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "anabranch", Subsystem: "controlplane", Name: name, Help: help})
	}
	return metrics{
		messages: counter("ledger_messages_total", "Messages of routers about money spent that this node had counted."),
		failures: counter("ledger_failures_total", "Commands with such messages that this node could not commit; they are proposed again."),
		dropped:  counter("ledger_dropped_total", "Such messages that found no room on this node; routers send them again."),
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	return errors.Join(r.Register(m.messages), r.Register(m.failures), r.Register(m.dropped))
}
