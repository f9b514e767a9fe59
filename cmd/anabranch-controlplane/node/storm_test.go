package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"anabranch/api/routerpb"
	"anabranch/controlplane/publish"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// pipes listens within the process; the zero value refuses. It isn't grpc's bufconn, which begins each connection
// with a timer of no duration: two such timers in one synctest bubble at the same moment crash Go 1.26's race
// detector, as they share the bubble's one race context.
type pipes struct {
	dialled chan net.Conn
	closed  chan struct{}
	once    *sync.Once // closes closed
}

func (p pipes) dial(ctx context.Context) (net.Conn, error) {
	if p.dialled == nil {
		return nil, errRefused
	}
	client, server := net.Pipe()
	select {
	case p.dialled <- server:
		return client, nil
	case <-p.closed:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialled:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements [net.Listener].
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// virtualNode serves streams in virtual time from a state that stands still.
type virtualNode struct {
	t    *testing.T
	view *state.View

	mu       sync.Mutex // guards listener
	listener pipes
	stop     func()
}

func newVirtualNode(t *testing.T) *virtualNode {
	n := &virtualNode{t: t, view: state.Empty()}
	for _, c := range []*statepb.Command{
		{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1"}}},
		{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: fleetTable()}}},
	} {
		c.Format, c.AtUnixMs = state.Format, 1
		next, out, err := state.Apply(n.view, n.view.Index()+1, c)
		if err != nil || out.GetCode() != "" {
			t.Fatalf("apply: %v %v", err, out)
		}
		n.view = next
	}
	return n
}

// up starts the node, as after a restart: it knows the state and none of the routers.
func (n *virtualNode) up() {
	server, err := publish.New(publish.Options{
		Node: "n1", Signals: signal.New(nil), Logger: slog.New(slog.DiscardHandler),
		View: func() *state.View { return n.view }, Changed: func(uint64) <-chan struct{} { return nil },
	})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(n.t.Context())
	g := grpc.NewServer(grpc.ReadBufferSize(4<<10), grpc.WriteBufferSize(4<<10))
	routerpb.RegisterRouterControlServer(g, server)
	l := pipes{dialled: make(chan net.Conn), closed: make(chan struct{}), once: new(sync.Once)}
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := server.Run(ctx); err != nil {
			n.t.Error(err)
		}
	})
	parts.Go(func() {
		if err := g.Serve(l); err != nil {
			n.t.Error(err)
		}
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listener = l
	n.stop = func() {
		cancel()
		g.Stop()
		parts.Wait()
	}
}

// down ends the node and all its streams at once.
func (n *virtualNode) down() {
	n.mu.Lock()
	n.listener = pipes{}
	n.mu.Unlock()
	n.stop()
}

var errRefused = errors.New("connection refused")

// dial counts an attempt as work, whether anybody listens or not.
func (n *virtualNode) dial(c func() *crowd) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		c().work.Add(1)
		n.mu.Lock()
		l := n.listener
		n.mu.Unlock()
		return l.dial(ctx)
	})
}

// seconds gives the work and the bytes of each of n virtual seconds.
func (c *crowd) seconds(n int) (work, bytes []int64) {
	for range n {
		<-time.After(time.Second)
		synctest.Wait()
		work, bytes = append(work, c.work.Swap(0)), append(bytes, c.bytes.Swap(0))
	}
	return work, bytes
}

// longest is the longest stretch of seconds above a limit.
func longest(values []int64, limit int64) (n int) {
	run := 0
	for _, v := range values {
		if run++; v <= limit {
			run = 0
		}
		n = max(n, run)
	}
	return n
}
