package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/controlplane/forward"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/state"
	"anabranch/controlplane/store"
)

// silent is how long another node may say nothing and still count as healthy: three exchanges.
const silent = 3 * time.Second

// members tells of all nodes as this one sees them.
func (n *Node) members() []rest.Member {
	return describe(n.store.Members(), n.ID(), n.store.View(), n.forward.Peers())
}

// describe joins what is known of each member: by Raft, by the state, and by the exchange.
func describe(members []store.Member, own fleet.NodeID, view *state.View, peers []forward.PeerStatus) []rest.Member {
	furthest := view.Index()
	known := map[fleet.NodeID]forward.PeerStatus{}
	for _, p := range peers {
		known[p.ID] = p
		furthest = max(furthest, p.AppliedIndex)
	}
	var out []rest.Member
	for _, m := range members {
		item := rest.Member{ID: m.ID, Address: m.Address, Voter: m.Voter, Leader: m.Leader, LastContactMs: -1}
		if m.ID == own {
			item.Healthy, item.AppliedIndex, item.LastContactMs = true, view.Index(), 0
			item.FeatureLevel = state.Format
		} else if p, ok := known[m.ID]; ok {
			item.Healthy, item.AppliedIndex, item.LastContactMs = p.Age < silent, p.AppliedIndex, p.Age.Milliseconds()
			item.FeatureLevel = p.FeatureLevel
		}
		item.Behind = furthest - item.AppliedIndex
		if node, ok := view.Node(string(m.ID)); ok {
			item.Version = node.GetVersion()
		}
		out = append(out, item)
	}
	return out
}

// membershipMetrics tells who belongs to the cluster and what has become of changes.
type membershipMetrics struct {
	stats   func() store.Stats
	members func() []rest.Member

	member, voter, voters, healthy, behind, contact, changes, transfers *prometheus.Desc
}

func newMembershipMetrics(stats func() store.Stats, members func() []rest.Member) *membershipMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("anabranch_controlplane_"+name, help, labels, nil)
	}
	return &membershipMetrics{
		stats: stats, members: members,
		member:    desc("member", "1 if this node is a member of the cluster."),
		voter:     desc("voter", "1 if this node votes."),
		voters:    desc("voters", "Members that vote."),
		healthy:   desc("member_healthy", "1 if the member was heard lately by this node.", "node"),
		behind:    desc("member_behind_entries", "Log entries that others have applied and the member has not.", "node"),
		contact:   desc("member_contact_age_seconds", "Time since this node heard the member; missing: never.", "node"),
		changes:   desc("membership_changes_total", "Changes of the membership that this node has committed as leader.", "change"),
		transfers: desc("leadership_transfers_total", "Transfers of leadership away from this node, by how they ended.", "end"),
	}
}

// Describe names the metrics.
func (m *membershipMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.member, m.voter, m.voters, m.healthy, m.behind, m.contact, m.changes, m.transfers} {
		to <- d
	}
}

// Collect takes them.
func (m *membershipMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	flag := map[bool]float64{true: 1}
	stats := m.stats()
	gauge(m.member, flag[stats.Member])
	gauge(m.voter, flag[stats.Voter])
	gauge(m.voters, float64(stats.Voters))
	for _, member := range m.members() {
		id := string(member.ID)
		gauge(m.healthy, flag[member.Healthy], id)
		gauge(m.behind, float64(member.Behind), id)
		if member.LastContactMs >= 0 {
			gauge(m.contact, float64(member.LastContactMs)/1000, id)
		}
	}
	for _, what := range store.Changes() {
		to <- prometheus.MustNewConstMetric(m.changes, prometheus.CounterValue, float64(stats.Changes[what]), string(what))
	}
	for _, end := range store.TransferEnds() {
		to <- prometheus.MustNewConstMetric(m.transfers, prometheus.CounterValue, float64(stats.Transfers[end]), string(end))
	}
}
