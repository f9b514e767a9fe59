package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"

	"anabranch/controlplane/forward/nodepb"
)

// keepaliveTime is how long a connection may be silent before it is probed.
const keepaliveTime = 10 * time.Second

// clients holds one gRPC connection per address of a node.
type clients struct {
	dial func(ctx context.Context, address string) (net.Conn, error)

	mu     sync.Mutex // guards conns and closed
	conns  map[string]*grpc.ClientConn
	closed bool
}

func newClients(dial func(context.Context, string) (net.Conn, error)) *clients {
	return &clients{dial: dial, conns: map[string]*grpc.ClientConn{}}
}

// to returns the client for an address; it connects when it is used.
func (c *clients) to(address string) (nodepb.NodeClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("%w: shutting down", errUnreachable)
	}
	if conn, ok := c.conns[address]; ok {
		return nodepb.NewNodeClient(conn), nil
	}
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithContextDialer(c.dial),
		// The dialer has done TLS already.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTime / 3}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithStatsHandler(sentHandler{}),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	c.conns[address] = conn
	return nodepb.NewNodeClient(conn), nil
}

// drop closes the connection to an address, if there is one.
func (c *clients) drop(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn, ok := c.conns[address]; ok {
		_ = conn.Close() // fails only when closed already
		delete(c.conns, address)
	}
}

func (c *clients) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	c.conns = nil
	return errors.Join(errs...)
}

// sentKey is the context key under which a call keeps whether its request has left.
type sentKey struct{}

// withSent returns a context for one call, and the flag that is set as soon as the request is
// handed to a connection. A call that failed without it has certainly not reached anyone.
func withSent(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return context.WithValue(ctx, sentKey{}, sent), sent
}

// sentHandler sets the flag of withSent.
type sentHandler struct{}

var _ stats.Handler = sentHandler{}

// TagRPC adds nothing.
func (sentHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC notes that a payload was written.
func (sentHandler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutPayload); !ok {
		return
	}
	if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
}

// TagConn adds nothing.
func (sentHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn has nothing to note.
func (sentHandler) HandleConn(context.Context, stats.ConnStats) {}
