package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/state/statepb"
)

func TestACommandReachesEveryNode(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, nil)
	// A leader that lost its place may have got it through all the same, and it is proposed again.
	if out := c.propose(initCommand("c1")); out.GetCode() != "" && out.GetCode() != "exists" {
		t.Fatalf("init: %v", out)
	}
	out := c.propose(register("a", "1"))
	if out.GetCode() != "" || out.GetRevision() == 0 {
		t.Fatalf("outcome %v", out)
	}
	for _, n := range c.nodes {
		n.caughtUp(out.GetRevision())
		if got := n.value("a"); got != "1" {
			t.Errorf("%s has %q, want 1", n.o.ID, got)
		}
		if got := len(n.Members()); got != 3 {
			t.Errorf("%s knows %d members, want 3", n.o.ID, got)
		}
	}
}

func TestAFollowerNamesTheLeader(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, nil)
	c.propose(initCommand("c1"))
	leader := c.leader()
	for _, f := range c.followers() {
		eventually(t, "follower knows leader", func() bool { id, _ := f.Leader(); return id == leader.ID() })
		_, err := f.Propose(t.Context(), register("a", "1"))
		var elsewhere ErrNotLeader
		if !errors.As(err, &elsewhere) || elsewhere.ID != leader.ID() || elsewhere.Address != leader.address {
			t.Errorf("%s: %v, want it to name %s", f.o.ID, err, leader.ID())
		}
		if _, err := f.ReadIndex(t.Context()); !errors.As(err, &elsewhere) {
			t.Errorf("%s: read index: %v, want not leader", f.o.ID, err)
		}
	}
}

func TestWritesWorkAgainWithinThreeSecondsOfTheLeadersDeath(t *testing.T) {
	c := newTestCluster(t, 3, func(o *Options) { o.abrupt = true })
	c.propose(initCommand("c1"))
	out := c.propose(register("a", "before"))
	for _, n := range c.nodes {
		n.caughtUp(out.GetRevision())
	}
	leader := c.leader()
	leader.cancel()
	killed := time.Now()
	if err := leader.wait(); err != nil {
		t.Fatal(err)
	}
	c.propose(register("a", "after"))
	took := time.Since(killed)
	t.Logf("kill to first write: %s", took)
	if took > 3*time.Second {
		t.Errorf("kill to first write took %s, at most 3s are allowed", took)
	}
}

func TestAStoppingLeaderHandsOverAtOnce(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	c.propose(initCommand("c1"))
	leader := c.leader()
	if err := leader.stop(); err != nil {
		t.Fatal(err)
	}
	// It stopped only after another had taken over, or the handover had been given up.
	stopped := time.Now()
	c.propose(register("a", "after"))
	if took := time.Since(stopped); took > heartbeat {
		t.Errorf("the next write took %s: no handover", took)
	}
}

func TestARestartedFollowerCatchesUpFromTheLog(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, nil)
	c.propose(initCommand("c1"))
	f := c.followers()[0]
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	var out *statepb.Outcome
	for i := range 50 {
		out = c.propose(register("a", fmt.Sprint(i)))
	}
	f.restart()
	f.caughtUp(out.GetRevision())
	if got := f.value("a"); got != "49" {
		t.Errorf("a is %q, want 49", got)
	}
}

func TestARestartedFollowerCatchesUpFromASnapshot(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, func(o *Options) { o.TrailingLogs = 4 })
	c.propose(initCommand("c1"))
	f := c.followers()[0]
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		c.propose(register("a", fmt.Sprint(i)))
	}
	behind := f.View().Index()
	for _, n := range c.nodes {
		if n != f {
			if err := n.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "log cut", func() bool { return n.Stats().LogFirst > behind+1 })
		}
	}
	out := c.propose(register("b", "last"))
	f.restart()
	f.caughtUp(out.GetRevision())
	if f.value("a") != "39" || f.value("b") != "last" || f.View().ClusterID() != "c1" {
		t.Errorf("a is %q, b is %q, cluster %q", f.value("a"), f.value("b"), f.View().ClusterID())
	}
	// And again from its own snapshot and log, alone.
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	f.restart()
	f.caughtUp(out.GetRevision())
}

