package drill

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// Metrics of the drill under way, on the node that leads. A nil Metrics counts nothing.
type Metrics struct {
	state  *prometheus.GaugeVec
	since  prometheus.Gauge
	aborts *prometheus.CounterVec
	ended  *prometheus.CounterVec
}

// NewMetrics makes them.
func NewMetrics() *Metrics {
	return &Metrics{
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "anabranch_drill_state", Help: "1 for the state of the drill under way; nothing while there is none.",
		}, []string{"state"}),
		since: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "anabranch_drill_state_seconds", Help: "How long the drill under way has been in its state; 0 while there is none.",
		}),
		aborts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_drill_rollbacks_total", Help: "Drills that were rolled back before their end, by cause.",
		}, []string{"cause"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_drills_total", Help: "Drills that ended while this node led, by outcome.",
		}, []string{"outcome"}),
	}
}

// Register shows them.
func (m *Metrics) Register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	return errors.Join(r.Register(m.state), r.Register(m.since), r.Register(m.aborts), r.Register(m.ended))
}

func (m *Metrics) show(d *statepb.Drill, now time.Time) {
	if m == nil {
		return
	}
	m.state.Reset()
	if d == nil {
		m.since.Set(0)
		return
	}
	m.state.WithLabelValues(d.GetState()).Set(1)
	m.since.Set(max(now.Sub(time.UnixMilli(d.GetStateUnixMs())).Seconds(), 0))
}

func (m *Metrics) moved(s *statepb.SteerDrill) {
	switch {
	case m == nil:
	case s.GetState() == string(drill.RollingBack):
		m.aborts.WithLabelValues(s.GetCause()).Inc()
	case s.GetState() == string(drill.Done):
		m.ended.WithLabelValues(s.GetOutcome()).Inc()
	}
}
