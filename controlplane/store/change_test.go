package store

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"anabranch/api/fleet"
)

// grown is a cluster of three with a fourth node that has an empty folder and waits to be added.
func grown(t *testing.T) (*testCluster, *testNode, context.Context) {
	t.Helper()
	c := newTestCluster(t, 3, nil)
	c.propose(initCommand("c1"))
	l := listen(t)
	fourth := c.add(Peer{ID: "n4", Address: l.Addr().String()}, l, nil, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return c, fourth, ctx
}

func TestAFourthNodeJoinsAndLeaves(t *testing.T) {
	t.Parallel()
	c, fourth, ctx := grown(t)
	leader := c.leader()
	if stats := fourth.Stats(); stats.Member || stats.Voters != 0 {
		t.Errorf("a member before it was added: %+v", stats)
	}
	for range 2 { // the second changes nothing
		if err := leader.AddNonvoter(ctx, "n4", fourth.address); err != nil {
			t.Fatal(err)
		}
	}
	fourth.caughtUp(c.propose(register("a", "1")).GetRevision())
	if stats := fourth.Stats(); !stats.Member || stats.Voter || stats.Voters != 3 {
		t.Errorf("no plain member after it was added: %+v", stats)
	}
	for range 2 {
		if err := leader.AddVoter(ctx, "n4"); err != nil {
			t.Fatal(err)
		}
	}
	fourth.caughtUp(c.propose(register("a", "2")).GetRevision())
	if stats := fourth.Stats(); !stats.Voter || stats.Voters != 4 {
		t.Errorf("no voter: %+v", stats)
	}
	if err := leader.RemoveMember(ctx, "n4", false); err != nil {
		t.Fatal(err)
	}
	got := leader.Stats().Changes
	for what, want := range map[Change]uint64{ChangeAdd: 1, ChangePromote: 1, ChangeRemove: 1, ChangeMove: 0} {
		if got[what] != want {
			t.Errorf("%d changes were %s, want %d", got[what], what, want)
		}
	}
}

func TestWhatIsRefusedOfChanges(t *testing.T) {
	t.Parallel()
	c, fourth, ctx := grown(t)
	leader, follower := c.leader(), c.nodes["n1"]
	if follower == leader {
		follower = c.nodes["n2"]
	}
	for _, r := range []struct {
		name string
		do   func() error
		want error
	}{
		{"a third voter goes", func() error { return leader.RemoveMember(ctx, follower.ID(), false) }, ErrTooFewVoters},
		{"a stranger goes", func() error { return leader.RemoveMember(ctx, "unheard-of", false) }, ErrNotMember},
		{"a stranger goes by force", func() error { return leader.RemoveMember(ctx, "unheard-of", true) }, ErrNotMember},
		{"a stranger becomes a voter", func() error { return leader.AddVoter(ctx, "n4") }, ErrNotMember},
		{"two at one address", func() error { return leader.AddNonvoter(ctx, "n4", follower.address) }, ErrAddressTaken},
		{"to a stranger", func() error { return leader.TransferLeadership(ctx, "unheard-of") }, ErrNotMember},
	} {
		if err := r.do(); !errors.Is(err, r.want) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("%s: %v, want %v", r.name, err, r.want)
		}
	}
	for name, do := range map[string]func() error{
		"add":      func() error { return follower.AddNonvoter(ctx, "n4", fourth.address) },
		"remove":   func() error { return follower.RemoveMember(ctx, "n4", false) },
		"transfer": func() error { return follower.TransferLeadership(ctx, "") },
	} {
		if err := do(); !errors.As(err, new(ErrNotLeader)) {
			t.Errorf("%s at a follower: %v, want not leader", name, err)
		}
	}
	if got := len(leader.Members()); got != 3 {
		t.Errorf("%d members after nothing but refusals", got)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	leader.changing <- struct{}{} // another change is under way
	if err := leader.AddNonvoter(ended, "n4", fourth.address); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who had left: %v", err)
	}
	<-leader.changing
}