func TestAReadIndexCoversWhatWasAcknowledgedBefore(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, nil)
	c.propose(initCommand("c1"))
	for i := range 10 {
		want := fmt.Sprint(i)
		out := c.propose(register("a", want))
		leader := c.leader()
		index, err := leader.ReadIndex(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if index < out.GetRevision() {
			t.Fatalf("read index %d, the write before was %d", index, out.GetRevision())
		}
		for _, n := range c.nodes {
			n.caughtUp(index)
			if got := n.value("a"); got != want {
				t.Fatalf("%s reads %q at %d, want %q", n.o.ID, got, index, want)
			}
		}
		if i == 4 {
			if err := leader.TransferLeadership(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Raft's own entries are no commands: a reader must not wait for an index that no command has.
func TestAReadIndexIsReachedWithoutFurtherWrites(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, nil)
	out := c.propose(initCommand("c1"))
	for range 3 { // each leaves a no-op and a barrier behind the last command
		if err := c.leader().TransferLeadership(t.Context(), ""); err != nil {
			t.Logf("transfer: %v", err)
		}
		var index uint64
		eventually(t, "a read index", func() (ok bool) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var err error
			index, err = c.leader().ReadIndex(ctx)
			return err == nil
		})
		if index != out.GetRevision() {
			t.Errorf("read index %d, the only command was %d", index, out.GetRevision())
		}
		for _, n := range c.nodes {
			n.caughtUp(index)
		}
	}
}

func TestTermsComeOneAtATimeWithTheStateOfEarlierOnes(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, nil)
	type begun struct {
		node *testNode
		term Term
		at   uint64
	}
	terms := make(chan begun)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, n := range c.nodes {
		go func() {
			for {
				select {
				case term := <-n.Terms():
					select {
					case terms <- begun{n, term, n.View().Index()}:
					case <-ctx.Done():
					}
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	var last begun
	var written uint64
	for i := range 3 {
		var b begun
		select {
		case b = <-terms:
		case <-time.After(patience):
			t.Fatal("no term")
		}
		if b.term.Number <= last.term.Number {
			t.Errorf("term %d after %d", b.term.Number, last.term.Number)
		}
		if b.at < written {
			t.Errorf("term %d begins at %d, %d was acknowledged", b.term.Number, b.at, written)
		}
		if last.node != nil {
			select {
			case <-last.term.Ctx.Done():
			case <-time.After(patience):
				t.Errorf("term %d has not ended", last.term.Number)
			}
		}
		out, err := b.node.Propose(ctx, initCommand("c1"))
		if err != nil {
			t.Fatal(err)
		}
		written, last = out.GetRevision(), b
		if i < 2 {
			if err := b.node.TransferLeadership(ctx, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !last.node.Ready() {
		t.Error("a leader in its term is not ready")
	}
}

func TestWhatIsWrongWithACommandIsCertain(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 1, nil)
	c.propose(initCommand("c1"))
	leader := c.leader()
	large := register("a", strings.Repeat("x", maxPlain))
	if _, err := leader.Propose(t.Context(), large); !errors.Is(err, ErrTooLarge) || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("large command: %v, want too large", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := leader.Propose(ctx, register("a", "1")); err == nil {
		t.Error("a command of a caller who had left was acknowledged")
	}
	if err := leader.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := leader.Propose(t.Context(), register("a", "1")); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v, want closed", err)
	}
	if err := leader.WaitApplied(t.Context(), 1<<40); !errors.Is(err, ErrClosed) {
		t.Errorf("waiting after the end: %v, want closed", err)
	}
	if err := leader.Run(t.Context()); err == nil {
		t.Error("a store ran twice")
	}
}

func TestAnEntryThatCannotBeAppliedStopsTheNode(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 1, nil)
	c.propose(initCommand("c1"))
	leader := c.leader()
	at := leader.View().Index()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := leader.Propose(ctx, level(99))
	if !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("propose: %v, want unknown outcome", err)
	}
	err = leader.wait()
	if err == nil || !strings.Contains(err.Error(), "apply entry") {
		t.Errorf("run: %v, want it to name the entry", err)
	}
	if got := leader.View().Index(); got != at {
		t.Errorf("view at %d, was %d before the entry", got, at)
	}
	delete(c.nodes, leader.ID())
}

func TestANodeWithoutAnIDKeepsTheOneThatItMade(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir(), RaftListen: "127.0.0.1:0"}
	var ids []fleet.NodeID
	for range 2 {
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if ids[0] == "" || ids[0] != ids[1] {
		t.Errorf("ids %v, want the same twice", ids)
	}
	if _, err := os.Stat(o.Dir + "/" + identityFile); err != nil {
		t.Error(err)
	}
}
