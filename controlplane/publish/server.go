// Package publish serves routers their tables: one gRPC stream each, tables down, reports and
// acknowledgements up. It works on any node, from that node's own copy of the state, whether there is
// a leader or not. Routers that understand it get what their region can use of a table, and after the
// first only what differs. What is in a table, and what reports mean, is for others.
package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// Protocol is the version of the contract that this node speaks; see the history in router.proto.
const Protocol = 1

// Defaults of [Options].
const (
	DefaultPing       = 5 * time.Second
	DefaultDead       = 15 * time.Second
	DefaultMaxStreams = 8192 // one node that is left serves all routers that package signal takes in
)

// maxAsks is how many questions wait for a router that does not read.
const maxAsks = 128

// Signals takes in what routers say.
type Signals interface {
	Put(signal.Observation)
	Drop(fleet.NodeID, fleet.RouterID)
}

// Inquiries ask routers, and hear what they answer.
type Inquiries interface {
	// Join takes in a router: what is put into asks is sent, and heard is called with each message of
	// the router that is an answer; it must not wait. Leave is called once, at the stream's end.
	Join(hello *routerpb.Hello, asks chan<- *routerpb.ToRouter) (heard func(*routerpb.FromRouter), leave func())
}

// Options of a server.
type Options struct {
	// Node is this node's id.
	Node fleet.NodeID
	// View is the state as this node knows it, and Changed a channel that is closed once its index
	// is above one.
	View    func() *state.View
	Changed func(after uint64) <-chan struct{}
	Signals Signals
	// Inquiries ask routers. Nil: they are asked nothing.
	Inquiries Inquiries
	// Spendings take in what routers spent of budgets. Nil: it is not counted.
	Spendings Spendings
	// Usages take in what clients of routers used. Nil: it is not counted.
	Usages Usages
	// Effect says what routers are to do for a drill as it stands. Nil: they are told of none.
	Effect func(*statepb.Drill) drill.Effect
	// Emergencies are signed orders to hand on. Nil: there are none.
	Emergencies Emergencies
	// LedgerEvery is the least time between two messages to a router about what others spent. 0:
	// DefaultLedger.
	LedgerEvery time.Duration
	// Identify says who is at the other end of a stream, such as [FromCertificate]; a router must
	// be who it says it is. Nil: routers are believed, for loopback and tests.
	Identify func(ctx context.Context) (fleet.RegionID, fleet.RouterID, error)
	// Ping is the time between pings, Dead the silence after which a stream is given up, also one
	// that leaves a table unacknowledged for twice as long. 0: DefaultPing, DefaultDead.
	Ping, Dead time.Duration
	// MaxStreams at a time; further routers are sent to other nodes. 0: DefaultMaxStreams.
	MaxStreams int
	// Fleet tells how many routers are connected to any node, and how many nodes can take them. After
	// the number of nodes has changed, a node with more than its share lets some routers go, so that
	// they spread. Nil: routers stay where they are.
	Fleet func() (routers, nodes int)
	// Isolated says that this node has not heard of the leader for longer than an election takes. While it
	// is so, routers are let go, so that they find a node that has the newest table. Nil: it never is.
	Isolated func() bool
	// Registerer takes the metrics. Nil: none are kept.
	Registerer prometheus.Registerer
	// Now is time.Now when nil. Logger is slog.Default() when nil.
	Now    func() time.Time
	Logger *slog.Logger
}

// Validate names the option that is missing.
func (o Options) Validate() error {
	switch {
	case o.Node == "":
		return errors.New("publish: Node is empty: give this node's id")
	case o.View == nil || o.Changed == nil:
		return errors.New("publish: View and Changed are needed: give those of the store")
	case o.Signals == nil:
		return errors.New("publish: Signals is nil: give the node's signal store")
	}
	return nil
}

// Server implements routerpb.RouterControlServer.
type Server struct {
	routerpb.UnimplementedRouterControlServer
	o        Options
	logger   *slog.Logger
	metrics  *metrics
	forms    forms
	tellings tellings
	limits   limitCache
	renewals renewals
	turns    turns

	stop     chan struct{} // closed when Run ends
	children sync.WaitGroup

	mu      sync.Mutex // guards what is below
	stopped bool
	streams int
	taken   uint64 // sessions ever
	current map[fleet.RouterID]*session
}

// New returns a server; it takes streams as soon as it is registered with gRPC.
func New(o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Ping <= 0 {
		o.Ping = DefaultPing
	}
	if o.Dead <= 0 {
		o.Dead = DefaultDead
	}
	if o.LedgerEvery <= 0 {
		o.LedgerEvery = DefaultLedger
	}
	if o.MaxStreams <= 0 {
		o.MaxStreams = DefaultMaxStreams
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register metrics of publish: %w", err)
	}
	return &Server{
		o:       o,
		logger:  o.Logger.With("component", "publish"),
		metrics: m,
		stop:    make(chan struct{}),
		current: map[fleet.RouterID]*session{},
	}, nil
}

// Run spreads streams until ctx ends, then ends all streams and waits for what they started. A stream
// that comes later is refused.
func (s *Server) Run(ctx context.Context) error {
	s.children.Go(s.follow)
	s.spread(ctx)
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.stop)
	}
	s.mu.Unlock()
	s.children.Wait()
	return nil
}

