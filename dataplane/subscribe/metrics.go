package subscribe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/delta"
)

// metrics of the client. The codes of refusals are fixed words.
type metrics struct {
	taken   prometheus.Counter
	refused *prometheus.CounterVec
}

// newMetrics makes the metrics and registers them with r unless it is nil.
func newMetrics(r prometheus.Registerer, c *Client) (*metrics, error) {
	m := &metrics{
		taken: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "anabranch_router_tables_taken_total",
			Help: "Routing tables that were put in force, from the control plane, the disk or by order.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_router_tables_refused_total",
			Help: "Routing tables that the control plane pushed and this router did not take, by code.",
		}, []string{"code"}),
	}
	for _, code := range []string{CodeOtherCluster, CodeOlder, CodeInvalid, CodeCrashLoop, CodeFrozen, CodeOtherRegion, delta.CodeBase, delta.CodeDigest} {
		m.refused.WithLabelValues(code) // what can be asked for is there, at 0
	}
	if r == nil {
		return m, nil
	}
	connected := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_router_control_connected",
		Help: "1 while a stream to a control plane node lives.",
	}, func() float64 {
		if c.Status().Connected {
			return 1
		}
		return 0
	})
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_router_control_contact_age_seconds",
		Help: "Time since the control plane was last heard, or since what is known of it was saved; -1: never heard.",
	}, func() float64 {
		at := c.contacted()
		if at.IsZero() {
			return -1
		}
		return max(0, time.Since(at).Seconds())
	})
	spending := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_router_spending_wait_seconds",
		Help: "Time for which charges to budgets of money have waited for the control plane to count them; 0: none have.",
	}, func() float64 { return c.purse.waiting(time.Now()).Seconds() })
	usage := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_router_usage_unacknowledged_seconds",
		Help: "Time for which the last message on what clients used has waited for the control plane to have it in its account; 0: none does.",
	}, func() float64 { return c.parcel.waiting(time.Now()).Seconds() })
	for _, x := range []prometheus.Collector{m.taken, m.refused, connected, age, spending, usage} {
		if err := r.Register(x); err != nil {
			return nil, err
		}
	}
	return m, nil
}
