package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
)

func allWell(fleet.NodeID) bool { return true }

// A leader that is isolated commits nothing, another one takes over within seconds, and the old one follows it as soon as
// the time is over, with nobody there to end it.
func TestAnIsolatedLeaderIsReplacedAndComesBack(t *testing.T) {
	rehearse(t, nil, func(t *testing.T, r *rehearsal) {
		const long = 15 * time.Second
		old, began := r.leader(), time.Now()
		term := old.Stats().Term
		if err := old.Isolate(long, allWell); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if out, err := old.Propose(ctx, register("isolated", "x")); err == nil {
			t.Errorf("it has committed %v", out)
		}
		now := waitForLeader(r.others(old))
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("another one led after %v", took)
		}
		if old.IsLeader() || now.Stats().Term <= term {
			t.Errorf("%s leads in term %d, and %s in term %d", now.ID(), now.Stats().Term, old.ID(), old.Stats().Term)
		}
		for time.Since(began) < long-2*time.Second { // the others go on
			r.within(2 * time.Second)
			<-time.After(time.Second)
		}
		if got := waitForLeader(r.all()); got == old {
			t.Errorf("%s leads while it is isolated", got.ID())
		}
		<-time.After(time.Until(began.Add(long + time.Second)))
		_, index := r.write()
		r.follows(old, index)
		if !waitForLeader(r.all()).IsLeader() || waitForLeader(r.all()).Stats().Term < now.Stats().Term {
			t.Error("its return has taken the lead from those who had it")
		}
	})
}

func TestALeaderIsNotIsolatedWhereThatWouldEndTheCluster(t *testing.T) {
	rehearse(t, nil, func(t *testing.T, r *rehearsal) {
		leader := r.leader()
		other := r.others(leader)[0]
		for name, c := range map[string]struct {
			of      *Store
			d       time.Duration
			healthy func(fleet.NodeID) bool
			want    string
		}{
			"a follower":             {other, time.Second, allWell, "does not lead"},
			"no time":                {leader, 0, allWell, "the limit is 20s"},
			"too long":               {leader, MaxIsolation + 1, allWell, "the limit is 20s"},
			"one that does not hear": {leader, time.Second, func(id fleet.NodeID) bool { return id != other.ID() }, "1 of 3 voters do not answer"},
		} {
			if err := c.of.Isolate(c.d, c.healthy); !errors.Is(err, ErrIsolation) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
		r.within(time.Second)
		if r.leader() != leader {
			t.Error("somebody was isolated")
		}
	})
}

func TestWhoIsIsolatedSendsNothing(t *testing.T) {
	f := &fence{stalled: func() bool { return false }, cut: func() bool { return true }} // without a transport: a call would panic
	for name, err := range map[string]error{
		"entries":     f.AppendEntries("n2", "x", nil, nil),
		"a pre-vote":  f.RequestPreVote("n2", "x", nil, nil),
		"a vote":      f.RequestVote("n2", "x", nil, nil),
		"a snapshot":  f.InstallSnapshot("n2", "x", nil, nil, nil),
		"a hand-over": f.TimeoutNow("n2", "x", nil, nil),
	} {
		if !errors.Is(err, errIsolated) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
