package override

import (
	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/order"
)

// register makes the metrics.
func (b *Book) register(r prometheus.Registerer) error {
	for _, kind := range order.Kinds {
		for _, door := range order.Doors {
			g := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name:        "anabranch_emergency_orders",
				Help:        "Emergency orders that this router has and that have not expired, by kind and the door that they came by.",
				ConstLabels: prometheus.Labels{"kind": string(kind), "door": door},
			}, func() float64 { return float64(b.count(kind, door)) })
			if err := r.Register(g); err != nil {
				return err
			}
		}
	}
	return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_override_problems",
		Help: "What is wrong with the doors by which orders are given; see the status page.",
	}, func() float64 { return float64(len(b.Status().Problems)) }))
}

func (b *Book) count(kind Kind, door string) int {
	n := 0
	for _, o := range b.Current().Given() {
		if o.Kind == kind && o.Door == door {
			n++
		}
	}
	return n
}
