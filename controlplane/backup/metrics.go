package backup

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	ageOf = prometheus.NewDesc("anabranch_controlplane_backup_age_seconds",
		"Time since the newest good backup at a place; +Inf: there is none. Only the leader knows.", []string{"place"}, nil)
	goodOf = prometheus.NewDesc("anabranch_controlplane_backups_total",
		"Good backups that this node has brought to a place.", []string{"place"}, nil)
	failuresOf = prometheus.NewDesc("anabranch_controlplane_backup_failures_total",
		"Backups to a place that failed on this node.", []string{"place"}, nil)
)

// Describe names the metrics; a Schedule is a prometheus.Collector.
func (s *Schedule) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ageOf, goodOf, failuresOf} {
		out <- d
	}
}

// Collect tells how each place stands.
func (s *Schedule) Collect(out chan<- prometheus.Metric) {
	now := s.o.Now()
	for _, p := range s.o.Places {
		g, place := s.of(p), p.String()
		out <- prometheus.MustNewConstMetric(goodOf, prometheus.CounterValue, float64(g.good), place)
		out <- prometheus.MustNewConstMetric(failuresOf, prometheus.CounterValue, float64(g.failures), place)
		if !g.known {
			continue
		}
		age := math.Inf(1)
		if !g.last.IsZero() {
			age = now.Sub(g.last).Seconds()
		}
		out <- prometheus.MustNewConstMetric(ageOf, prometheus.GaugeValue, age, place)
	}
}
