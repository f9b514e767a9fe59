package leader

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover"
)

// modelHealthLevel is the feature level from which on all nodes keep health by model.
const modelHealthLevel = 6

// restored reads the health that earlier leaders committed. How far a failover in steps has come
// stands in the table, which was committed with it.
func restored(view *state.View) map[failover.Place]failover.Cluster {
	config := plan.FailoverConfig(view)
	clusters := map[string]*routerpb.Cluster{}
	for _, c := range view.Table().GetClusters() {
		clusters[c.GetId()] = c
	}
	out := map[failover.Place]failover.Cluster{}
	read := func(at failover.Place, h *statepb.ClusterHealth) {
		out[at] = failover.Cluster{
			State:       failover.State(h.GetState()),
			Since:       timeOf(h.GetSinceUnixMs()),
			Reason:      h.GetReason(),
			RampStep:    int(h.GetRampStep()),
			Relapses:    int(h.GetRelapses()),
			EvacuatedAt: timeOf(h.GetEvacuatedUnixMs()),
			LastRelapse: timeOf(h.GetLastRelapseUnixMs()),
			Share:       plan.HealthCap(clusters[string(at.Cluster)], at.Model),
		}.Resume(config(at))
	}
	for _, h := range view.Health() {
		read(failover.Place{Cluster: fleet.ClusterID(h.GetCluster()), Model: fleet.ModelID(h.GetModel())}, h)
	}
	return out
}

// replicated writes health for the next leader, and for people; sorted by cluster. Most models of a cluster fare
// alike: one entry without a model tells how the best of them fares, and others follow where they differ, if all
// nodes keep them.
func replicated(health map[failover.Place]failover.Cluster, level uint32) []*statepb.ClusterHealth {
	whole := failover.Summary(health)
	out, of := make([]*statepb.ClusterHealth, 0, len(whole)), make(map[fleet.ClusterID]*statepb.ClusterHealth, len(whole))
	for _, id := range slices.Sorted(maps.Keys(whole)) {
		of[id] = healthProto(failover.Place{Cluster: id}, whole[id])
		out = append(out, of[id])
	}
	if level < modelHealthLevel {
		return out
	}
	for at, c := range health {
		h := healthProto(failover.Place{Cluster: at.Cluster}, c)
		if at.Model != "" && !proto.Equal(h, of[at.Cluster]) {
			h.Model = string(at.Model)
			out = append(out, h)
		}
	}
	slices.SortFunc(out, compareHealth)
	return out
}

func compareHealth(a, b *statepb.ClusterHealth) int {
	return cmp.Or(cmp.Compare(a.GetCluster(), b.GetCluster()), cmp.Compare(a.GetModel(), b.GetModel()))
}

func healthProto(at failover.Place, c failover.Cluster) *statepb.ClusterHealth {
	h := &statepb.ClusterHealth{
		Cluster:           string(at.Cluster),
		Model:             string(at.Model),
		State:             string(c.State),
		SinceUnixMs:       unixMs(c.Since),
		Reason:            c.Reason,
		Relapses:          uint32(max(c.Relapses, 0)),
		EvacuatedUnixMs:   unixMs(c.EvacuatedAt),
		LastRelapseUnixMs: unixMs(c.LastRelapse),
	}
	if c.State == failover.Ramping {
		h.RampStep = uint32(max(c.RampStep, 0))
	}
	return h
}

func sameHealth(a, b []*statepb.ClusterHealth) bool {
	return slices.EqualFunc(a, b, func(a, b *statepb.ClusterHealth) bool { return proto.Equal(a, b) })
}

// unixMs and timeOf keep the zero time zero.
func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
