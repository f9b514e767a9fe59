package usage

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	folded, coarsened prometheus.Counter
}

// newMetrics makes the metrics and registers them with r unless it is nil.
func newMetrics(r prometheus.Registerer, c *Counter) (*metrics, error) {
	m := &metrics{
		folded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_router_usage_folded_total",
			Help: "Times that use was counted for no tenant in particular, since there were more tenants, models, classes and clusters than are told apart.",
		}),
		coarsened: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_router_usage_coarsened_total",
			Help: "Minutes of use that became part of an hour or a day, and hours that lost their tenants, since the control plane has not taken them.",
		}),
	}
	if r == nil {
		return m, nil
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_router_usage_waiting_lines",
		Help: "Lines of use in minutes that are over, by tenant, model, class and cluster, that wait for the control plane.",
	}, func() float64 {
		lines, _ := c.waiting()
		return float64(lines)
	})
	oldest := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_router_usage_waiting_seconds",
		Help: "Age of the oldest use that waits for the control plane; 0: none does.",
	}, func() float64 {
		_, oldest := c.waiting()
		if oldest == 0 {
			return 0
		}
		return max(0, float64(c.now().Unix()-oldest))
	})
	for _, x := range []prometheus.Collector{m.folded, m.coarsened, waiting, oldest} {
		if err := r.Register(x); err != nil {
			return nil, err
		}
	}
	return m, nil
}
