// Package clienttest runs a control plane node in memory for tests of its clients: the real REST
// server over the real state, without Raft.
package clienttest

import (
	"context"
	"crypto/sha256"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// Node is one node. Its tokens are "admin-token", "operator-token", "approver-token" and
// "viewer-token".
type Node struct {
	// URL of the node.
	URL string
	// Signals are what the node knows of routers: none, unless a test puts some in.
	Signals *signal.Store
	// Server is what answers there.
	Server *rest.Server

	t       testing.TB
	mu      sync.Mutex // guards what follows
	view    *state.View
	changed chan struct{}
	before  func(*statepb.Command)
	nodes   []rest.Member
	routers rest.Inquiries
}

// Start runs a node until the test ends; change may alter its options.
func Start(t testing.TB, change ...func(*rest.Options)) *Node {
	t.Helper()
	n := &Node{t: t, view: state.Empty(), changed: make(chan struct{}), Signals: signal.New(time.Now), nodes: []rest.Member{
		{ID: "n1", Address: "127.0.0.1:7120", Voter: true, Leader: true, Healthy: true, Version: "test", FeatureLevel: 2},
		{ID: "n2", Address: "127.0.0.1:7121", Voter: true, Behind: 3, LastContactMs: 4200},
	}}
	init := &statepb.Init{ClusterId: "c-1"}
	for _, role := range []string{"viewer", "operator", "approver", "admin"} {
		sum := sha256.Sum256([]byte(role + "-token"))
		init.Tokens = append(init.Tokens, &statepb.Token{Name: role, Role: role, Sha256: sum[:]})
	}
	if _, err := n.propose(t.Context(), &statepb.Command{Format: 1, Op: &statepb.Command_Init{Init: init}}); err != nil {
		t.Fatal(err)
	}
	o := rest.Options{
		Node: "n1", View: n.View, Changed: n.after, Propose: n.propose,
		ReadBarrier: func(context.Context) error { return nil },
		Members:     n.members, Membership: membership{n},
		Leader: func() (fleet.NodeID, string) { return n.leading(), "" },
		Ready:  func() bool { return true }, Signals: n.Signals, Inquiries: inquiries{n}, Version: "test",
	}
	for _, f := range change {
		f(&o)
	}
	server, err := rest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(server.Handler())
	t.Cleanup(func() { server.Drain(); h.Close() })
	n.URL, n.Server = h.URL, server
	return n
}

// View is the state as it is now.
func (n *Node) View() *state.View {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.view
}

// Before has f called ahead of each command, to change something under a client's feet.
func (n *Node) Before(f func(*statepb.Command)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.before = f
}

// Apply commits a command.
func (n *Node) Apply(cmd *statepb.Command) *statepb.Outcome {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	next, out, err := state.Apply(n.view, n.view.Index()+1, cmd)
	if err != nil {
		n.t.Error(err)
		return out
	}
	n.view = next
	close(n.changed)
	n.changed = make(chan struct{})
	return out
}

func (n *Node) propose(_ context.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
	n.mu.Lock()
	before := n.before
	n.mu.Unlock()
	if before != nil {
		before(cmd)
	}
	return n.Apply(cmd), nil
}

func (n *Node) after(index uint64) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.view.Index() > index {
		done := make(chan struct{})
		close(done)
		return done
	}
	return n.changed
}
