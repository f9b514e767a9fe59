package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store/boltlog"
)

var quiet = slog.New(slog.DiscardHandler)

// putRegion writes a resource, which a new history keeps.
func putRegion(name string) *statepb.Command {
	return &statepb.Command{Format: 1, AtUnixMs: 1, Op: &statepb.Command_Put{Put: &statepb.Put{
		Kind: "Region", Name: name, Doc: []byte(`{"spec":{"zone":"z"}}`), AnyRevision: true,
	}}}
}

func bumpEpoch() *statepb.Command {
	return &statepb.Command{Format: 1, AtUnixMs: 1, Op: &statepb.Command_BumpEpoch{BumpEpoch: &statepb.BumpEpoch{}}}
}

func holds(v *state.View, regions int) bool { return len(v.List(policy.KindRegion)) == regions }

// seeded is a cluster with a state of some regions on all nodes.
func seeded(t *testing.T, nodes, regions int) *testCluster {
	t.Helper()
	c := newTestCluster(t, nodes, nil)
	c.propose(initCommand("c1"))
	var last *statepb.Outcome
	for i := range regions {
		last = c.propose(putRegion(fmt.Sprintf("r%d", i)))
	}
	for _, n := range c.nodes {
		n.caughtUp(last.GetRevision())
		eventually(t, "cluster id on disk", func() bool {
			id, err := loadIdentity(n.o.Dir, "", false)
			return err == nil && id.ClusterID == "c1"
		})
	}
	return c
}

