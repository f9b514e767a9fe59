package collect

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/controlplane/signal"
)

// metrics tells what polls find, and how old it is.
type metrics struct {
	sources func() []signal.Source
	now     func() time.Time

	polls    *prometheus.CounterVec
	duration prometheus.Histogram

	known, age, silent *prometheus.Desc
}

func newMetrics(sources func() []signal.Source, now func() time.Time) *metrics {
	const prefix = "anabranch_collect_"
	return &metrics{
		sources: sources, now: now,
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "polls_total", Help: "Polls of clusters by this node, by result: ok, timeout, no_page, too_large or error.",
		}, []string{"cluster", "result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "poll_duration_seconds", Help: "How long polls took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		known:  prometheus.NewDesc(prefix+"sources", "Sources that this node knows, by whether it polls them.", []string{"polled"}, nil),
		age:    prometheus.NewDesc(prefix+"answer_age_seconds", "Age of the oldest last answer of the sources of a cluster that this node polls; missing: one has not answered yet.", []string{"cluster"}, nil),
		silent: prometheus.NewDesc(prefix+"sources_silent", "Sources of a cluster that this node polls and that have not answered several polls in a row.", []string{"cluster"}, nil),
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	return errors.Join(r.Register(m.polls), r.Register(m.duration), r.Register(m))
}

func (m *metrics) polled(cluster fleet.ClusterID, err error, took time.Duration) {
	m.polls.WithLabelValues(string(cluster), result(err)).Inc()
	m.duration.Observe(took.Seconds())
}

// gone forgets a cluster.
func (m *metrics) gone(cluster fleet.ClusterID) {
	m.polls.DeletePartialMatch(prometheus.Labels{"cluster": string(cluster)})
}

// Describe names the metrics that are made when they are asked for.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.known, m.age, m.silent} {
		to <- d
	}
}

// Collect makes them.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	now := m.now()
	polled, others := 0, 0
	ages, silent := map[fleet.ClusterID]time.Duration{}, map[fleet.ClusterID]int{}
	for _, s := range m.sources() {
		if !s.Active {
			others++
			continue
		}
		polled++
		age, known := ages[s.Cluster]
		switch mine := s.Age(now); {
		case mine < 0 || age < 0:
			ages[s.Cluster] = -1
		case !known || mine > age:
			ages[s.Cluster] = mine
		}
		if s.Failures >= signal.FailedPolls {
			silent[s.Cluster]++
		}
	}
	gauge := func(d *prometheus.Desc, v float64, label string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, label)
	}
	gauge(m.known, float64(polled), "true")
	gauge(m.known, float64(others), "false")
	for cluster, age := range ages {
		if age >= 0 {
			gauge(m.age, age.Seconds(), string(cluster))
		}
		gauge(m.silent, float64(silent[cluster]), string(cluster))
	}
}
