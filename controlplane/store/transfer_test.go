package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func TestATransferThatNeverEndsIsNoticedByRefusals(t *testing.T) {
	s := &Store{o: Options{}.withDefaults(), halted: make(chan struct{})}
	s.logger = slog.New(slog.DiscardHandler)
	s.watchTransfer()
	s.watchTransfer()
	if s.haltReason() != nil {
		t.Fatal("stopped at once")
	}
	s.transferring.Add(-int64(s.o.scaled(stuckAfter + heartbeat)))
	s.watchTransfer()
	if s.haltReason() == nil {
		t.Error("not stopped after 21 timeouts")
	}
}

// runVirtual runs nodes until stop, which returns why each of them had to stop, nil for none. one
// stops a single node and waits for it.
func runVirtual(t *testing.T, nodes []*Store) (ctx context.Context, one func(*Store), stop func() map[*Store]error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var mu sync.Mutex // guards ends
	ends, stops := map[*Store]error{}, map[*Store]func(){}
	for _, s := range nodes {
		life, end := context.WithCancel(ctx)
		done := make(chan struct{})
		stops[s] = func() { end(); <-done }
		running.Go(func() {
			defer close(done)
			if err := s.Run(life); err != nil {
				mu.Lock()
				defer mu.Unlock()
				ends[s] = err
			}
		})
	}
	return ctx, func(s *Store) { stops[s]() }, func() map[*Store]error {
		cancel()
		running.Wait()
		return ends
	}
}

// noneEnded says that no node had to stop.
func noneEnded(t *testing.T, ends map[*Store]error) {
	t.Helper()
	for s, err := range ends {
		t.Errorf("%s stopped: %v", s.ID(), err)
	}
}

func TestLeadershipGoesWhereItIsAskedTo(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		_, nodes := virtualCluster(t, dir, func(*Options) {})
		ctx, _, stop := runVirtual(t, nodes)
		mustPropose(t, nodes, "init")
		for range 3 {
			for _, to := range nodes {
				leader := waitForLeader(nodes)
				<-time.After(time.Second) // virtual: the one before is over
				began := time.Now()
				if err := leader.TransferLeadership(ctx, to.ID()); err != nil {
					t.Fatalf("from %s to %s: %v", leader.ID(), to.ID(), err)
				}
				if got := waitForLeader(nodes); got != to {
					t.Errorf("%s leads, not %s", got.ID(), to.ID())
				}
				if took := time.Since(began); took > heartbeat {
					t.Errorf("from %s to %s took %s of virtual time, more than an election timeout", leader.ID(), to.ID(), took)
				}
				mustPropose(t, nodes, "again")
			}
		}
		noneEnded(t, stop())
	})
}

func TestATransferToANodeThatIsCutOffFailsAndWritesGoOn(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		links, nodes := virtualCluster(t, dir, func(*Options) {})
		ctx, _, stop := runVirtual(t, nodes)
		mustPropose(t, nodes, "init")
		leader := waitForLeader(nodes)
		var dead *Store
		for _, s := range nodes {
			if s != leader {
				dead = s
			}
		}
		for i := range 5 {
			links.set(dead.Address(), true)
			mustPropose(t, nodes, fmt.Sprint(i)) // which the dead one lacks
			err := leader.TransferLeadership(ctx, dead.ID())
			if !errors.Is(err, ErrNoSuccessor) || !leader.IsLeader() {
				t.Fatalf("transfer %d: %v, leader still: %v", i, err, leader.IsLeader())
			}
			began := time.Now()
			mustPropose(t, nodes, "after")
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("the write after a failed transfer took %s of virtual time", took)
			}
			links.set(dead.Address(), false)
			// Longer than what would be taken for one that does not end, were they one.
			<-time.After(15 * time.Second) // virtual
		}
		if got := leader.Stats().Transfers; got[TransferFailed] != 5 || got[TransferDone] != 0 {
			t.Errorf("transfers %v, want 5 failed", got)
		}
		noneEnded(t, stop())
	})
}

// deafToTimeoutNow takes the order to elect and never answers.
type deafToTimeoutNow struct {
	slowLink
	deaf <-chan struct{} // closed: it answers again
}

func (d deafToTimeoutNow) TimeoutNow(raft.ServerID, raft.ServerAddress, *raft.TimeoutNowRequest, *raft.TimeoutNowResponse) error {
	<-d.deaf
	return errCut
}

// Raft refuses writes until the order to elect is answered, however long that takes.
func TestALeaderStuckInATransferStopsAndAnotherTakesOver(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		_, nodes := virtualCluster(t, dir, func(o *Options) {
			o.Transport = deafToTimeoutNow{o.Transport.(slowLink), release}
		})
		ctx, _, stop := runVirtual(t, nodes)
		mustPropose(t, nodes, "init")
		leader := waitForLeader(nodes)
		if err := leader.TransferLeadership(ctx, ""); !errors.Is(err, ErrNoSuccessor) {
			t.Fatalf("transfer: %v, want nobody to have taken over", err)
		}
		if err := leader.TransferLeadership(ctx, ""); !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			t.Errorf("a second transfer: %v, want the first to be in its way", err)
		}
		began := time.Now()
		mustPropose(t, nodes, "after") // asks every node, the stuck one too
		if took := time.Since(began); took < stuckAfter || took > stuckAfter+3*time.Second {
			t.Errorf("the next write took %s of virtual time, want a bit more than %s", took, stuckAfter)
		}
		if leader.IsLeader() {
			t.Error("the stuck one leads still")
		}
		close(release)
		ends := stop()
		if err := ends[leader]; err == nil || !strings.Contains(err.Error(), "transfer of leadership does not end") {
			t.Errorf("the stuck one ended with %v", err)
		}
		delete(ends, leader)
		noneEnded(t, ends)
	})
}

// With one of three gone Raft's own choice may be the one that is gone.
func TestAStoppingLeaderFindsTheOneThatLives(t *testing.T) {
	dir := t.TempDir()
	for attempt := range 4 { // which of the two is gone, and Raft's choice, differ
		synctest.Test(t, func(t *testing.T) {
			links, nodes := virtualCluster(t, fmt.Sprint(dir, attempt), func(o *Options) { o.abrupt = false })
			_, one, stop := runVirtual(t, nodes)
			mustPropose(t, nodes, "init")
			leader := waitForLeader(nodes)
			var others []*Store
			for _, s := range nodes {
				if s != leader {
					others = append(others, s)
				}
			}
			dead, alive := others[attempt%2], others[(attempt+1)%2]
			<-time.After(time.Second) // virtual: both have all there is
			links.set(dead.Address(), true)
			<-time.After(heartbeat) // virtual
			one(leader)
			if !alive.IsLeader() {
				t.Errorf("attempt %d: %s does not lead when %s has stopped", attempt, alive.ID(), leader.ID())
			}
			noneEnded(t, stop())
			<-time.After(20 * time.Second) // virtual: calls to those that have stopped are given up
		})
	}
}
