package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/controlplane/store"
)

func TestRemovalsNeverEndTheMajority(t *testing.T) {
	members := func(voters int, others ...fleet.NodeID) (list []store.Member) {
		for i := range voters {
			list = append(list, store.Member{ID: fleet.NodeID(fmt.Sprintf("n%d", i+1)), Voter: true})
		}
		for _, id := range others {
			list = append(list, store.Member{ID: id})
		}
		return list
	}
	alive := func(ids ...fleet.NodeID) map[fleet.NodeID]bool {
		m := map[fleet.NodeID]bool{}
		for _, id := range ids {
			m[id] = true
		}
		return m
	}
	for _, c := range []struct {
		name    string
		members []store.Member
		alive   map[fleet.NodeID]bool
		id      fleet.NodeID
		want    bool
	}{
		{"all live", members(4), alive("n1", "n2", "n3", "n4"), "n4", true},
		{"the dead one goes", members(4), alive("n1", "n2", "n3"), "n4", true},
		{"a living one goes, two of three remain", members(4), alive("n1", "n2", "n3"), "n3", true},
		{"a living one goes, two of four remain", members(5), alive("n1", "n2", "n3"), "n3", false},
		{"a dead one of five goes", members(5), alive("n1", "n2", "n3"), "n5", true},
		{"the dead one of three goes", members(3), alive("n1", "n2"), "n3", true},
		{"a living one of three goes", members(3), alive("n1", "n2"), "n2", false},
		{"a non-voter goes", members(3, "n9"), alive("n1", "n2"), "n9", true},
		{"non-voters do not count", members(3, "n8", "n9"), alive("n1", "n2", "n8", "n9"), "n2", false},
		{"a stranger goes", members(3), alive("n1"), "n9", true},
		{"the only one goes", members(1), alive("n1"), "n1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := quorumWithout(c.members, c.alive, c.id); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Removing whoever is dead, while there is a majority, never takes it away.
func TestTheDeadMayAlwaysGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 9).Draw(t, "voters")
		living := rapid.IntRange(n/2+1, n-1).Draw(t, "living")
		var members []store.Member
		alive := map[fleet.NodeID]bool{}
		for i := range n {
			id := fleet.NodeID(fmt.Sprint(i))
			members = append(members, store.Member{ID: id, Voter: true})
			alive[id] = i < living
		}
		dead := fleet.NodeID(fmt.Sprint(rapid.IntRange(living, n-1).Draw(t, "dead")))
		if !quorumWithout(members, alive, dead) {
			t.Fatalf("%d of %d live, and dead %s may not go", living, n, dead)
		}
	})
}