func (c *testCluster) stopAll() {
	c.t.Helper()
	for _, n := range c.nodes {
		if err := n.stop(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// join adds an empty node to the cluster of which leader is the leader.
func (c *testCluster) join(leader *testNode, id fleet.NodeID) *testNode {
	c.t.Helper()
	l := listen(c.t)
	n := c.add(Peer{ID: id, Address: l.Addr().String()}, l, nil, nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := leader.AddNonvoter(ctx, id, n.address); err != nil {
		c.t.Fatal(err)
	}
	n.caughtUp(leader.View().Index())
	if err := leader.AddVoter(ctx, id); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// The runbook: two of three nodes are lost for ever.
func TestTheLastOfThreeNodesGoesOnAndOthersJoin(t *testing.T) {
	t.Parallel()
	c := seeded(t, 3, 20)
	c.stopAll()
	for _, id := range []fleet.NodeID{"n1", "n2"} {
		if err := os.RemoveAll(c.nodes[id].o.Dir); err != nil {
			t.Fatal(err)
		}
		delete(c.nodes, id)
	}
	last := c.nodes["n3"]
	before, err := Recover(last.o.Dir, last.address, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if before.NodeID != "n3" || !holds(before.View, 20) || len(before.Members) != 3 {
		t.Errorf("found %s with %d regions and members %v", before.NodeID, len(before.View.List(policy.KindRegion)), before.Members)
	}
	last.o.Peers = nil
	last.restart()
	if c.leader() != last || !holds(last.View(), 20) || !last.View().EpochDue() || last.View().ClusterID() != "c1" {
		t.Fatalf("the survivor: %+v", last.Stats())
	}
	for _, id := range []fleet.NodeID{"n4", "n5"} {
		if n := c.join(last, id); !holds(n.View(), 20) {
			t.Errorf("%s has %d regions", id, len(n.View().List(policy.KindRegion)))
		}
	}
	c.propose(bumpEpoch())
	out := c.propose(putRegion("later"))
	for _, n := range c.nodes {
		n.caughtUp(out.GetRevision())
		if v := n.View(); !holds(v, 21) || v.Epoch() != 2 || v.EpochDue() || !state.Equal(v, last.View()) {
			t.Errorf("%s: %d regions, epoch %d", n.o.ID, len(v.List(policy.KindRegion)), v.Epoch())
		}
	}
	// They have learnt the new history, also for the time after a restart.
	if err := c.nodes["n4"].stop(); err != nil {
		t.Fatal(err)
	}
	c.nodes["n4"].restart()
	c.nodes["n4"].caughtUp(out.GetRevision())
}

// Nodes that were given up come back with their old folders. They are two of three by what they know,
// and would win any election.
func TestNodesOfTheOldHistoryAreRefusedAfterARecovery(t *testing.T) {
	t.Parallel()
	c := seeded(t, 3, 5)
	c.stopAll()
	survivor := c.nodes["n3"]
	if _, err := Recover(survivor.o.Dir, survivor.address, quiet); err != nil {
		t.Fatal(err)
	}
	survivor.o.Peers = nil
	survivor.restart()
	eventually(t, "the survivor to lead", survivor.IsLeader)
	term := survivor.Stats().Term
	old := []*testNode{c.nodes["n1"], c.nodes["n2"]}
	for _, n := range old {
		n.restart()
	}
	eventually(t, "the old two to elect one of them", func() bool { return old[0].IsLeader() || old[1].IsLeader() })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := old[0].DialNode(ctx, survivor.address); !errors.Is(err, ErrForeignCluster) {
		t.Errorf("a node of the old history was let in: %v", err)
	}
	out, err := survivor.Propose(ctx, putRegion("of-the-new"))
	if err != nil || !survivor.IsLeader() || survivor.Stats().Term != term {
		t.Fatalf("the survivor was disturbed: %v, %+v", err, survivor.Stats())
	}
	for _, n := range old {
		if _, found := n.View().Get(policy.KindRegion, "of-the-new"); found {
			t.Errorf("%s follows the new history from an old folder", n.o.ID)
		}
	}
	if survivor.View().Index() != out.GetRevision() {
		t.Errorf("at %d, want %d", survivor.View().Index(), out.GetRevision())
	}
}

func TestARecoveryMayBeRepeatedAndComesAfterSnapshots(t *testing.T) {
	t.Parallel()
	c := seeded(t, 1, 5)
	n := c.nodes["n1"]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Snapshot(ctx); err != nil {
		t.Fatal(err)
	}
	c.propose(putRegion("after-the-snapshot"))
	c.stopAll()
	for i := range 3 {
		r, err := Recover(n.o.Dir, n.address, quiet)
		if err != nil || !holds(r.View, 6) {
			t.Fatalf("recovery %d: %v", i, err)
		}
	}
	n.restart()
	if c.leader(); !holds(n.View(), 6) {
		t.Errorf("%d regions", len(n.View().List(policy.KindRegion)))
	}
}

// appendEntry puts a command at the end of a log whose node does not run.
func appendEntry(t *testing.T, dir string, cmd *statepb.Command) {
	t.Helper()
	file, err := boltlog.Open(boltlog.Options{Path: filepath.Join(dir, logFile)})
	if err != nil {
		t.Fatal(err)
	}
	last, err := file.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	data, err := pack(cmd)
	if err != nil {
		t.Fatal(err)
	}
	err = file.StoreLog(&raft.Log{Index: last + 1, Term: 50, Type: raft.LogCommand, Data: data})
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestWhatOnlyTheSurvivorHadIsKept(t *testing.T) {
	t.Parallel()
	c := seeded(t, 1, 2)
	c.stopAll()
	n := c.nodes["n1"]
	appendEntry(t, n.o.Dir, putRegion("never-acknowledged"))
	r, err := Recover(n.o.Dir, n.address, quiet)
	if err != nil || !holds(r.View, 3) || r.LastTerm != 50 {
		t.Fatalf("%+v, %v", r, err)
	}
	n.restart()
	if c.leader(); n.Stats().Term <= 50 {
		t.Errorf("term %d is not above that of the last entry", n.Stats().Term)
	}
}

func TestWhatCannotBeRecoveredIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, n *testNode)
		want  error
	}{
		"a newer command": {func(t *testing.T, n *testNode) {
			appendEntry(t, n.o.Dir, &statepb.Command{Format: 1 << 20, Op: &statepb.Command_Noop{Noop: &statepb.Noop{}}})
		}, state.ErrUnknown},
		"no log": {func(t *testing.T, n *testNode) {
			if err := os.Remove(filepath.Join(n.o.Dir, logFile)); err != nil {
				t.Fatal(err)
			}
		}, os.ErrNotExist},
		"a folder of nobody": {func(t *testing.T, n *testNode) {
			if err := os.Remove(filepath.Join(n.o.Dir, identityFile)); err != nil {
				t.Fatal(err)
			}
		}, os.ErrNotExist},
		"a damaged identity": {func(t *testing.T, n *testNode) {
			if err := os.WriteFile(filepath.Join(n.o.Dir, identityFile), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrForeignFolder},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := seeded(t, 1, 1)
			cluster.stopAll()
			n := cluster.nodes["n1"]
			c.spoil(t, n)
			if _, err := Recover(n.o.Dir, n.address, quiet); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	running := seeded(t, 1, 1).nodes["n1"]
	if _, err := Recover(running.o.Dir, running.address, quiet); err == nil {
		t.Error("a running node was recovered")
	}
	empty := t.TempDir()
	if _, err := Recover(empty, "127.0.0.1:1", quiet); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	if left, _ := os.ReadDir(empty); len(left) != 0 {
		t.Errorf("an empty folder became one with %v", left)
	}
}

func TestLookingChangesNothing(t *testing.T) {
	t.Parallel()
	c := seeded(t, 1, 3)
	c.stopAll()
	n := c.nodes["n1"]
	before, err := Inspect(n.o.Dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Inspect(n.o.Dir, quiet)
	if err != nil || after.LastIndex != before.LastIndex || after.Term != before.Term || !state.Equal(after.View, before.View) {
		t.Errorf("%+v, then %+v, %v", before, after, err)
	}
	if after.View.Lineage() != "" || after.View.EpochDue() || len(after.Members) != 1 || after.Members[0].Address != n.address {
		t.Errorf("%+v", after)
	}
	for _, address := range []string{"", "7120", ":7120"} {
		if _, err := Recover(n.o.Dir, address, quiet); err == nil {
			t.Errorf("address %q was taken", address)
		}
	}
}
