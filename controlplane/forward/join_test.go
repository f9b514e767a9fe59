package forward

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/store"
)

func TestANewNodeJoinsThroughAnyNodeAndBecomesAVoter(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 3)
	c.begin()
	c.leader().mustPropose(register("a", "1"))
	through := c.follower()
	fourth := c.add(store.Options{ID: "n4", RaftListen: "127.0.0.1:0"})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := fourth.Join(ctx, []string{"127.0.0.1:1", through.store.Address()}); err != nil {
		t.Fatal(err)
	}
	if err := fourth.ReadIndex(ctx); err != nil {
		t.Fatal(err)
	}
	if got := fourth.value("a"); got != "1" {
		t.Errorf("a is %q, want 1", got)
	}
	eventually(t, "a fourth voter", func() bool { return voters(c.leader())["n4"] })
	if err := fourth.Join(ctx, []string{c.leader().store.Address()}); err != nil {
		t.Errorf("joining again: %v", err)
	}
	fourth.mustPropose(register("a", "2"))
}

func voters(n *node) map[fleet.NodeID]bool {
	found := map[fleet.NodeID]bool{}
	for _, m := range n.store.Members() {
		found[m.ID] = m.Voter
	}
	return found
}

func TestJoiningGivesUpWithTheReason(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 1)
	n := c.nodes["n1"]
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := n.Join(ctx, []string{"127.0.0.1:1"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not reachable") {
		t.Errorf("join: %v, want the deadline and why", err)
	}
	if err := n.Join(t.Context(), nil); err == nil {
		t.Error("joined nobody")
	}
}

func TestANodeThatMovedTellsTheLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 3)
	c.begin()
	f := c.follower()
	l, err := net.Listen("tcp", "127.0.0.1:0") // while the old port is in use
	if err != nil {
		t.Fatal(err)
	}
	f.stop()
	o := f.o
	o.Listener, o.RaftAdvertise = l, l.Addr().String() // the list of peers tells the old one
	f.start(o)
	moved := f.store.Address()
	if moved != l.Addr().String() {
		t.Fatalf("it tells others %s, and listens at %s", moved, l.Addr())
	}
	eventually(t, "the new address", func() bool {
		for _, m := range c.leader().store.Members() {
			if m.ID == f.o.ID {
				return m.Address == moved
			}
		}
		return false
	})
	f.mustPropose(register("a", "1"))
}

// at is a state at this index that uses feature level 2.
type at uint64

func (a at) Index() uint64      { return uint64(a) }
func (at) FeatureLevel() uint32 { return 2 }

func TestWhoHasCaughtUp(t *testing.T) {
	known := []PeerStatus{{ID: "n4", AppliedIndex: 1000, FeatureLevel: 2, Age: time.Second}}
	for _, c := range []struct {
		name  string
		id    fleet.NodeID
		known []PeerStatus
		index uint64
		want  bool
	}{
		{"level", "n4", known, 1000, true},
		{"ahead of us", "n4", known, 900, true},
		{"just within", "n4", known, 1000 + MaxLag, true},
		{"too far", "n4", known, 1001 + MaxLag, false},
		{"never heard", "n5", known, 0, false},
		{"heard long ago", "n4", []PeerStatus{{ID: "n4", AppliedIndex: 1000, FeatureLevel: 2, Age: 4 * time.Second}}, 1000, false},
		{"has nothing yet", "n4", []PeerStatus{{ID: "n4", FeatureLevel: 2}}, 100, false},
		{"an older build", "n4", []PeerStatus{{ID: "n4", AppliedIndex: 1000, FeatureLevel: 1}}, 1000, false},
		{"a build that is older still and tells no level", "n4", []PeerStatus{{ID: "n4", AppliedIndex: 1000}}, 1000, false},
		{"a newer build", "n4", []PeerStatus{{ID: "n4", AppliedIndex: 1000, FeatureLevel: 3}}, 1000, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := caughtUp(c.known, c.id, at(c.index), 3*time.Second); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
