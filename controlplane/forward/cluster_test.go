package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/forward/nodepb"
	"anabranch/controlplane/inquiry"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

// patience is how long a test waits for what should take a second or two on a machine that does
// nothing else.
const patience = 30 * time.Second

// node is a store and its forward, as a control plane process runs them.
type node struct {
	t testing.TB
	o store.Options
	*Forward
	cancel context.CancelFunc
	done   chan error
	format uint32 // that it tells the others; 0: its own
	desk   *inquiry.Desk
	orders Orders

	mu   sync.Mutex // guards seen
	seen map[string]*nodepb.ExchangeRequest
}

type cluster struct {
	t     testing.TB
	dir   string
	nodes map[fleet.NodeID]*node
	// orders of a node. Nil: there are none.
	orders func(fleet.NodeID) Orders
}

// newCluster makes n nodes of which the first up run.
func newCluster(t testing.TB, n, up int) *cluster {
	t.Helper()
	return newClusterWith(t, n, up, nil)
}

// newClusterWith gives each node signed orders; nil: none has any.
func newClusterWith(t testing.TB, n, up int, orders func(fleet.NodeID) Orders) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), nodes: map[fleet.NodeID]*node{}, orders: orders}
	t.Cleanup(c.stop)
	var peers []store.Peer
	var listeners []net.Listener
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		peers = append(peers, store.Peer{ID: fleet.NodeID(fmt.Sprintf("n%d", i+1)), Address: l.Addr().String()})
	}
	for i, p := range peers {
		if i < up {
			c.add(store.Options{ID: p.ID, Peers: peers, Listener: listeners[i]})
		} else if err := listeners[i].Close(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *cluster) add(o store.Options) *node {
	c.t.Helper()
	o.Dir, o.Logger = filepath.Join(c.dir, string(o.ID)), slog.New(slog.DiscardHandler)
	n := &node{t: c.t, o: o, desk: inquiry.NewDesk(o.ID), seen: map[string]*nodepb.ExchangeRequest{}}
	if c.orders != nil {
		n.orders = c.orders(o.ID)
	}
	n.start(o)
	n.o.Listener, n.o.RaftListen = nil, n.store.Address()
	c.nodes[o.ID] = n
	return n
}

func (n *node) start(o store.Options) {
	n.t.Helper()
	s, err := store.Open(o)
	if err != nil {
		n.t.Fatal(err)
	}
	n.Forward = New(Options{
		Store: s, Desk: n.desk, Orders: n.orders, Logger: o.Logger, format: n.format, Interval: 200 * time.Millisecond, CaughtUpFor: 500 * time.Millisecond,
		Exchange: func(r *nodepb.ExchangeRequest) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.seen[r.GetNodeId()] = r
		},
		Local: func() *nodepb.ExchangeRequest {
			return &nodepb.ExchangeRequest{Routers: []*nodepb.RouterObservation{
				{Hello: &routerpb.Hello{RouterId: "router-of-" + string(o.ID)}},
			}}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.done = cancel, make(chan error, 1)
	forward := n.Forward
	go func() {
		var running sync.WaitGroup
		life, end := context.WithCancel(context.Background())
		var stopped error
		running.Go(func() { stopped = s.Run(life) })
		err := forward.Run(ctx) // first down
		end()
		running.Wait()
		n.done <- errors.Join(err, stopped)
	}()
}

// stop ends a node; a second call does nothing.
func (n *node) stop() {
	n.t.Helper()
	if n.cancel == nil {
		return
	}
	n.cancel()
	n.cancel = nil
	select {
	case err := <-n.done:
		if err != nil {
			n.t.Errorf("%s: %v", n.o.ID, err)
		}
	case <-time.After(patience):
		n.t.Fatalf("%s does not stop", n.o.ID)
	}
}

func (c *cluster) stop() {
	var all sync.WaitGroup
	for _, n := range c.nodes {
		all.Go(n.stop)
	}
	all.Wait()
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
		<-time.After(5 * time.Millisecond) // look again
	}
}

func (c *cluster) leader() *node {
	c.t.Helper()
	var found *node
	eventually(c.t, "a leader", func() bool {
		for _, n := range c.nodes {
			if n.cancel != nil && n.store.IsLeader() {
				found = n
				return true
			}
		}
		return false
	})
	return found
}

func (c *cluster) follower() *node {
	c.t.Helper()
	leader := c.leader()
	for _, n := range c.nodes {
		if n != leader && n.cancel != nil {
			return n
		}
	}
	c.t.Fatal("no follower")
	return nil
}

// mustPropose commits through n, and again if the outcome is unknown: all commands of these tests
// are harmless twice.
func (n *node) mustPropose(cmd *statepb.Command) *statepb.Outcome {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := n.Propose(ctx, cmd)
	for errors.Is(err, ErrUnknownOutcome) && ctx.Err() == nil {
		out, err = n.Propose(ctx, cmd)
	}
	if err != nil {
		n.t.Fatalf("%s: %v", n.o.ID, err)
	}
	return out
}

// begin waits for a leader and gives the cluster its id.
func (c *cluster) begin() {
	c.t.Helper()
	c.leader().mustPropose(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c1"}}})
}

// register writes value into the register name, one of the few that the state holds.
func register(name, value string) *statepb.Command {
	return &statepb.Command{Op: &statepb.Command_PutNode{PutNode: &statepb.PutNode{Id: name, Version: value}}}
}

func (n *node) value(name string) string {
	r, _ := n.store.View().Node(name)
	return r.GetVersion()
}