// spread blocks until ctx ends.
func (s *Server) spread(ctx context.Context) {
	if s.o.Fleet == nil && s.o.Isolated == nil {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(balanceEvery)
	defer tick.Stop()
	var b balance
	var i isolation
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.o.Fleet != nil {
				routers, nodes := s.o.Fleet()
				s.move(b.next(s.Streams(), routers, nodes), latest)
			}
			if s.o.Isolated != nil {
				s.move(i.next(s.o.Isolated(), s.Streams()), eldest)
			}
		}
	}
}

// Streams is how many routers are connected now.
func (s *Server) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams
}

// Connect carries one router's session.
func (s *Server) Connect(stream grpc.BidiStreamingServer[routerpb.FromRouter, routerpb.ToRouter]) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()

	received := make(chan *routerpb.FromRouter)
	lost := make(chan error, 1)
	s.children.Add(1)
	go func() { // ends with the stream, which ends when Connect returns
		defer s.children.Done()
		lost <- receive(ctx, stream, received)
	}()
	send, asks := make(chan *routerpb.ToRouter, 1), make(chan *routerpb.ToRouter, maxAsks)
	s.children.Add(1)
	go func() {
		defer s.children.Done()
		if err := forward(ctx, stream, send, asks); err != nil {
			cancel()
		}
	}()

	hello, err := s.greet(ctx, received, lost)
	if err != nil {
		return err
	}
	session := newSession(s, hello, send)
	if s.o.Inquiries != nil {
		heard, leave := s.o.Inquiries.Join(hello, asks)
		defer leave()
		session.heard = heard
	}
	s.register(session)
	defer s.unregister(session)
	err = session.run(ctx, received, lost)
	s.logger.Info("router left", "router", session.router, "region", session.region, "error", err)
	return err
}

func receive(ctx context.Context, stream grpc.BidiStreamingServer[routerpb.FromRouter, routerpb.ToRouter], into chan<- *routerpb.FromRouter) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case into <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// forward sends what is put into tables or asks: a router that does not read must not hold up the session,
// which would then miss that it is dead.
func forward(ctx context.Context, stream grpc.BidiStreamingServer[routerpb.FromRouter, routerpb.ToRouter], tables, asks <-chan *routerpb.ToRouter) error {
	for {
		var m *routerpb.ToRouter
		select {
		case m = <-tables:
		case m = <-asks:
		case <-ctx.Done():
			return nil
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
}

// greet waits for the router's first message and checks it.
func (s *Server) greet(ctx context.Context, received <-chan *routerpb.FromRouter, lost <-chan error) (*routerpb.Hello, error) {
	patience := time.NewTimer(s.o.Dead)
	defer patience.Stop()
	var hello *routerpb.Hello
	select {
	case m := <-received:
		hello = m.GetHello()
	case err := <-lost:
		return nil, ended(err)
	case <-patience.C:
		return nil, status.Errorf(codes.DeadlineExceeded, "no hello within %s", s.o.Dead)
	case <-s.stop:
		return nil, status.Error(codes.Unavailable, "node is stopping")
	}
	switch {
	case hello == nil:
		return nil, status.Error(codes.InvalidArgument, "the first message must be hello")
	case hello.GetProtocol() != Protocol:
		return nil, status.Errorf(codes.FailedPrecondition, "router speaks version %d of the contract, node %s version %d",
			hello.GetProtocol(), s.o.Node, Protocol)
	}
	for _, name := range []struct{ field, value string }{{"router_id", hello.GetRouterId()}, {"region", hello.GetRegion()}} {
		if err := fleet.CheckName(name.value); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "hello.%s %s", name.field, err)
		}
	}
	return hello, s.identify(ctx, hello)
}

func (s *Server) identify(ctx context.Context, hello *routerpb.Hello) error {
	if s.o.Identify == nil {
		return nil
	}
	region, router, err := s.o.Identify(ctx)
	switch {
	case err != nil:
		return status.Errorf(codes.Unauthenticated, "certificate: %s", err)
	case string(region) != hello.GetRegion() || string(router) != hello.GetRouterId():
		return status.Errorf(codes.PermissionDenied, "certificate is for router %s in %s, hello says %s in %s",
			router, region, hello.GetRouterId(), hello.GetRegion())
	}
	return nil
}

func (s *Server) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return status.Error(codes.Unavailable, "node is stopping")
	case s.streams >= s.o.MaxStreams:
		return status.Errorf(codes.ResourceExhausted, "node %s has %d streams: connect to another", s.o.Node, s.streams)
	}
	s.streams++
	s.children.Add(1)
	return nil
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams--
	s.children.Done()
}

// register makes the session the router's only one: a router that connects again has lost the
// stream it had, whether this node has noticed or not.
func (s *Server) register(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.current[x.router]; old != nil {
		close(old.replaced)
	}
	s.taken++
	x.number = s.taken
	s.current[x.router] = x
}

func (s *Server) unregister(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current[x.router] != x {
		return
	}
	delete(s.current, x.router)
	s.o.Signals.Drop(s.o.Node, x.router)
}

// ended turns the end of a stream into Connect's answer: nil when the router closed it.
func ended(err error) error {
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "stream closed")
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Unavailable, fmt.Sprintf("stream: %s", err))
}
