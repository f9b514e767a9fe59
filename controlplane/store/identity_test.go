package store

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"anabranch/api/fleet"
)

func TestAFolderOfAnotherNodeIsRefused(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 1, nil)
	c.propose(initCommand("c1"))
	n := c.leader()
	eventually(t, "cluster id on disk", func() bool {
		id, err := loadIdentity(n.o.Dir, "n1", false)
		return err == nil && id.ClusterID == "c1"
	})
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	o := n.o
	o.ID, o.Peers = "n2", nil
	_, err := Open(o)
	if !errors.Is(err, ErrForeignFolder) || !strings.Contains(err.Error(), "n1") {
		t.Errorf("open: %v, want foreign folder that names n1", err)
	}
}

// Node n1 of a is given the folder of n1 of b, at the same addresses.
func TestANodeWithTheFolderOfAnotherClusterStopsAndHarmsNobody(t *testing.T) {
	t.Parallel()
	a, b := newTestCluster(t, 3, nil), newTestCluster(t, 1, nil)
	a.propose(initCommand("a"))
	b.propose(initCommand("b"))
	stranger := b.leader()
	eventually(t, "cluster id on disk", func() bool {
		id, err := loadIdentity(stranger.o.Dir, "n1", false)
		return err == nil && id.ClusterID == "b"
	})
	if err := stranger.stop(); err != nil {
		t.Fatal(err)
	}
	victim := a.nodes["n1"]
	if err := victim.stop(); err != nil {
		t.Fatal(err)
	}
	a.propose(register("x", "1"))
	o := victim.o
	o.Dir = stranger.o.Dir
	victim.start(o)
	err := victim.wait()
	if !errors.Is(err, ErrForeignFolder) || !strings.Contains(err.Error(), "cluster a") || !strings.Contains(err.Error(), "cluster b") {
		t.Errorf("run: %v, want foreign folder that names both clusters", err)
	}
	delete(a.nodes, "n1")
	a.propose(register("x", "2"))
}

func TestAStateOfAnotherClusterThanTheFolderStopsTheNode(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 1, nil)
	c.propose(initCommand("c1"))
	n := c.leader()
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	if err := saveIdentity(n.o.Dir, membership{NodeID: "n1", ClusterID: "c2"}); err != nil {
		t.Fatal(err)
	}
	n.restart()
	if err := n.wait(); !errors.Is(err, ErrForeignFolder) {
		t.Errorf("run: %v, want foreign folder", err)
	}
	delete(c.nodes, "n1")
}

func TestAMemberThatLostItsLogDoesNotStartACluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := saveIdentity(dir, membership{NodeID: "n1", ClusterID: "c1"}); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Dir: dir, ID: "n1", Logger: slog.New(slog.DiscardHandler), RaftListen: "127.0.0.1:0", Peers: []Peer{{"n1", "127.0.0.1:1"}}})
	if !errors.Is(err, ErrForeignFolder) {
		t.Errorf("open: %v, want a refusal", err)
	}
}

func TestAVoterWhoseFolderWasEmptiedStopsBeforeItVotes(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, nil)
	c.propose(initCommand("c1"))
	lost := c.followers()[0]
	c.propose(register(string(lost.o.ID), "1")) // as nodes introduce themselves
	for _, n := range c.nodes {
		n.caughtUp(c.leader().View().Index())
	}
	if err := lost.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(lost.o.Dir); err != nil {
		t.Fatal(err)
	}
	lost.restart()
	if err := lost.wait(); !errors.Is(err, ErrEmptied) || lost.View().ClusterID() != "" {
		t.Errorf("run: %v, want a refusal; it holds cluster %q", err, lost.View().ClusterID())
	}
	delete(c.nodes, lost.o.ID)
	c.propose(register("x", "2"))
}

func TestAVoterThatStartsLaterThanTheOthersIsTaken(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, nil)
	late := c.followers()[0]
	if err := late.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(late.o.Dir); err != nil {
		t.Fatal(err)
	}
	c.propose(initCommand("c1")) // it was never heard of
	c.propose(register("x", "1"))
	late.restart()
	late.caughtUp(c.leader().View().Index())
}

func TestAFolderTellsItsCluster(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []string{"", "c1"} {
		if want != "" {
			if err := saveIdentity(dir, membership{NodeID: "n1", ClusterID: want}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := ClusterOf(dir); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, identityFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ClusterOf(dir); err == nil {
		t.Error("what can't be read is taken for no cluster")
	}
}

func TestANodeThatWasToJoinNeverBootstraps(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir(), ID: "n1", RaftListen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
	for _, peers := range [][]Peer{nil, {{"n1", "127.0.0.1:1"}}} {
		o.Peers = peers
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if last, _ := s.file.LastIndex(); last != 0 {
			t.Errorf("with peers %v the log has %d entries", peers, last)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnIdentityThatCannotBeReadIsRefused(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "no JSON": "n1", "no node": "{}"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, identityFile), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := loadIdentity(dir, "n1", false); !errors.Is(err, ErrForeignFolder) {
				t.Errorf("%v, want a refusal", err)
			}
		})
	}
}

func TestTheDigestOfAListDoesNotDependOnItsOrder(t *testing.T) {
	a, b := Peer{"n1", "x:1"}, Peer{"n2", "x:2"}
	if listDigest([]Peer{a, b}) != listDigest([]Peer{b, a}) {
		t.Error("the order matters")
	}
	if listDigest([]Peer{a, b}) == listDigest([]Peer{a, {fleet.NodeID("n2"), "x:3"}}) {
		t.Error("an address does not matter")
	}
	if listDigest(nil) != "" {
		t.Error("no list has a digest")
	}
}
