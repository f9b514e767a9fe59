package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"anabranch/api/fleet"
)

// slowLink gives each call some virtual time on the way, and can be cut.
type slowLink struct {
	*raft.InmemTransport
	mu  *sync.Mutex // guards cut, of all links
	cut map[raft.ServerAddress]bool
}

var errCut = errors.New("link is cut")

func (s slowLink) pass(to raft.ServerAddress) error {
	<-time.After(time.Duration(1+rand.IntN(3)) * time.Millisecond) // virtual: the latency of the link
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut[to] || s.cut[s.LocalAddr()] {
		return errCut
	}
	return nil
}

func (s slowLink) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := s.pass(to); err != nil {
		return err
	}
	return s.InmemTransport.AppendEntries(id, to, args, resp)
}

func (s slowLink) TimeoutNow(id raft.ServerID, to raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	if err := s.pass(to); err != nil {
		return err
	}
	return s.InmemTransport.TimeoutNow(id, to, args, resp)
}

func (s slowLink) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if err := s.pass(to); err != nil {
		return err
	}
	return s.InmemTransport.RequestVote(id, to, args, resp)
}

func (s slowLink) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if err := s.pass(to); err != nil {
		return err
	}
	return s.InmemTransport.RequestPreVote(id, to, args, resp)
}

// Minutes of partitions in virtual time: whatever a leader acknowledged is there in the end, in
// the order in which it was acknowledged.
func TestNothingAcknowledgedIsLostWhenLeadersAreCutOff(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const cuts = 10
		links, nodes := virtualCluster(t, dir, func(*Options) {})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, s := range nodes {
			running.Go(func() {
				if err := s.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		mustPropose(t, nodes, "init")
		var last uint64
		for i := range cuts {
			leader := waitForLeader(nodes)
			links.set(leader.Address(), true)
			began := time.Now()
			last = mustPropose(t, nodes, fmt.Sprint(i))
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("cut %d: %s of virtual time to the next write, at most 3s are allowed", i, took)
			}
			links.set(leader.Address(), false)
			<-time.After(time.Duration(rand.IntN(2000)) * time.Millisecond) // virtual
		}
		for _, s := range nodes {
			if err := s.WaitApplied(ctx, last); err != nil {
				t.Fatal(err)
			}
			if n, _ := s.View().Node("register"); n.GetVersion() != fmt.Sprint(cuts-1) {
				t.Errorf("%s ends with %q, want %d", s.ID(), n.GetVersion(), cuts-1)
			}
		}
		cancel()
		running.Wait()
	})
}

// Whoever answers a read, however cut off, knows every write acknowledged before it was asked.
func TestAReadNeverMissesAnAcknowledgedWriteWhileLeadersAreCutOff(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		links, nodes := virtualCluster(t, dir, func(*Options) {})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, s := range nodes {
			running.Go(func() {
				if err := s.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		var acknowledged, answered, refused atomic.Uint64
		acknowledged.Store(mustPropose(t, nodes, "init"))
		for _, s := range nodes {
			running.Go(func() {
				for ctx.Err() == nil {
					want := acknowledged.Load()
					short, stop := context.WithTimeout(ctx, time.Second)
					index, err := s.ReadIndex(short)
					stop()
					switch {
					case err != nil:
						refused.Add(1)
					case index < want || s.View().Index() < want:
						t.Errorf("%s answers %d with its state at %d, %d was acknowledged", s.ID(), index, s.View().Index(), want)
					default:
						answered.Add(1)
					}
					<-time.After(7 * time.Millisecond) // virtual
				}
			})
		}
		for i := range 10 {
			cut := waitForLeader(nodes).Address()
			links.set(cut, true)
			for j := range 20 {
				acknowledged.Store(mustPropose(t, nodes, fmt.Sprint(i, j)))
				<-time.After(50 * time.Millisecond) // virtual
			}
			links.set(cut, false)
			<-time.After(time.Second) // virtual
		}
		cancel()
		running.Wait()
		if answered.Load() < 100 || refused.Load() < 100 {
			t.Errorf("%d reads were answered, %d refused: too few to tell", answered.Load(), refused.Load())
		}
	})
}

// A leader is cut off with entries that nobody else has. The others go on so far that only their
// snapshot remains, which ends before those entries: it must throw them away and follow again.
func TestAnOldLeaderThatConflictsWithASnapshotFollowsAgain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		links, nodes := virtualCluster(t, dir, func(o *Options) { o.TrailingLogs = 2 })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, s := range nodes {
			running.Go(func() {
				if err := s.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		mustPropose(t, nodes, "init")
		old := waitForLeader(nodes)
		links.set(old.Address(), true)
		for range 50 {
			running.Go(func() {
				if _, err := old.Propose(ctx, register("register", "lost")); !errors.Is(err, ErrUnknownOutcome) {
					t.Errorf("proposal of a leader without followers: %v, want unknown", err)
				}
			})
		}
		<-time.After(5 * time.Second) // virtual: the others elect
		behind := old.Stats().LogLast
		for i := range 20 {
			mustPropose(t, nodes, fmt.Sprint(i))
		}
		for _, s := range nodes {
			if s != old {
				if err := s.Snapshot(ctx); err != nil {
					t.Fatal(err)
				}
				if first := s.Stats().LogFirst; first >= behind {
					t.Fatalf("the snapshot is at about %d, the old leader's log ends at %d: no conflict", first, behind)
				}
			}
		}
		last := mustPropose(t, nodes, "end")
		links.set(old.Address(), false)
		short, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		if err := old.WaitApplied(short, last); err != nil {
			t.Errorf("the old leader is at %d of %d: %v", old.View().Index(), last, err)
		}
		cancel()
		running.Wait()
	})
}

type links struct {
	mu  sync.Mutex
	cut map[raft.ServerAddress]bool
}

func (l *links) set(address string, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut[raft.ServerAddress(address)] = cut
}

func virtualCluster(t *testing.T, dir string, adjust func(*Options)) (*links, []*Store) {
	t.Helper()
	l := &links{cut: map[raft.ServerAddress]bool{}}
	var peers []Peer
	var transports []slowLink
	for i := range 3 {
		address, tr := raft.NewInmemTransportWithTimeout("", time.Second)
		transports = append(transports, slowLink{tr, &l.mu, l.cut})
		peers = append(peers, Peer{ID: fleet.NodeID(fmt.Sprintf("n%d", i+1)), Address: string(address)})
	}
	var nodes []*Store
	for i, p := range peers {
		for j, q := range peers {
			if i != j {
				transports[i].Connect(raft.ServerAddress(q.Address), transports[j].InmemTransport)
			}
		}
		o := Options{
			Dir: filepath.Join(dir, string(p.ID)), ID: p.ID, Peers: peers, Transport: transports[i],
			Logger: slog.New(slog.DiscardHandler), abrupt: true,
		}
		adjust(&o)
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, s)
	}
	return l, nodes
}

func waitForLeader(nodes []*Store) *Store {
	for {
		for _, s := range nodes {
			if s.IsLeader() {
				return s
			}
		}
		<-time.After(10 * time.Millisecond) // virtual
	}
}

// mustPropose writes value, through whichever leader gets it committed.
func mustPropose(t *testing.T, nodes []*Store, value string) uint64 {
	t.Helper()
	cmd := register("register", value)
	if value == "init" {
		cmd = initCommand("c1")
	}
	for {
		for _, s := range nodes {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			out, err := s.Propose(ctx, cmd)
			cancel()
			if err == nil {
				return out.GetRevision()
			}
		}
		<-time.After(10 * time.Millisecond) // virtual
	}
}
