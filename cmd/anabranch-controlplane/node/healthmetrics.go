package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/failover"
)

// mostPlaces bounds the series of the health of models; beyond it only clusters as a whole are told.
const mostPlaces = 5000

var (
	healthState = prometheus.NewDesc("anabranch_controlplane_health_state",
		"Health of a model on a cluster, from good to bad: 0 HEALTHY, 1 DEGRADED, 2 PINNED, 3 RAMPING, 4 RECOVERING, 5 SUSPECT, 6 not judged yet, 7 FROZEN, 8 DRAINING, 9 DRAINED, 10 FAILING_OVER, 11 EVACUATED. Without a model, of the cluster as a whole, for which its best model stands.",
		[]string{"cluster", "model"}, nil)
	healthCap = prometheus.NewDesc("anabranch_controlplane_health_cap",
		"Share 0 to 1 of its weight that the health of a model on a cluster allows, by the table in force; without a model, of the cluster as a whole.",
		[]string{"cluster", "model"}, nil)
)

// healthMetrics tells the health of every cluster of the configuration, and of each of its models, as the state has
// it when it is asked.
type healthMetrics struct {
	view func() *state.View
	most int // models on clusters that are told apart
}

// Describe implements [prometheus.Collector].
func (healthMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- healthState
	to <- healthCap
}

// Collect implements [prometheus.Collector].
func (h healthMetrics) Collect(to chan<- prometheus.Metric) {
	view := h.view()
	clusters, places := view.List(policy.KindCluster), 0
	for _, c := range clusters {
		places += len(c.Spec.(*policy.ClusterSpec).Models)
	}
	table := map[string]int{}
	for i, c := range view.Table().GetClusters() {
		table[c.GetId()] = i
	}
	for _, c := range clusters {
		name := c.Metadata.Name
		models := []string{""}
		if places <= h.most {
			models = append(models, c.Spec.(*policy.ClusterSpec).Models...)
		}
		for _, m := range models {
			is := failover.State("UNKNOWN")
			if found, known := view.HealthOf(name, m); known {
				is = failover.State(found.GetState())
			}
			to <- prometheus.MustNewConstMetric(healthState, prometheus.GaugeValue, float64(failover.Severity(is)), name, m)
			if i, there := table[name]; there {
				to <- prometheus.MustNewConstMetric(healthCap, prometheus.GaugeValue, plan.HealthCap(view.Table().GetClusters()[i], fleet.ModelID(m)), name, m)
			}
		}
	}
}
