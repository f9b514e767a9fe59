package store

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"anabranch/api/fleet"
)

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

// stage is where nodes in virtual time meet; a node can be opened on it again after it has ended.
type stage struct {
	t          *testing.T
	dir        string
	links      *links
	peers      []Peer
	transports []slowLink
	adjust     func(*Options)
}

func newStage(t *testing.T, dir string, adjust func(*Options)) *stage {
	st := &stage{t: t, dir: dir, links: newLinks(), adjust: adjust, transports: make([]slowLink, 3)}
	for i := range st.transports {
		p := Peer{ID: fleet.NodeID(fmt.Sprintf("n%d", i+1)), Address: string(raft.NewInmemAddr())}
		st.peers = append(st.peers, p)
	}
	return st
}

// open opens the node at a place, connected with those that are open already.
func (st *stage) open(i int) *Store {
	st.t.Helper()
	p := st.peers[i]
	_, tr := raft.NewInmemTransportWithTimeout(raft.ServerAddress(p.Address), time.Second)
	st.transports[i] = slowLink{tr, st.links}
	for j, q := range st.peers {
		if other := st.transports[j].InmemTransport; i != j && other != nil {
			tr.Connect(raft.ServerAddress(q.Address), other)
			other.Connect(raft.ServerAddress(p.Address), tr)
		}
	}
	o := Options{
		Dir: filepath.Join(st.dir, string(p.ID)), ID: p.ID, Peers: st.peers, Transport: st.transports[i],
		Logger: slog.New(slog.DiscardHandler), abrupt: true, noSync: true,
	}
	st.adjust(&o)
	s, err := Open(o)
	if err != nil {
		st.t.Fatal(err)
	}
	return s
}

func virtualCluster(t *testing.T, dir string, adjust func(*Options)) (*links, []*Store) {
	t.Helper()
	st := newStage(t, dir, adjust)
	var nodes []*Store
	for i := range st.peers {
		nodes = append(nodes, st.open(i))
	}
	return st.links, nodes
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
