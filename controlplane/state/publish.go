package state

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state/statepb"
)

// publish commits a table, the health of clusters, and the reasons behind the weights.
//
// The table's reference is stamped here. A proposer may put the reference of the table that it
// started from in its place (any non-zero revision): if another table has been published since, the
// command is refused, so that a leader that was deposed meanwhile undoes nothing. A table with
// nothing in it is refused. A table that equals the current one is not published again.
func (n *View) publish(cmd *statepb.Command, p *statepb.Publish) *statepb.Outcome {
	if p.GetTable() != nil {
		if out := n.publishTable(cmd, p); out != nil {
			return out
		}
	}
	n.setHealth(cmd, p.GetHealth())
	return &statepb.Outcome{}
}

func (n *View) publishTable(cmd *statepb.Command, p *statepb.Publish) *statepb.Outcome {
	t, now := p.GetTable(), n.Table()
	if from := t.GetRef(); from.GetRevision() != 0 && !proto.Equal(from, now.GetRef()) {
		return refuse(CodePrecondition, "table.ref", fmt.Sprintf("the current table is revision %d of epoch %d, not %d of %d",
			now.GetRef().GetRevision(), now.GetRef().GetEpoch(), from.GetRevision(), from.GetEpoch()))
	}
	if len(t.GetRegions()) == 0 || len(t.GetClusters()) == 0 {
		return refuse(CodeInvalid, "table", "holds no region or no cluster")
	}
	n.reasons = p.GetReasons()
	stamped := proto.CloneOf(t)
	stamped.Ref = &routerpb.TableRef{ClusterId: n.clusterID, Epoch: n.epoch, Revision: n.index}
	if sameTable(now, stamped) {
		return nil
	}
	kept := n.tables[max(0, len(n.tables)-(MaxTables-1)):]
	n.tables = append(slices.Clone(kept), stamped)
	n.record(cmd, entry{action: "publish", kind: "Table", name: strconv.FormatUint(n.index, 10)})
	return nil
}

// sameTable compares all but the revision and the time.
func sameTable(now, stamped *routerpb.Table) bool {
	if now == nil || now.GetRef().GetEpoch() != stamped.GetRef().GetEpoch() {
		return false
	}
	like := proto.CloneOf(now)
	like.Ref, like.CreatedUnixMs = stamped.GetRef(), stamped.GetCreatedUnixMs()
	return proto.Equal(like, stamped)
}

// setHealth replaces the health of all clusters and audits every change of state.
func (n *View) setHealth(cmd *statepb.Command, health []*statepb.ClusterHealth) {
	before := n.health
	n.health = slices.Clone(health)
	slices.SortStableFunc(n.health, func(a, b *statepb.ClusterHealth) int { return cmp.Compare(a.GetCluster(), b.GetCluster()) })
	n.health = slices.CompactFunc(n.health, func(a, b *statepb.ClusterHealth) bool { return a.GetCluster() == b.GetCluster() })
	was := make(map[string]string, len(before))
	for _, h := range before {
		was[h.GetCluster()] = h.GetState()
	}
	for _, h := range n.health {
		old, known := was[h.GetCluster()]
		if !known || old == h.GetState() {
			continue // a cluster's first state is no transition
		}
		n.record(cmd, entry{
			action: "update", kind: "ClusterHealth", name: h.GetCluster(), code: h.GetState(),
			reason: fmt.Sprintf("%s → %s: %s", old, h.GetState(), h.GetReason()),
		})
	}
}
