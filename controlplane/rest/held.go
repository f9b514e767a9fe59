package rest

import (
	"slices"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
)

// heldTables are the tables that routers obey, by region, and how many of them obey each. A rollout, a freeze, or a router
// that is cut off leaves some with another table than the one in force.
type heldTables map[fleet.RegionID]map[*heldTable]int

// heldTable is a table by what its weights are for.
type heldTable struct {
	table  *routerpb.Table
	shares map[weightKey]map[string]float64 // by cluster; made when first needed
}

// weightKey is what weights are for.
type weightKey struct{ model, class, source string }

func keyOf(w *routerpb.Weights) weightKey {
	return weightKey{w.GetModel(), w.GetClass(), w.GetSource()}
}

// heldTables looks up what each router that has been heard of lately obeys, among the tables that are kept.
func (n standing) heldTables() heldTables {
	type number struct{ epoch, revision uint64 }
	known := map[number]*heldTable{}
	for _, t := range slices.Concat(n.view.Tables(), []*routerpb.Table{n.view.Table()}) {
		if t != nil {
			known[number{t.GetRef().GetEpoch(), t.GetRef().GetRevision()}] = &heldTable{table: t}
		}
	}
	out := heldTables{}
	for _, o := range n.signals.Routers {
		ref := appliedBy(o)
		t := known[number{ref.GetEpoch(), ref.GetRevision()}]
		if t == nil || o.Freshness(n.signals.At) == signal.Absent {
			continue
		}
		if out[o.Region()] == nil {
			out[o.Region()] = map[*heldTable]int{}
		}
		out[o.Region()][t]++
	}
	return out
}

// share is what part of a demand the routers of its source send to a cluster, by the tables that they hold; -1: nobody
// says which those are.
func (h heldTables) share(w *routerpb.Weights, c *routerpb.ClusterWeight) float64 {
	sum, routers := 0.0, 0
	for t, n := range h[fleet.RegionID(w.GetSource())] {
		sum += float64(n) * t.share(keyOf(w), c.GetCluster())
		routers += n
	}
	if routers == 0 {
		return -1
	}
	return sum / float64(routers)
}

func (t *heldTable) share(key weightKey, cluster string) float64 {
	if t.shares == nil {
		t.shares = map[weightKey]map[string]float64{}
		for _, w := range t.table.GetWeights() {
			of := map[string]float64{}
			for _, c := range w.GetClusters() {
				of[c.GetCluster()] = c.GetWeight()
			}
			t.shares[keyOf(w)] = of
		}
	}
	return t.shares[key][cluster]
}
