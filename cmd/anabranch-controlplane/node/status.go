package node

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"anabranch/controlplane/rollout"

	"anabranch/api/fleet"
)

// fleet counts the routers that are connected to any node, and the nodes that can take them.
func (n *Node) fleet() (routers, nodes int) {
	for _, m := range n.members() {
		if m.Healthy {
			nodes++
		}
	}
	return n.signals.Connected(time.Now()), nodes
}

// holder is the node that a router is, or was, connected to; false: nobody has heard of it lately.
func (n *Node) holder(id fleet.RouterID) (fleet.NodeID, bool) {
	for _, o := range n.signals.Snapshot(time.Now()).Routers {
		if o.Router() == id {
			return o.Node, true
		}
	}
	return "", false
}

// staleness is the time since this node last heard of the leader; negative: never.
func (n *Node) staleness() time.Duration {
	stats := n.store.Stats()
	switch {
	case n.store.IsLeader():
		return 0
	case stats.SinceContact == 0:
		return -1
	}
	return stats.SinceContact
}

// silentLeader is how long the leader may not be heard before a node counts as cut off from it.
const silentLeader = 5 * time.Second

// isolated says that this node's state may be old, and others may have a newer one.
func (n *Node) isolated() bool {
	age := n.staleness()
	return age < 0 || age > silentLeader
}

// registry holds the metrics of the process and of the parts that keep none themselves.
func (n *Node) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(newMembershipMetrics(n.store.Stats, n.members), n.certs, n.store, healthMetrics{n.store.View, mostPlaces})
	gauge := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "anabranch", Subsystem: "controlplane", Name: name, Help: help,
		}, value))
	}
	flag := func(on bool) float64 {
		if on {
			return 1
		}
		return 0
	}
	gauge("leader", "1 on the node that leads.", func() float64 { return flag(n.store.IsLeader()) })
	gauge("read_only", "1 while the disk is too full for writes.", func() float64 { return flag(n.store.Stats().ReadOnly) })
	gauge("disk_stalled", "1 while an append to the log hangs.", func() float64 { return flag(n.store.Stats().DiskStalled) })
	gauge("free_disk_bytes", "Free space where the log is.", func() float64 { return float64(n.store.Stats().FreeDiskBytes) })
	gauge("raft_term", "Raft's term.", func() float64 { return float64(n.store.Stats().Term) })
	gauge("raft_commit_index", "Raft's commit index.", func() float64 { return float64(n.store.Stats().CommitIndex) })
	gauge("raft_log_entries", "Entries in the log file.", func() float64 {
		stats := n.store.Stats()
		if stats.LogLast == 0 {
			return 0
		}
		return float64(stats.LogLast - stats.LogFirst + 1)
	})
	gauge("applied_index", "Raft index of the last command applied here.", func() float64 { return float64(n.store.View().Index()) })
	gauge("epoch", "Epoch of the tables that this cluster publishes.", func() float64 { return float64(n.store.View().Epoch()) })
	gauge("table_revision", "Revision of the current routing table; 0: none.", func() float64 {
		return float64(n.store.View().Table().GetRef().GetRevision())
	})
	gauge("rollout_stage", "How far a rollout has come: 0: none is under way, 1: one router, 2: a region.", func() float64 {
		switch rollout.Stage(n.store.View().Rollout().GetStage()) {
		case rollout.Canary:
			return 1
		case rollout.Region:
			return 2
		}
		return 0
	})
	gauge("changes_held_back", "1 while changes of configuration have not come to all routers.", func() float64 { return flag(n.store.View().Pending()) })
	gauge("changes_returned", "1 while changes that are held back have been tried, and taken back.", func() float64 { return flag(n.store.View().ReturnedNow()) })
	gauge("changes_frozen", "1 while an operator keeps changes away from routers.", func() float64 { return flag(n.store.View().FrozenAt(time.Now()) != nil) })
	gauge("members", "Members of the cluster.", func() float64 { return float64(len(n.store.Members())) })
	gauge("router_streams", "Routers connected to this node.", func() float64 { return float64(n.publish.Streams()) })
	gauge("leader_contact_age_seconds", "Time since the leader was last heard; 0 on the leader, below 0: never.", func() float64 {
		return n.staleness().Seconds()
	})
	return r
}

func handler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{Registry: r, MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}
