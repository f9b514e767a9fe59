package plan

import (
	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
)

// MovedShare is the part, 0..1, of all traffic that another table takes away from the clusters where it
// goes now. Demands count by the work that routers report, and all alike while none is reported. What
// is new moves nothing; what is gone counts whole.
func MovedShare(before, after *routerpb.Table, signals signal.Snapshot) float64 {
	taken := map[[3]string]float64{}
	for _, m := range Moves(before, after, signals) {
		for _, c := range m.Clusters {
			taken[[3]string{string(m.Model), string(m.Class), string(m.Source)}] += max(c.From-c.To, 0)
		}
	}
	var moved, all, movedIdle, demands float64
	for _, w := range before.GetWeights() {
		work := signals.Demand(fleet.ModelID(w.GetModel()), fleet.ClassID(w.GetClass()), fleet.RegionID(w.GetSource())).WorkPerS
		part := min(taken[[3]string{w.GetModel(), w.GetClass(), w.GetSource()}], 1)
		moved, all = moved+work*part, all+work
		movedIdle, demands = movedIdle+part, demands+1
	}
	switch {
	case demands == 0:
		return 0
	case all <= 0:
		return movedIdle / demands
	}
	return moved / all
}
