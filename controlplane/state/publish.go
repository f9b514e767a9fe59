package state

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/residence"
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
	switch {
	case p.GetTighten():
		return v.tighten(cmd, p)
	case p.GetTrial() != nil:
		return v.publishTrial(cmd, p)
	}
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
	if out := v.fit(cmd, t, now); out != nil {
		return out
	}
	v.reasons = p.GetReasons()
	if sameTable(now, v.stamp(t)) {
		return nil
	}
	next := v.keep(t)
	if v.roll.stable != nil {
		v.roll.stable = next
	}
	v.record(cmd, entry{action: "publish", kind: "Table", name: strconv.FormatUint(v.index, 10)})
	return nil
}

// tighten publishes a table that is in force again, with residency as narrow as in another one where that is narrower. It
// waits for no order's end: nobody's requests go where they must not, whatever else is to stay as it is.
func (v *View) tighten(cmd *statepb.Command, p *statepb.Publish) *statepb.Outcome {
	now, newest := v.Table(), p.GetTable()
	if newest = cmp.Or(p.GetTrial(), newest); p.GetTrial() != nil {
		if now = v.roll.fresh; now == nil {
			return refuse(CodePrecondition, "trial.ref", "no rollout is under way")
		}
	}
	if now == nil || newest == nil {
		return refuse(CodePrecondition, "table", "there is no table, or none to tighten it by")
	}
	if out := v.follows(newest, now); out != nil {
		return out
	}
	narrowed, err := residence.Narrow(now, newest)
	switch {
	case err != nil:
		return refuse(CodeInvalid, "table.rules", err.Error())
	case narrowed == now:
		return &statepb.Outcome{}
	}
	narrowed.CreatedUnixMs = cmd.GetAtUnixMs()
	switch kept := v.keep(narrowed); {
	case p.GetTrial() != nil:
		v.roll.fresh = kept
	case v.roll.stable != nil:
		v.roll.stable = kept
	}
	v.record(cmd, entry{action: "publish", kind: "Table", name: strconv.FormatUint(v.index, 10), reason: "residency is tighter; all else is as an emergency order holds it"})
	return &statepb.Outcome{}
}

// follows refuses a table that was made from another one than that whose place it is to take, or before the epoch has
// risen; nil: it does neither.
func (v *View) follows(t, now *routerpb.Table) *statepb.Outcome {
	if from := t.GetRef(); from.GetRevision() != 0 && !proto.Equal(from, now.GetRef()) {
		return refuse(CodePrecondition, "table.ref", fmt.Sprintf("the current table is revision %d of epoch %d, not %d of %d",
			now.GetRef().GetRevision(), now.GetRef().GetEpoch(), from.GetRevision(), from.GetEpoch()))
	}
	if v.epochDue {
		return epochFirst()
	}
	return nil
}

// fit judges a table that is to take the place of another; nil: it may.
func (v *View) fit(cmd *statepb.Command, t, now *routerpb.Table) *statepb.Outcome {
	if out := v.follows(t, now); out != nil {
		return out
	}
	if o := v.Ordered(time.UnixMilli(cmd.GetAtUnixMs())).Freezer(); o != nil {
		return refuse(CodeFrozen, "table", fmt.Sprintf("emergency order %s holds newer tables off until %s", o.ID, o.Expires.UTC().Format(time.RFC3339)))
	}
	if len(t.GetRegions()) == 0 || len(t.GetClusters()) == 0 {
		return refuse(CodeInvalid, "table", "holds no region or no cluster")
	}
	return nil
}

func epochFirst() *statepb.Outcome {
	return refuse(CodePrecondition, "table.ref", "the epoch must rise first: the state was restored or recovered")
}

// stamp gives a table the number of this command. What it is made of is shared with t.
func (v *View) stamp(t *routerpb.Table) *routerpb.Table {
	stamped := shallow(t)
	stamped.Ref = &routerpb.TableRef{ClusterId: v.clusterID, Epoch: v.epoch, Revision: v.index}
	return stamped
}

// keep adds a table, stamped, as the newest, which shares what it can with the one before. Of those kept the oldest go, but
// none that is in force.
func (v *View) keep(t *routerpb.Table) *routerpb.Table {
	stamped := sharing(v.Table(), v.stamp(t))
	kept := make([]*routerpb.Table, 0, MaxTables)
	for i, old := range v.tables {
		if i > len(v.tables)-MaxTables || old == v.roll.stable || old == v.roll.fresh {
			kept = append(kept, old)
		}
	}
	v.tables = append(kept, stamped)
	return stamped
}

// sameTable compares all but the revision and the time.
func sameTable(now, stamped *routerpb.Table) bool {
	if now == nil || now.GetRef().GetEpoch() != stamped.GetRef().GetEpoch() {
		return false
	}
	like := shallow(now)
	like.Ref, like.CreatedUnixMs = stamped.GetRef(), stamped.GetCreatedUnixMs()
	return proto.Equal(like, stamped)
}

// setHealth replaces the health of all clusters, of each model or as a whole, and audits every change of state.
func (v *View) setHealth(cmd *statepb.Command, health []*statepb.ClusterHealth) {
	before := v.health
	v.health = slices.Clone(health)
	slices.SortStableFunc(v.health, compareHealth)
	v.health = slices.CompactFunc(v.health, func(a, b *statepb.ClusterHealth) bool { return compareHealth(a, b) == 0 })
	// A model that has no entry of its own, any more or yet, goes by that of its cluster.
	judged := slices.Concat(before, v.health)
	slices.SortStableFunc(judged, compareHealth)
	judged = slices.CompactFunc(judged, func(a, b *statepb.ClusterHealth) bool { return compareHealth(a, b) == 0 })
	for _, of := range judged {
		was, is := healthIn(before, of.GetCluster(), of.GetModel()), healthIn(v.health, of.GetCluster(), of.GetModel())
		if was == nil || is == nil || was.GetState() == is.GetState() {
			continue // a cluster's first state is no transition
		}
		name := of.GetCluster()
		if of.GetModel() != "" {
			name += "/" + of.GetModel()
		}
		v.record(cmd, entry{
			action: "update", kind: "ClusterHealth", name: name, code: is.GetState(),
			reason: fmt.Sprintf("%s → %s: %s", was.GetState(), is.GetState(), is.GetReason()),
		})
	}
}

// compareHealth orders by cluster and then by model, the cluster as a whole first.
func compareHealth(a, b *statepb.ClusterHealth) int {
	return cmp.Or(cmp.Compare(a.GetCluster(), b.GetCluster()), cmp.Compare(a.GetModel(), b.GetModel()))
}

// healthIn finds the entry of a model, else of its cluster, in a sorted list; nil: it has neither.
func healthIn(list []*statepb.ClusterHealth, cluster, model string) *statepb.ClusterHealth {
	for _, m := range []string{model, ""} {
		of := &statepb.ClusterHealth{Cluster: cluster, Model: m}
		if i, ok := slices.BinarySearchFunc(list, of, compareHealth); ok {
			return list[i]
		}
	}
	return nil
}
