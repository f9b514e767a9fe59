package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/state/statepb"
)

// patience is how long a test waits for what should take a second or two on a machine that does
// nothing else.
const patience = 30 * time.Second

// testNode is one node of a cluster in this process; it can be stopped and started again.
type testNode struct {
	t       testing.TB
	o       Options
	address string
	*Store
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of Run, after done
}

// testCluster is n nodes on loopback, with real files.
type testCluster struct {
	t     testing.TB
	dir   string
	peers []Peer
	nodes map[fleet.NodeID]*testNode
}

// newTestCluster starts n nodes; adjust may change the options of each.
func newTestCluster(t testing.TB, n int, adjust func(*Options)) *testCluster {
	t.Helper()
	c := &testCluster{t: t, dir: t.TempDir(), nodes: map[fleet.NodeID]*testNode{}}
	listeners := map[fleet.NodeID]net.Listener{}
	for i := range n {
		id := fleet.NodeID(fmt.Sprintf("n%d", i+1))
		listeners[id] = listen(t)
		c.peers = append(c.peers, Peer{ID: id, Address: listeners[id].Addr().String()})
	}
	for _, p := range c.peers {
		c.add(p, listeners[p.ID], c.peers, adjust)
	}
	t.Cleanup(c.stop)
	return c
}

func (c *testCluster) add(p Peer, l net.Listener, peers []Peer, adjust func(*Options)) *testNode {
	c.t.Helper()
	n := &testNode{t: c.t, address: p.Address, o: Options{
		Dir: filepath.Join(c.dir, string(p.ID)), ID: p.ID, Peers: peers,
		Logger: slog.New(slog.DiscardHandler),
	}}
	if adjust != nil {
		adjust(&n.o)
	}
	first := n.o
	first.Listener = l
	n.start(first)
	n.o.RaftListen = p.Address
	c.nodes[p.ID] = n
	return n
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	return listenOn(t, "127.0.0.1:0")
}

func listenOn(t testing.TB, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (n *testNode) start(o Options) {
	n.t.Helper()
	s, err := Open(o)
	if err != nil {
		n.t.Fatalf("open %s: %v", o.ID, err)
	}
	n.run(s)
}

func (n *testNode) run(s *Store) {
	ctx, cancel := context.WithCancel(context.Background())
	n.Store, n.cancel, n.done = s, cancel, make(chan struct{})
	go func() {
		defer close(n.done)
		n.err = s.Run(ctx)
	}()
}

func (n *testNode) restart() { n.t.Helper(); n.start(n.o) }

// stop ends the node and returns what Run said.
func (n *testNode) stop() error {
	n.t.Helper()
	n.cancel()
	return n.wait()
}

// wait waits for Run to end by itself.
func (n *testNode) wait() error {
	n.t.Helper()
	select {
	case <-n.done:
		return n.err
	case <-time.After(patience):
		n.t.Fatalf("%s does not stop", n.o.ID)
		return nil
	}
}

func (n *testNode) running() bool {
	select {
	case <-n.done:
		return false
	default:
		return true
	}
}

// stop ends all that still run, at the same time.
func (c *testCluster) stop() {
	for _, n := range c.nodes {
		n.cancel()
	}
	for _, n := range c.nodes {
		if err := n.wait(); err != nil && !errors.Is(err, errExpected) {
			c.t.Errorf("%s: %v", n.o.ID, err)
		}
	}
}

// errExpected marks ends of nodes that a test has provoked.
var errExpected = errors.New("expected")

// eventually waits until ok.
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

// leader waits for a node that leads and can write.
func (c *testCluster) leader() *testNode {
	c.t.Helper()
	var found *testNode
	eventually(c.t, "a leader", func() bool {
		for _, n := range c.nodes {
			if n.running() && n.IsLeader() {
				found = n
				return true
			}
		}
		return false
	})
	return found
}

// followers are the running nodes but the leader.
func (c *testCluster) followers() []*testNode {
	c.t.Helper()
	leader := c.leader()
	var list []*testNode
	for _, n := range c.nodes {
		if n != leader && n.running() {
			list = append(list, n)
		}
	}
	return list
}

// propose commits through whichever node leads, trying again while it is certain that the command
// was not proposed, and for an unknown outcome too, as all commands of these tests are harmless
// twice.
func (c *testCluster) propose(cmd *statepb.Command) *statepb.Outcome {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		out, err := c.leader().Propose(ctx, cmd)
		if err == nil {
			return out
		}
		if ctx.Err() != nil {
			c.t.Fatalf("propose: %v", err)
		}
		<-time.After(5 * time.Millisecond) // look again
	}
}

// caughtUp waits until a node has applied index.
func (n *testNode) caughtUp(index uint64) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.WaitApplied(ctx, index); err != nil {
		n.t.Fatalf("%s: wait for %d: %v; %+v", n.o.ID, index, err, n.Stats())
	}
}

func initCommand(cluster string) *statepb.Command {
	return &statepb.Command{Format: 1, AtUnixMs: 1, Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: cluster}}}
}

// register writes value into the register name, one of the few that the state holds.
func register(name, value string) *statepb.Command {
	return &statepb.Command{Format: 1, AtUnixMs: 1, Op: &statepb.Command_PutNode{
		PutNode: &statepb.PutNode{Id: name, Version: value},
	}}
}

// value reads a register from a node's view.
func (n *testNode) value(name string) string {
	node, ok := n.View().Node(name)
	if !ok {
		return ""
	}
	return node.GetVersion()
}
