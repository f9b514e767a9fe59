// Package state is what the control plane replicates: the resources that operators wrote, the
// published routing tables, the health of clusters, the audit trail. It changes only by commands,
// applied in the same order on every node, and each command yields a new immutable [View]. Nothing
// here reads a clock, draws a random number or knows how commands are replicated: whatever may
// differ between nodes is in the command.
package state

import (
	"cmp"
	"slices"

	"anabranch/api/routerpb"
	"anabranch/controlplane/account"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// Bounds of what is kept.
const (
	// MaxTables is the current table and fifty before it.
	MaxTables = 51
	// MaxAudit is how many of the newest audit entries are kept.
	MaxAudit = 10_000
	// MaxAuditBytes is about how many bytes they may take together, from feature level 3 on.
	MaxAuditBytes = 16 << 20
	// MaxResources is how many resources of one kind there may be.
	MaxResources = 10_000
	// MaxDoc is the largest document of a resource, in bytes of canonical JSON; MaxDocs is for all
	// together, so that a snapshot stays readable. Both hold from feature level 2 on.
	MaxDoc  = 128 << 10
	MaxDocs = 64 << 20
	// MaxNodes is how many control plane nodes are remembered.
	MaxNodes = 64
)

// View is the whole replicated state after one command. It never changes: whoever holds one may read
// it for as long as they like, and must not write to anything that it hands out.
type View struct {
	index     uint64
	clusterID string
	epoch     uint64
	epochDue  bool
	lineage   string
	tokens    []*statepb.Token
	shelves   map[policy.Kind]*shelf // replaced, never written to
	resources uint64                 // index of the last change of any resource
	tables    []*routerpb.Table      // oldest first
	health    []*statepb.ClusterHealth
	reasons   []*statepb.WeightReason
	audit     trail
	nodes     []*statepb.PutNode
	level     uint32            // 0: 1
	answers   []*statepb.Answer // oldest first
	past      past
	roll      rolling
	proposals []*statepb.Proposal    // by id; replaced, never written to
	broken    []*statepb.BrokenGlass // oldest first
	ledger    ledger
	account   account.Account
	prices    prices
	billed    []*statepb.BilledDay // oldest first; replaced, never written to
	drills    drills
	emergency emergency
	forgotten uint64 // revision up to which changes of proposals may be forgotten
}

// shelf holds the resources of one kind, sorted by name.
type shelf struct {
	revision uint64 // index of the last change, deletions included
	items    []*policy.Resource
	docs     [][]byte // as replicated, beside items
}

var noShelf = &shelf{}

// Empty is the state of a cluster before its first command.
func Empty() *View { return &View{} }

// Index is the Raft index of the last command applied; 0: none.
func (v *View) Index() uint64 { return v.index }

// ClusterID is the identity given by Init; empty: not initialised.
func (v *View) ClusterID() string { return v.clusterID }

// Epoch rises with every restore and recovery, and orders tables before their revision does. It is
// 1 after Init, 0 before.
func (v *View) Epoch() uint64 { return v.epoch }

// EpochDue says that this state was restored or recovered, so that routers may hold tables that it
// knows nothing of: no table is published until a BumpEpoch has raised the epoch above theirs.
func (v *View) EpochDue() bool { return v.epochDue }

// Lineage names the restore or recovery that this history began with; empty: it goes back to Init.
// Nodes of one cluster id and different lineages have different histories.
func (v *View) Lineage() string { return v.lineage }

// Tokens are the bearer tokens of the API, hashed.
func (v *View) Tokens() []*statepb.Token { return v.tokens }

func (v *View) shelf(kind policy.Kind) *shelf {
	if s := v.shelves[kind]; s != nil {
		return s
	}
	return noShelf
}

func (s *shelf) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.items, name, func(r *policy.Resource, name string) int {
		return cmp.Compare(r.Metadata.Name, name)
	})
}

// Get finds a resource, its defaults filled in.
func (v *View) Get(kind policy.Kind, name string) (*policy.Resource, bool) {
	s := v.shelf(kind)
	if i, ok := s.find(name); ok {
		return s.items[i], true
	}
	return nil, false
}

// List gives the resources of a kind, sorted by name.
func (v *View) List(kind policy.Kind) []*policy.Resource { return v.shelf(kind).items }

// Revision is the index of the last change of any resource of the kind, deletions included; 0: none.
func (v *View) Revision(kind policy.Kind) uint64 { return v.shelf(kind).revision }

// ResourcesRevision is the index of the last change of any resource; 0: none.
func (v *View) ResourcesRevision() uint64 { return v.resources }

// Table is the current routing table, that of all routers but those which the rollout under way has
// reached; nil: none was published yet.
func (v *View) Table() *routerpb.Table {
	if v.roll.stable != nil {
		return v.roll.stable
	}
	if len(v.tables) == 0 {
		return nil
	}
	return v.tables[len(v.tables)-1]
}

// Tables gives the tables kept, oldest first, [MaxTables] and those in force. The last is the current
// one, or that of the rollout under way.
func (v *View) Tables() []*routerpb.Table { return v.tables }

// Health gives the health of clusters as last published, sorted by cluster: one entry of the cluster as a
// whole, without a model, and after it those of models that differ from it.
func (v *View) Health() []*statepb.ClusterHealth { return v.health }

// HealthOf finds the health of one model on a cluster; with an empty model, of the cluster as a whole.
func (v *View) HealthOf(cluster, model string) (*statepb.ClusterHealth, bool) {
	h := healthIn(v.health, cluster, model)
	return h, h != nil
}

// Reasons says why the weights of the current table are what they are.
func (v *View) Reasons() []*statepb.WeightReason { return v.reasons }

// Node finds how a control plane node is reached.
func (v *View) Node(id string) (*statepb.PutNode, bool) {
	i, ok := findNode(v.nodes, id)
	if !ok {
		return nil, false
	}
	return v.nodes[i], true
}

// Nodes gives the control plane nodes that made themselves known, sorted by id.
func (v *View) Nodes() []*statepb.PutNode { return v.nodes }

func findNode(nodes []*statepb.PutNode, id string) (int, bool) {
	return slices.BinarySearchFunc(nodes, id, func(n *statepb.PutNode, id string) int {
		return cmp.Compare(n.GetId(), id)
	})
}
