// Package forward makes every control plane node as good as the leader for its callers: it sends
// commands and read barriers to the leader and waits until their effect is visible here. Beside
// that it lets nodes join, and hands the reports of this node's routers to the other nodes each
// second.
//
// It leaves to others: Raft, the port and its TLS (store), what the reports say (signal).
package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/forward/nodepb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/store"
)

const (
	// DefaultTimeout bounds calls of [Forward.Propose] and [Forward.ReadIndex] whose context has
	// no deadline.
	DefaultTimeout = 10 * time.Second
	// DefaultInterval is the default of Options.Interval.
	DefaultInterval = time.Second
	// DefaultCaughtUpFor is the default of Options.CaughtUpFor.
	DefaultCaughtUpFor = 10 * time.Second
	// MaxLag is how many commands a new member may be behind to be made a voter.
	MaxLag = 250
	// maxMessage bounds a message in bytes: an exchange carries the reports of many routers.
	maxMessage = 16 << 20
)

// Options connects a Forward. Store is required.
type Options struct {
	// Store is this node; its Run must be running while Run of the Forward is.
	Store *store.Store
	// Exchange takes what another node's routers reported; called concurrently. Nil: dropped.
	Exchange func(*nodepb.ExchangeRequest)
	// Local makes the request that the others are sent; node and index are filled in here. Nil:
	// nothing to report.
	Local func() *nodepb.ExchangeRequest
	// Desk asks the routers connected to this node, when another node wants to know. Nil: it has none.
	Desk Desk
	// Orders are signed emergency orders, which go to all other nodes with each exchange. Nil: there are none.
	Orders Orders
	// Interval is the time between exchanges; 0: DefaultInterval.
	Interval time.Duration
	// CaughtUpFor is how long a new member must have been within MaxLag to become a voter; 0:
	// DefaultCaughtUpFor.
	CaughtUpFor time.Duration
	// Logger; nil: slog.Default().
	Logger *slog.Logger

	format uint32 // tests: that of an earlier build; 0: state.Format
}

// Orders are signed emergency orders.
type Orders interface {
	// Messages are those that this node has; the channel is of no account here.
	Messages() ([]*routerpb.SignedOrder, <-chan struct{})
	// Merge takes those of another node; it must not wait for one.
	Merge(fleet.NodeID, []*routerpb.SignedOrder)
}

// Validate says which field is wrong and how to put it right.
func (o Options) Validate() error {
	switch {
	case o.Store == nil:
		return errors.New("option Store is nil: open a store first")
	case o.Interval < 0:
		return fmt.Errorf("option Interval is %s: use 0 for %s, or more", o.Interval, DefaultInterval)
	case o.CaughtUpFor < 0:
		return fmt.Errorf("option CaughtUpFor is %s: use 0 for %s, or more", o.CaughtUpFor, DefaultCaughtUpFor)
	}
	return nil
}

// Forward is this node's voice among the nodes. It is safe for concurrent use.
type Forward struct {
	o       Options
	store   *store.Store
	logger  *slog.Logger
	clients *clients
	peers   *peers
}

// New connects a Forward; Run starts it. It panics if the options are not valid: they are made by
// a program, not by a user.
func New(o Options) *Forward {
	if err := o.Validate(); err != nil {
		panic("forward: " + err.Error())
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.CaughtUpFor == 0 {
		o.CaughtUpFor = DefaultCaughtUpFor
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.format == 0 {
		o.format = state.Format
	}
	return &Forward{
		o: o, store: o.Store, logger: o.Logger.With("component", "forward"),
		clients: newClients(o.Store.DialNode), peers: newPeers(),
	}
}

// Run serves the other nodes and exchanges reports with them until ctx ends, and returns when all
// that it started has ended. An error means that the node's port was closed under it.
func (f *Forward) Run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	server := grpc.NewServer(
		grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
	)
	nodepb.RegisterNodeServer(server, &service{f: f})
	var children sync.WaitGroup
	served := make(chan error, 1)
	children.Go(func() { served <- server.Serve(f.store.NodeListener()) })
	children.Go(func() { f.exchangeAll(ctx) })
	children.Go(func() { f.admit(ctx) })
	children.Go(func() { f.raiseLevel(ctx) })
	children.Go(func() { f.catchUp(ctx) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
		err = fmt.Errorf("serve nodes: %w", err)
	}
	end()
	server.Stop()
	children.Wait()
	return errors.Join(err, f.clients.close())
}

// catchUp passes one strong read, after which this node is ready.
func (f *Forward) catchUp(ctx context.Context) {
	for !f.store.Ready() {
		if err := f.ReadIndex(ctx); err == nil {
			return
		}
		if !pause(ctx, f.o.Interval/5) {
			return
		}
	}
}

// pause waits for d, and says whether ctx still lives.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
