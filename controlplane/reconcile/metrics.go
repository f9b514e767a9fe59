package reconcile

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// maxShown bounds the kinds of instances whose drift is a metric: the first by region and type.
const maxShown = 200

// drift shows the newest day, on all nodes.
type drift struct {
	billed             func() []*statepb.BilledDay
	ratio, day, paying *prometheus.Desc
}

func (r *Reconciler) register() error {
	r.failures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "anabranch_reconcile_failures_total", Help: "Bills that this node, as leader, asked for in vain or could not commit.",
	})
	if r.o.Registerer == nil {
		return nil
	}
	of := []string{"region", "instance"}
	return errors.Join(r.o.Registerer.Register(r.failures), r.o.Registerer.Register(&drift{
		billed: func() []*statepb.BilledDay { return r.o.View().Billed() },
		ratio: prometheus.NewDesc("anabranch_reconcile_drift_ratio",
			"How much more was billed than counted on the newest day, as a part of what was counted; missing: nothing was counted.", of, nil),
		paying: prometheus.NewDesc("anabranch_reconcile_billed_dollars", "What was billed for the newest day.", of, nil),
		day:    prometheus.NewDesc("anabranch_reconcile_day_timestamp_seconds", "Start of the newest day of which it is known what was billed.", nil, nil),
	}))
}

// Describe implements [prometheus.Collector].
func (d *drift) Describe(to chan<- *prometheus.Desc) { to <- d.ratio; to <- d.day; to <- d.paying }

// Collect implements [prometheus.Collector].
func (d *drift) Collect(to chan<- prometheus.Metric) {
	days := d.billed()
	if len(days) == 0 {
		return
	}
	last := days[len(days)-1]
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(d.day, float64(last.GetDayUnixS()))
	for _, g := range last.GetGoods()[:min(len(last.GetGoods()), maxShown)] {
		gauge(d.paying, costmodel.Micros(g.GetBilledMicros()).USD(), g.GetRegion(), g.GetInstance())
		one := costmodel.Drift{Billed: costmodel.Micros(g.GetBilledMicros()), Counted: costmodel.Micros(g.GetCountedMicros())}
		if ratio, ok := one.Ratio(); ok {
			gauge(d.ratio, ratio, g.GetRegion(), g.GetInstance())
		}
	}
}
