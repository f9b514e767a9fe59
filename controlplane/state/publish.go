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
func (v *View) publish(cmd *statepb.Command, p *statepb.Publish) *statepb.Outcome {
	if p.GetTable() != nil {
		if out := v.publishTable(cmd, p); out != nil {
			return out
		}
	}
	v.setHealth(cmd, p.GetHealth())
	return &statepb.Outcome{}
}

func (v *View) publishTable(cmd *statepb.Command, p *statepb.Publish) *statepb.Outcome {
	t, now := p.GetTable(), v.Table()
	if from := t.GetRef(); from.GetRevision() != 0 && !proto.Equal(from, now.GetRef()) {
		return refuse(CodePrecondition, "table.ref", fmt.Sprintf("the current table is revision %d of epoch %d, not %d of %d",
			now.GetRef().GetRevision(), now.GetRef().GetEpoch(), from.GetRevision(), from.GetEpoch()))
	}
	if v.epochDue {
		return refuse(CodePrecondition, "table.ref", "the epoch must rise first: the state was restored or recovered")
	}
	if len(t.GetRegions()) == 0 || len(t.GetClusters()) == 0 {
		return refuse(CodeInvalid, "table", "holds no region or no cluster")
	}
	v.reasons = p.GetReasons()
	stamped := proto.CloneOf(t)
	stamped.Ref = &routerpb.TableRef{ClusterId: v.clusterID, Epoch: v.epoch, Revision: v.index}
	if sameTable(now, stamped) {
		return nil
	}
	kept := v.tables[max(0, len(v.tables)-(MaxTables-1)):]
	v.tables = append(slices.Clone(kept), stamped)
	v.record(cmd, entry{action: "publish", kind: "Table", name: strconv.FormatUint(v.index, 10)})
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
func (v *View) setHealth(cmd *statepb.Command, health []*statepb.ClusterHealth) {
	before := v.health
	v.health = slices.Clone(health)
	slices.SortStableFunc(v.health, func(a, b *statepb.ClusterHealth) int { return cmp.Compare(a.GetCluster(), b.GetCluster()) })
	v.health = slices.CompactFunc(v.health, func(a, b *statepb.ClusterHealth) bool { return a.GetCluster() == b.GetCluster() })
	was := make(map[string]string, len(before))
	for _, h := range before {
		was[h.GetCluster()] = h.GetState()
	}
	for _, h := range v.health {
		old, known := was[h.GetCluster()]
		if !known || old == h.GetState() {
			continue // a cluster's first state is no transition
		}
		v.record(cmd, entry{
			action: "update", kind: "ClusterHealth", name: h.GetCluster(), code: h.GetState(),
			reason: fmt.Sprintf("%s → %s: %s", old, h.GetState(), h.GetReason()),
		})
	}
}
