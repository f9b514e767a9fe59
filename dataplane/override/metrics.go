package override

import (
	"github.com/prometheus/client_golang/prometheus"
)

// register makes the metrics.
func (b *Book) register(r prometheus.Registerer) error {
	for _, kind := range Kinds {
		g := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "anabranch_override_orders",
			Help:        "Emergency orders given to this router that have not expired, by kind.",
			ConstLabels: prometheus.Labels{"kind": string(kind)},
		}, func() float64 { return float64(b.count(kind)) })
		if err := r.Register(g); err != nil {
			return err
		}
	}
	return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "anabranch_override_problems",
		Help: "What is wrong with the file and the socket by which orders are given; see the status page.",
	}, func() float64 { return float64(len(b.Status().Problems)) }))
}

func (b *Book) count(kind Kind) int {
	n := 0
	for _, o := range b.Current().Orders() {
		if o.Kind == kind {
			n++
		}
	}
	return n
}
