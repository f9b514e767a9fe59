package discover

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
)

// maxError bounds what a status says of an error, in bytes.
const maxError = 512

// Status is how discovery stands with one cluster.
type Status struct {
	Cluster fleet.ClusterID `json:"cluster"`
	// Kind, Name and Namespace are where it looks, as in the table.
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	// Endpoints of the list in force.
	Endpoints int `json:"endpoints"`
	// Looked is when a look last succeeded, zero: never; AgeSeconds is how long ago that is.
	Looked     time.Time `json:"looked,omitzero"`
	AgeSeconds float64   `json:"ageSeconds"`
	// Failures counts looks in vain, Changes those that brought another list.
	Failures uint64 `json:"failures"`
	Changes  uint64 `json:"changes"`
	// Error is why the last look was in vain. Empty: it wasn't.
	Error string `json:"error,omitempty"`
}

// Status tells how each source stands, by name of cluster.
func (d *Discoverer) Status() []Status {
	now := d.opt.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]Status, 0, len(d.watches))
	for id, w := range d.watches {
		if !w.wanted {
			continue
		}
		s := Status{
			Cluster: id, Kind: w.spec.Kind, Name: w.spec.Name, Namespace: w.spec.Namespace,
			Endpoints: len(w.list), Looked: w.looked, Failures: w.failures, Changes: w.changes,
		}
		if !w.looked.IsZero() {
			s.AgeSeconds = max(0, now.Sub(w.looked).Seconds())
		}
		if w.err != nil {
			s.Error = w.err.Error()
			if len(s.Error) > maxError {
				s.Error = strings.ToValidUTF8(s.Error[:maxError], "") + "…"
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Status) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}

// The metrics, by cluster and kind. Both are words of the table.
var (
	labels   = []string{"cluster", "kind"}
	countOf  = prometheus.NewDesc("anabranch_discovery_endpoints", "Endpoints of the list in force.", labels, nil)
	ageOf    = prometheus.NewDesc("anabranch_discovery_age_seconds", "Time since a look last succeeded; absent before the first.", labels, nil)
	failedOf = prometheus.NewDesc("anabranch_discovery_failures_total", "Looks that failed and left the last list in force.", labels, nil)
	changeOf = prometheus.NewDesc("anabranch_discovery_changes_total", "Times that the list changed.", labels, nil)
)

// collector makes the metrics from the status, so that clusters that leave take theirs along.
type collector struct{ d *Discoverer }

// Describe implements [prometheus.Collector].
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{countOf, ageOf, failedOf, changeOf} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.d.Status() {
		tell := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
			out <- prometheus.MustNewConstMetric(d, kind, v, string(s.Cluster), s.Kind)
		}
		tell(countOf, prometheus.GaugeValue, float64(s.Endpoints))
		if !s.Looked.IsZero() {
			tell(ageOf, prometheus.GaugeValue, s.AgeSeconds)
		}
		tell(failedOf, prometheus.CounterValue, float64(s.Failures))
		tell(changeOf, prometheus.CounterValue, float64(s.Changes))
	}
}
