package leader

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover"
)

// restored reads the health that earlier leaders committed. How far a failover in steps has come
// stands in the table, which was committed with it.
func restored(view *state.View) map[fleet.ClusterID]failover.Cluster {
	config := plan.FailoverConfig(view)
	caps := map[string]float64{}
	for _, c := range view.Table().GetClusters() {
		caps[c.GetId()] = c.GetHealthCap()
	}
	out := map[fleet.ClusterID]failover.Cluster{}
	for _, h := range view.Health() {
		id := fleet.ClusterID(h.GetCluster())
		out[id] = failover.Cluster{
			State:       failover.State(h.GetState()),
			Since:       timeOf(h.GetSinceUnixMs()),
			Reason:      h.GetReason(),
			RampStep:    int(h.GetRampStep()),
			Relapses:    int(h.GetRelapses()),
			EvacuatedAt: timeOf(h.GetEvacuatedUnixMs()),
			LastRelapse: timeOf(h.GetLastRelapseUnixMs()),
			Share:       caps[h.GetCluster()],
		}.Resume(config(id))
	}
	return out
}

// replicated writes health for the next leader, and for people; sorted by cluster.
func replicated(health map[fleet.ClusterID]failover.Cluster) []*statepb.ClusterHealth {
	out := make([]*statepb.ClusterHealth, 0, len(health))
	for _, id := range slices.Sorted(maps.Keys(health)) {
		c := health[id]
		h := &statepb.ClusterHealth{
			Cluster:           string(id),
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
		out = append(out, h)
	}
	return out
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