// A dead voter whose address the new node needs is the case for force.
func TestForceGoesBelowThreeVotersAndNeverToNone(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 2, nil)
	c.propose(initCommand("c1"))
	leader, follower := c.leader(), c.followers()[0]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := leader.RemoveMember(ctx, follower.ID(), false); !errors.Is(err, ErrTooFewVoters) {
		t.Errorf("without force: %v", err)
	}
	if err := leader.RemoveMember(ctx, follower.ID(), true); err != nil {
		t.Fatal(err)
	}
	if err := leader.RemoveMember(ctx, leader.ID(), true); !errors.Is(err, ErrTooFewVoters) {
		t.Errorf("the last voter: %v, want too few", err)
	}
	if err := leader.TransferLeadership(ctx, ""); !errors.Is(err, ErrNoSuccessor) {
		t.Errorf("transfer by the only voter: %v, want nobody", err)
	}
	c.propose(register("a", "alone"))
}

func TestALeaderThatIsRemovedHandsOverFirst(t *testing.T) {
	t.Parallel()
	c, fourth, ctx := grown(t)
	leader := c.leader()
	if err := leader.AddNonvoter(ctx, "n4", fourth.address); err != nil {
		t.Fatal(err)
	}
	if err := leader.AddVoter(ctx, "n4"); err != nil {
		t.Fatal(err)
	}
	fourth.caughtUp(c.propose(register("a", "1")).GetRevision())
	if err := leader.RemoveMember(ctx, leader.ID(), false); !errors.As(err, new(ErrNotLeader)) {
		t.Fatalf("a leader removes itself: %v, want it to point to the next one", err)
	}
	next := c.leader()
	for next == leader {
		next = c.leader()
	}
	if err := next.RemoveMember(ctx, leader.ID(), false); err != nil {
		t.Fatal(err)
	}
	if got := next.Members(); len(got) != 3 || slices.ContainsFunc(got, func(m Member) bool { return m.ID == leader.ID() }) {
		t.Errorf("members %+v", got)
	}
}

// After a change Raft takes no snapshot before the next command: the change brings it along.
func TestASnapshotCanBeTakenRightAfterAChange(t *testing.T) {
	t.Parallel()
	c, fourth, ctx := grown(t)
	leader := c.leader()
	before := leader.View().Index()
	if err := leader.AddNonvoter(ctx, "n4", fourth.address); err != nil {
		t.Fatal(err)
	}
	if leader.View().Index() <= before {
		t.Fatal("no command came after the change")
	}
	if err := leader.Snapshot(ctx); err != nil {
		t.Fatal(err)
	}
	list, err := leader.snapshots.List()
	if err != nil || len(list) == 0 || list[0].ConfigurationIndex == 0 || len(list[0].Configuration.Servers) != 4 {
		t.Errorf("snapshots %+v, %v: want one with four members", list, err)
	}
}

// The id is the node's, wherever it is: the folder moves, the member's address follows.
func TestAMemberThatMovedIsTheSameMember(t *testing.T) {
	t.Parallel()
	c, fourth, ctx := grown(t)
	leader := c.leader()
	if err := leader.AddNonvoter(ctx, "n4", fourth.address); err != nil {
		t.Fatal(err)
	}
	fourth.caughtUp(c.propose(register("a", "1")).GetRevision())
	l := listen(t) // while the old port is in use
	if err := fourth.stop(); err != nil {
		t.Fatal(err)
	}
	moved := fourth.o
	moved.Listener, moved.RaftListen = l, ""
	fourth.start(moved)
	if err := leader.AddNonvoter(ctx, "n4", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	fourth.caughtUp(c.propose(register("a", "2")).GetRevision())
	at := find(leader.Members(), "n4")
	if at != 3 || leader.Members()[at].Address != l.Addr().String() || leader.Stats().Changes[ChangeMove] != 1 {
		t.Errorf("members %+v, changes %v", leader.Members(), leader.Stats().Changes)
	}
	if fourth.o.Dir != filepath.Join(c.dir, "n4") || fourth.ID() != fleet.NodeID("n4") {
		t.Errorf("%s in %s", fourth.ID(), fourth.o.Dir)
	}
}