func TestWhoIsFurthest(t *testing.T) {
	members := []store.Member{{ID: "n1", Voter: true}, {ID: "n2", Voter: true}, {ID: "n3", Voter: true}, {ID: "n4"}}
	for _, c := range []struct {
		name  string
		known []PeerStatus
		want  fleet.NodeID
	}{
		{"nobody was heard", nil, ""},
		{"the one with most", []PeerStatus{{ID: "n2", AppliedIndex: 5}, {ID: "n3", AppliedIndex: 6}}, "n3"},
		{"not one that is silent", []PeerStatus{{ID: "n2", AppliedIndex: 5}, {ID: "n3", AppliedIndex: 6, Age: time.Minute}}, "n2"},
		{"not one that does not vote", []PeerStatus{{ID: "n2", AppliedIndex: 5}, {ID: "n4", AppliedIndex: 6}}, "n2"},
		{"not this one", []PeerStatus{{ID: "n1", AppliedIndex: 9}, {ID: "n2"}}, "n2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := furthest(members, "n1", c.known, 3*time.Second); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCandidatesVoteAfterTenSecondsNearTheEnd(t *testing.T) {
	members := []store.Member{{ID: "n1", Voter: true}, {ID: "n4"}}
	start := time.Unix(1000, 0)
	c := candidates{}
	// What the leader hears of n4 at each second: how far it is and how old that is.
	for i, s := range []struct {
		applied uint64
		age     time.Duration
		due     bool
	}{
		{applied: 500}, // 1,000 is the end: too far
		{applied: 700},
		{applied: 750}, // near from here on
		{applied: 800},
		{applied: 800, age: 2 * time.Second},
		{applied: 800, age: 4 * time.Second}, // silent: from the start again
		{applied: 900},
		{applied: 910},
		{applied: 920},
		{applied: 930},
		{applied: 940},
		{applied: 950},
		{applied: 960},
		{applied: 970},
		{applied: 980},
		{applied: 990},
		{applied: 1000, due: true}, // ten seconds after 900
		{applied: 1000},            // proposed once; if that failed, it waits again
	} {
		got := c.due(start.Add(time.Duration(i)*time.Second), members, []PeerStatus{{ID: "n4", AppliedIndex: s.applied, FeatureLevel: 2, Age: s.age}}, at(1000), 3*time.Second, 10*time.Second)
		if (len(got) == 1) != s.due {
			t.Errorf("at %d s with %d: due %v, want %v", i, s.applied, got, s.due)
		}
	}
	if got := c.due(start.Add(time.Hour), members[:1], nil, at(1000), 3*time.Second, 10*time.Second); len(got) != 0 || len(c) != 0 {
		t.Errorf("one that was removed is due (%v) or remembered (%v)", got, c)
	}
}

func TestAnOperatorAddsAndRemovesThroughAnyNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 3)
	c.begin()
	through := c.follower()
	fourth := c.add(store.Options{ID: "n4", RaftListen: "127.0.0.1:0"})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	eventually(t, "the leader hears all", func() bool { return len(c.leader().Peers()) == 2 })
	for _, r := range []struct {
		name    string
		id      fleet.NodeID
		address string
		want    error
	}{
		{"nobody there", "n4", "127.0.0.1:1", ErrNotThere},
		{"somebody else there", "n5", fourth.store.Address(), ErrNotThere},
		{"a member there", "n4", through.store.Address(), ErrNotThere},
	} {
		if err := through.Add(ctx, r.id, r.address); !errors.Is(err, r.want) {
			t.Errorf("%s: %v, want %v", r.name, err, r.want)
		}
	}
	for range 2 {
		if err := through.Add(ctx, "n4", fourth.store.Address()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a fourth voter", func() bool { return voters(c.leader())["n4"] })
	if err := through.Remove(ctx, "n9", false); !errors.Is(err, store.ErrNotMember) {
		t.Errorf("a stranger goes: %v", err)
	}
	// Whoever leads goes, and hands over first.
	old := c.leader()
	if err := through.Remove(ctx, old.o.ID, false); err != nil {
		t.Fatal(err)
	}
	if _, still := voters(c.leader())[old.o.ID]; still {
		t.Errorf("%s is a member still", old.o.ID)
	}
	eventually(t, "all hear each other", func() bool { return len(c.leader().Peers()) == 2 })
	if err := through.Remove(ctx, "n4", false); !errors.Is(err, store.ErrTooFewVoters) {
		t.Errorf("a third voter goes: %v", err)
	}
}

func TestRemovalsThatWouldEndTheMajorityAreRefusedEvenByForce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 3)
	c.begin()
	leader, dead := c.leader(), c.follower()
	eventually(t, "the leader hears all", func() bool { return len(leader.Peers()) == 2 })
	var other fleet.NodeID
	for id := range c.nodes {
		if id != leader.o.ID && id != dead.o.ID {
			other = id
		}
	}
	dead.stop()
	eventually(t, "one is silent", func() bool { return !leader.alive(time.Now())[dead.o.ID] })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.nodes[other].Remove(ctx, other, true); !errors.Is(err, ErrQuorumAtRisk) {
		t.Errorf("one of the two that live goes: %v, want the majority to be at risk", err)
	}
	if err := c.nodes[other].Remove(ctx, dead.o.ID, true); err != nil {
		t.Fatal(err)
	}
	leader.mustPropose(register("a", "1"))
	// Its place is free for a node with another id and the same address.
	l, err := net.Listen("tcp", dead.o.RaftListen)
	if err != nil {
		t.Fatal(err)
	}
	next := c.add(store.Options{ID: "n4", Listener: l})
	if err := next.Join(ctx, []string{leader.store.Address()}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a third voter", func() bool { return voters(leader)["n4"] })
}

func TestLeadershipIsHandedOverThroughAnyNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 3)
	c.begin()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, n := range c.nodes {
		for _, to := range c.nodes {
			var got fleet.NodeID
			eventually(t, "handed over", func() (done bool) {
				var err error
				got, err = n.Transfer(ctx, to.o.ID)
				if err != nil && !errors.Is(err, store.ErrNoSuccessor) && !errors.Is(err, ErrUnknownOutcome) {
					t.Fatalf("%s asked for %s: %v", n.o.ID, to.o.ID, err)
				}
				return err == nil
			})
			if got != to.o.ID {
				t.Errorf("%s asked for %s, %s leads", n.o.ID, to.o.ID, got)
			}
		}
	}
	leader := c.leader()
	eventually(t, "the leader hears all", func() bool { return len(leader.Peers()) == 2 })
	got, err := leader.Transfer(ctx, "")
	if err != nil || got == leader.o.ID {
		t.Errorf("to whoever is furthest: %q, %v", got, err)
	}
	if _, err := c.follower().Transfer(ctx, "n9"); !errors.Is(err, store.ErrNotMember) {
		t.Errorf("to a stranger: %v, want not a member", err)
	}
}

func TestMostOfTheOthersMustCallANodeAStranger(t *testing.T) {
	p := newPeers()
	since := time.Now().Add(-time.Minute)
	for _, step := range []struct {
		node     fleet.NodeID
		stranger bool
		want     int
	}{{"n1", false, 0}, {"n2", true, 1}, {"n1", true, 2}, {"n1", true, 2}, {"n2", false, 1}} {
		if p.judged(step.node, step.stranger); p.strangers(since) != step.want {
			t.Errorf("after %s said %v: %d, want %d", step.node, step.stranger, p.strangers(since), step.want)
		}
	}
	if n := p.strangers(time.Now().Add(time.Minute)); n != 0 {
		t.Errorf("what was said long ago counts: %d", n)
	}
	p.keep(nil)
	if n := p.strangers(since); n != 0 {
		t.Errorf("what nodes said that are gone counts: %d", n)
	}
}
