package plan

import (
	"cmp"
	"math"
	"slices"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
)

// Move is what two tables do differently with the traffic of one model and class from one region.
type Move struct {
	Model  fleet.ModelID  `json:"model"`
	Class  fleet.ClassID  `json:"class"`
	Source fleet.RegionID `json:"source"`
	// WorkPerS is how much traffic that is, in work units per second; 0: none, or none reported.
	WorkPerS float64 `json:"workPerS"`
	// Clusters are those whose share differs, by id.
	Clusters []ShareMove `json:"clusters"`
}

// ShareMove is a cluster's share of some traffic in two tables, 0..1; 0 where it has none.
type ShareMove struct {
	Cluster fleet.ClusterID `json:"cluster"`
	From    float64         `json:"from"`
	To      float64         `json:"to"`
}

// leastMove is the least difference of shares that counts: that of rounding.
const leastMove = 1e-4

// Moves compares the weights of two tables, in the order of models, classes and regions. Either may be
// nil: all is new, or gone.
func Moves(before, after *routerpb.Table, signals signal.Snapshot) []Move {
	type key struct {
		model, class, source string
	}
	type pair struct{ from, to map[string]float64 }
	all := map[key]*pair{}
	of := func(w *routerpb.Weights) *pair {
		k := key{w.GetModel(), w.GetClass(), w.GetSource()}
		if all[k] == nil {
			all[k] = &pair{}
		}
		return all[k]
	}
	for _, w := range before.GetWeights() {
		of(w).from = shares(w)
	}
	for _, w := range after.GetWeights() {
		of(w).to = shares(w)
	}
	moves := []Move{}
	for k, p := range all {
		m := Move{Model: fleet.ModelID(k.model), Class: fleet.ClassID(k.class), Source: fleet.RegionID(k.source), Clusters: moved(p.from, p.to)}
		if len(m.Clusters) == 0 {
			continue
		}
		m.WorkPerS = signals.Demand(m.Model, m.Class, m.Source).WorkPerS
		moves = append(moves, m)
	}
	slices.SortFunc(moves, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Source, b.Source))
	})
	return moves
}

// Totals are the clusters' shares of all traffic that is reported, in two tables, and of all demands
// alike while none is: those that differ, by id.
func Totals(before, after *routerpb.Table, signals signal.Snapshot) []ShareMove {
	work := func(w *routerpb.Weights) float64 {
		return signals.Demand(fleet.ModelID(w.GetModel()), fleet.ClassID(w.GetClass()), fleet.RegionID(w.GetSource())).WorkPerS
	}
	idle := true
	for _, w := range slices.Concat(before.GetWeights(), after.GetWeights()) {
		idle = idle && work(w) <= 0
	}
	total := func(t *routerpb.Table) map[string]float64 {
		sum, out := 0.0, map[string]float64{}
		for _, w := range t.GetWeights() {
			part := 1.0
			if !idle {
				part = work(w)
			}
			for c, share := range shares(w) {
				out[c] += share * part
				sum += share * part
			}
		}
		for c := range out {
			out[c] /= max(sum, math.SmallestNonzeroFloat64)
		}
		return out
	}
	return moved(total(before), total(after))
}

// shares of one list of weights, which sum to 1 where there is anything at all.
func shares(w *routerpb.Weights) map[string]float64 {
	sum := 0.0
	for _, c := range w.GetClusters() {
		sum += c.GetWeight()
	}
	out := map[string]float64{}
	for _, c := range w.GetClusters() {
		if sum > 0 {
			out[c.GetCluster()] = c.GetWeight() / sum
		}
	}
	return out
}

// moved are the shares that differ.
func moved(from, to map[string]float64) []ShareMove {
	out := []ShareMove{}
	add := func(c string) {
		if math.Abs(from[c]-to[c]) >= leastMove {
			out = append(out, ShareMove{fleet.ClusterID(c), rounded(from[c]), rounded(to[c])})
		}
	}
	for c := range from {
		add(c)
	}
	for c := range to {
		if _, both := from[c]; !both {
			add(c)
		}
	}
	slices.SortFunc(out, func(a, b ShareMove) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}

// rounded to what shares are published in.
func rounded(share float64) float64 { return math.Round(share*1e4) / 1e4 }
