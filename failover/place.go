package failover

import (
	"cmp"
	"slices"

	"anabranch/api/fleet"
)

// Place is one model on one cluster, which is what health is judged of. With an empty Model it is
// the cluster as a whole: what is known of it so holds for each of its models of which nothing else
// is known.
type Place struct {
	Cluster fleet.ClusterID
	Model   fleet.ModelID
}

// String is the cluster, and the model after a slash if there is one.
func (p Place) String() string {
	if p.Model == "" {
		return string(p.Cluster)
	}
	return string(p.Cluster) + "/" + string(p.Model)
}

// ComparePlaces orders by cluster, then by model.
func ComparePlaces(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Model, b.Model))
}

// Of is the health of a place: what is known of the model there, else what is known of the cluster as
// a whole. A place of which nothing is known has the zero Cluster, which counts as healthy.
func Of(all map[Place]Cluster, at Place) Cluster {
	if c, ok := all[at]; ok {
		return c
	}
	return all[Place{Cluster: at.Cluster}]
}

// severities are the states from good to bad, for people. UNKNOWN is what the control plane has not judged yet.
var severities = []State{Healthy, Degraded, Pinned, Ramping, Recovering, Suspect, "UNKNOWN", Frozen, Draining, Drained, FailingOver, Evacuated}

// Severity counts states from 0, HEALTHY, to 11, EVACUATED, so that the worst of several can be told: HEALTHY,
// DEGRADED, PINNED, RAMPING, RECOVERING, SUSPECT, UNKNOWN, FROZEN, DRAINING, DRAINED, FAILING_OVER, EVACUATED. One of a
// newer version counts as UNKNOWN; the empty one is healthy.
func Severity(s State) int {
	if s == "" {
		return 0
	}
	if i := slices.Index(severities, s); i >= 0 {
		return i
	}
	return slices.Index(severities, "UNKNOWN")
}

// goodness orders states of equal cap from the best to the worst, for [Summary].
var goodness = []State{"", Healthy, Pinned, Ramping, Degraded, Suspect, Frozen, FailingOver, Recovering, Draining, Evacuated, Drained}

// Summary is the health of each cluster as a whole: that of the model there that may take most of its
// weight, and of these of the one in the best state. Whoever knows health by cluster only leaves no
// place by it that works.
func Summary(all map[Place]Cluster) map[fleet.ClusterID]Cluster {
	best := make(map[fleet.ClusterID]Place, len(all))
	for at := range all {
		was, known := best[at.Cluster]
		if !known || better(all, at, was) {
			best[at.Cluster] = at
		}
	}
	out := make(map[fleet.ClusterID]Cluster, len(best))
	for id, at := range best {
		out[id] = all[at]
	}
	return out
}

// better says whether one place is healthier than another. It is a strict order, whatever the order of a map.
func better(all map[Place]Cluster, a, b Place) bool {
	x, y := all[a], all[b]
	return cmp.Or(
		cmp.Compare(y.Cap(), x.Cap()),
		cmp.Compare(rank(x.State), rank(y.State)),
		ComparePlaces(a, b),
	) < 0
}

// rank of a state of a newer version is the last.
func rank(s State) int {
	if i := slices.Index(goodness, s); i >= 0 {
		return i
	}
	return len(goodness)
}
