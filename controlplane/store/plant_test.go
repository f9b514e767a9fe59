package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
)

// replant stops the cluster, empties the folders and plants a state in each.
func (c *testCluster) replant(view *state.View) {
	c.t.Helper()
	for _, n := range c.nodes {
		if err := os.RemoveAll(n.o.Dir); err != nil {
			c.t.Fatal(err)
		}
		if err := Plant(Seed{Dir: n.o.Dir, ID: n.o.ID, Peers: c.peers, View: view, Logger: quiet}); err != nil {
			c.t.Fatal(err)
		}
	}
}

func TestANewClusterStartsWithTheStateOfABackup(t *testing.T) {
	t.Parallel()
	c := seeded(t, 3, 10)
	backup := c.leader().View()
	lost := c.propose(putRegion("after-the-backup"))
	c.stopAll()
	c.replant(backup)
	for _, n := range c.nodes {
		n.restart()
	}
	c.leader()
	c.propose(bumpEpoch())
	out := c.propose(putRegion("new"))
	var one *state.View
	for _, n := range c.nodes {
		n.caughtUp(out.GetRevision())
		v := n.View()
		if one == nil {
			one = v
		}
		if _, found := v.Get(policy.KindRegion, "after-the-backup"); found || !holds(v, 11) || v.ClusterID() != "c1" || v.Epoch() != 2 || !state.Equal(v, one) {
			t.Errorf("%s: %d regions, cluster %s, epoch %d", n.o.ID, len(v.List(policy.KindRegion)), v.ClusterID(), v.Epoch())
		}
	}
	if lost.GetRevision() <= backup.Index() {
		t.Error("nothing was lost: the test shows nothing")
	}
}

// The same backup is restored a second time: the first restored cluster is another history.
func TestEachRestoreOfOtherNodesIsAHistoryOfItsOwn(t *testing.T) {
	view := state.Empty()
	next, _, err := state.Apply(view, 1, initCommand("c1"))
	if err != nil {
		t.Fatal(err)
	}
	view = next
	of := func(id fleet.NodeID, peers ...Peer) string {
		t.Helper()
		dir := t.TempDir()
		if err := Plant(Seed{Dir: dir, ID: id, Peers: peers, View: view, Logger: quiet}); err != nil {
			t.Fatal(err)
		}
		r, err := Inspect(dir, quiet)
		if err != nil {
			t.Fatal(err)
		}
		return r.View.Lineage()
	}
	a, b, x := Peer{"a", "127.0.0.1:1"}, Peer{"b", "127.0.0.1:2"}, Peer{"x", "127.0.0.1:3"}
	if of("a", a, b) != of("b", b, a) {
		t.Error("two nodes of one restore don't know each other")
	}
	if of("a", a, b) == of("a", a, x) || of("a", a) == "" {
		t.Error("two restores can't be told apart")
	}
}

func TestARestoreDoesNotOverwrite(t *testing.T) {
	t.Parallel()
	c := seeded(t, 1, 1)
	n := c.nodes["n1"]
	backup := n.View()
	seed := Seed{Dir: n.o.Dir, ID: "n1", Peers: c.peers, View: backup, Logger: quiet}
	if err := Plant(seed); !errors.Is(err, ErrNotEmpty) {
		t.Fatalf("onto a running node: %v", err)
	}
	if err := Clear(n.o.Dir, "aside"); err == nil {
		t.Fatal("the data of a running node was moved")
	}
	c.propose(putRegion("not-in-the-backup"))
	c.stopAll()
	if err := Clear(n.o.Dir, "aside"); err != nil {
		t.Fatal(err)
	}
	if err := Plant(seed); err != nil {
		t.Fatal(err)
	}
	n.restart()
	if c.leader(); !holds(n.View(), 1) {
		t.Errorf("%d regions", len(n.View().List(policy.KindRegion)))
	}
	// What was there is still there.
	if r, err := Inspect(filepath.Join(n.o.Dir, "aside"), quiet); err != nil || !holds(r.View, 2) {
		t.Errorf("the data moved aside: %v", err)
	}
	if err := Clear(t.TempDir(), "aside"); err != nil {
		t.Errorf("nothing to move: %v", err)
	}
}

// A planting that was cut off after its first step must not start as a node of a new cluster.
func TestHalfAPlantingDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	if err := saveIdentity(dir, membership{NodeID: "n1", ClusterID: "c1@l"}); err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	defer l.Close()
	_, err := Open(Options{Dir: dir, ID: "n1", Listener: l, Peers: []Peer{{"n1", l.Addr().String()}}, Logger: quiet})
	if !errors.Is(err, ErrForeignFolder) {
		t.Errorf("got %v", err)
	}
}

func TestSeedsAreChecked(t *testing.T) {
	view, _, err := state.Apply(state.Empty(), 1, initCommand("c1"))
	if err != nil {
		t.Fatal(err)
	}
	good := Seed{Dir: filepath.Join(t.TempDir(), "n1"), ID: "n1", Peers: []Peer{{"n1", "127.0.0.1:1"}}, View: view, Logger: quiet}
	for name, change := range map[string]func(*Seed){
		"no folder":           func(s *Seed) { s.Dir = "" },
		"no state":            func(s *Seed) { s.View = nil },
		"a state of nobody":   func(s *Seed) { s.View = state.Empty() },
		"no peers":            func(s *Seed) { s.Peers = nil },
		"not among its peers": func(s *Seed) { s.ID = "n2" },
		"no host":             func(s *Seed) { s.Peers = []Peer{{"n1", ":7120"}} },
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			change(&s)
			if err := Plant(s); err == nil {
				t.Error("planted")
			}
			if _, err := os.Stat(good.Dir); !errors.Is(err, os.ErrNotExist) {
				t.Error("it left something behind")
			}
		})
	}
	good.ClusterID = "other"
	if err := Plant(good); err != nil {
		t.Fatal(err)
	}
	if r, err := Inspect(good.Dir, quiet); err != nil || r.View.ClusterID() != "other" {
		t.Errorf("%+v, %v", r, err)
	}
}
