package instance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"anabranch/api/credential"
	"anabranch/api/identity"
	"anabranch/api/routerpb"
	"anabranch/cmd/certificate"
	"anabranch/cmd/lifecycle"
	"anabranch/dataplane"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/override"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/subscribe/lastgood"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
	"anabranch/ratelimit/redisbucket"
)

// Addresses is where a router listens. Peer is empty if other regions can't enter, and
// RLS if Envoy can't ask.
type Addresses struct {
	Front, Peer, Admin, RLS string
}

// Instance is one router. New binds its ports, Run does the rest.
type Instance struct {
	o       Options
	log     *slog.Logger
	router  *dataplane.Router
	control *subscribe.Client
	stores  *stores // of quotas; nil: not yet

	orders *override.Book

	certs    *certificate.Keeper
	own      *identity.Live           // towards the control plane and peers; nil: plain
	provider *sdktrace.TracerProvider // of spans; nil: nothing is traced

	front, peer, admin *server // peer is nil if other regions can't enter
	door               *door   // nil if Envoy can't ask

	after func(time.Duration) <-chan time.Time // time.After, but in tests
}

// New checks the options, binds the ports, and takes the last good table from the data folder. An
// instance that is made must be run: Run frees what New took.
func New(o Options) (*Instance, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.DrainWithin == 0 {
		o.DrainWithin = DefaultDrainWithin
	}
	n := &Instance{o: o, log: o.Logger.With("component", "instance"), after: time.After, certs: certificate.New(o.Logger)}
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *Instance) open() error {
	clocks := newClocks(n.log)
	own, err := n.ownStore(clocks)
	if err != nil {
		return err
	}
	n.stores = newStores(n.o.Region, own, clocks, credential.New(credential.Options{Dir: n.o.SecretsDir, Logger: n.o.Logger}), n.log)
	if err := n.fit(); err != nil {
		return err
	}
	var towardsPeers, towardsNodes func() *tls.Config
	if !n.o.TLS.Empty() {
		if n.own, err = n.certs.Open("tls", n.o.TLS); err != nil {
			return err
		}
		towardsPeers, towardsNodes = n.own.Client(identity.KindRouter), n.own.Client(identity.KindNode)
	}
	if n.provider, err = n.o.traces(context.Background(), n.log); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), n.certs, clocks.steps)
	tables := &table.Holder{}
	if n.router, err = dataplane.New(dataplane.Options{
		Router: n.o.Router, Region: n.o.Region, Version: n.o.Version, Tables: tables, Quotas: n.stores,
		PeerTLS: towardsPeers, Control: n.controlStatus, Registry: registry, Logger: n.o.Logger, Traces: n.tracerProvider(), Orders: n.currentOrders,
		Requests: dataplane.RequestLog(n.o.RequestLog), SecretsDir: n.o.SecretsDir,
		DiscoveryDir: n.o.DiscoveryDir, Finders: n.o.Finders, Sight: n.sight, OrdersStatus: n.ordersStatus,
	}); err != nil {
		return err
	}
	disk, err := lastgood.Open(filepath.Join(n.o.DataDir, "tables"))
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	keys, err := n.o.keys()
	if err != nil {
		return err
	}
	if n.orders, err = override.New(override.Options{
		Dir: n.o.DataDir, Table: tables.Load, Kept: disk.Refs, Keys: keys, Registerer: registry, Logger: n.o.Logger,
	}); err != nil {
		return err
	}
	if n.control, err = subscribe.New(subscribe.Options{
		Addresses: n.o.ControlPlane, TLS: towardsNodes, Router: n.o.Router, Region: n.o.Region, Version: n.o.Version,
		Holder: tables, Report: n.report, LastGood: disk, Applied: n.applied,
		Frozen:   func() bool { return n.orders.Current().Frozen() },
		Revert:   n.revert,
		Orders:   n.orders.Take,
		Requests: n.router, Budgets: n.router.Quotas(), Usage: n.router.Usage(), Drills: n.router.TakeDrill,
		Registerer: registry, Logger: n.o.Logger,
	}); err != nil {
		return err
	}
	switch err := n.control.Restore(); {
	case errors.Is(err, lastgood.ErrNone):
		n.log.Info("no last good table, not ready until a control plane answers", "reason", err)
	case err != nil:
		return err
	}
	if err := n.openDoor(tables, registry); err != nil {
		return err
	}
	return n.listen()
}

// applied takes in a table: its quota stores are known before anything asks for them.
func (n *Instance) applied(t *table.Table) {
	n.stores.sync(t)
	n.router.Applied(t)
}

// currentOrders are the emergency orders that hold now; none while the instance is being made.
func (n *Instance) currentOrders() *override.View {
	if n.orders == nil {
		return nil
	}
	return n.orders.Current()
}

// sight is how far the control plane's word on health is believed; in full while the instance is being
// made.
func (n *Instance) sight(now time.Time) subscribe.Sight {
	if n.control == nil {
		return subscribe.Current
	}
	return n.control.Sight(now)
}

// report is what the router knows, with the orders that it obeys.
func (n *Instance) report(now time.Time) *routerpb.Report {
	r := n.router.Report(now)
	r.Orders = override.Signal(n.orders.Current())
	return r
}

// revert is the table that an order goes back to, if one does.
func (n *Instance) revert() (ref table.Ref, reverts bool) {
	if o := n.orders.Current().Revert(); o != nil {
		return table.Ref{Epoch: o.Epoch, Revision: o.Revision}, true
	}
	return table.Ref{}, false
}

func (n *Instance) ordersStatus() override.Status { return n.orders.Status() }

// ownStore keeps the quotas of organisations without another home: Redis, or without one this process.
func (n *Instance) ownStore(c *clocks) (admit.Store, error) {
	if n.o.Redis.Addresses == "" {
		n.log.Warn("quotas are counted by this router alone: give --redis when there are several")
		return ratelimit.NewLending(nil), nil
	}
	o, err := n.o.Redis.lender()
	if err != nil {
		return nil, err
	}
	o.Logger = n.log.With("store", n.o.Redis.Addresses)
	o.Stepped = c.of("")
	return redisbucket.NewLender(o)
}

// fit refuses a Redis that may forget quotas. One that is away may be a good one: every new
// connection is checked again, and until then each tenant's policy for its absence holds.
func (n *Instance) fit() error {
	if n.stores.redis == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	switch err := n.stores.redis.Check(ctx); {
	case errors.Is(err, ratelimit.ErrUnfit):
		return fmt.Errorf("--redis %s: %w", n.o.Redis.Addresses, err)
	case err != nil:
		n.log.Warn("Redis does not answer yet", "address", n.o.Redis.Addresses, "error", err)
	}
	return nil
}

// listen binds the ports. Nothing is served yet.
func (n *Instance) listen() (err error) {
	if n.admin, err = bind("--admin-listen", n.o.AdminListen, nil, n.router.Admin()); err != nil {
		return err
	}
	n.admin.http.WriteTimeout = 30 * time.Second
	if n.o.TLS.Empty() {
		if n.o.PeerListen != "" {
			n.log.Warn("other regions can't enter here without TLS: give --tls-cert, --tls-key and --tls-ca")
		}
	} else if n.o.PeerListen != "" || n.o.PeerListener != nil {
		if n.peer, err = bind("--peer-listen", n.o.PeerListen, n.o.PeerListener, n.router.Peer()); err != nil {
			return err
		}
		n.peer.http.TLSConfig = n.own.Server(identity.KindRouter)
		// The most that net/http allows: with its default of 1 MiB a connection across an ocean
		// carries no more than 7 MB of prompts a second.
		// Streams on a connection are many because peers make few of them, and pings find out which
		// peers have vanished, whose requests go on computing until then.
		n.peer.http.HTTP2 = &http.HTTP2Config{
			MaxReceiveBufferPerConnection: 4<<20 - 1, MaxReceiveBufferPerStream: 4<<20 - 1,
			MaxConcurrentStreams: 1000, SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second,
		}
	}
	if n.front, err = bind("--listen", n.o.Listen, nil, n.router.Front()); err != nil {
		return err
	}
	if n.o.FrontCert != "" {
		shown, err := n.certs.Open("listen", identity.Files{Cert: n.o.FrontCert, Key: n.o.FrontKey})
		if err != nil {
			return err
		}
		n.front.http.TLSConfig = shown.Front()
	}
	return nil
}

// close frees what open took of an instance that never runs.
func (n *Instance) close() error {
	var problems []error
	for _, s := range []*server{n.admin, n.peer, n.front} {
		if s != nil {
			problems = append(problems, s.listener.Close())
		}
	}
	if n.door != nil {
		problems = append(problems, n.door.listener.Close())
	}
	return errors.Join(append(problems, n.closeStores(), n.endTraces())...)
}

func (n *Instance) closeStores() error {
	if n.stores == nil {
		return nil
	}
	return n.stores.close()
}

// Addresses that the router is bound to.
func (n *Instance) Addresses() Addresses {
	a := Addresses{Front: n.front.address(), Admin: n.admin.address()}
	if n.peer != nil {
		a.Peer = n.peer.address()
	}
	if n.door != nil {
		a.RLS = n.door.listener.Addr().String()
	}
	return a
}

// Router is the data plane, for whoever runs it in the same process.
func (n *Instance) Router() *dataplane.Router { return n.router }

// Run serves until ctx ends or a part fails. On the way down readiness goes first, and for the drain
// delay nothing else; then open requests are waited for, clients' before peers'; then the last report is sent; and the quotas are
// settled last.
func (n *Instance) Run(ctx context.Context) error {
	at := n.Addresses()
	n.log.Info("starting", "router", n.o.Router, "region", n.o.Region, "version", n.o.Version,
		"listen", at.Front, "peer", at.Peer, "admin", at.Admin, "rls", at.RLS)
	parts := []lifecycle.Part{
		{Name: "certificates", Run: n.certs.Run},
		{Name: "data plane", Run: n.runDataPlane},
		{Name: "admin", Run: n.admin.run},
		{Name: "orders", Run: n.orders.Run},
		{Name: "control plane", Run: n.control.Run},
	}
	parts = append(parts, n.doorParts()...)
	if n.peer != nil {
		parts = append(parts, lifecycle.Part{Name: "peer", Run: n.peer.run, Stop: n.drain(n.peer), StopWithin: n.o.DrainWithin})
	}
	parts = append(
		parts,
		lifecycle.Part{Name: "front", Run: n.front.run, Stop: n.drain(n.front), StopWithin: n.o.DrainWithin},
		lifecycle.Part{Name: "readiness", Run: untilDone, Stop: n.withdraw, StopWithin: n.o.DrainDelay + time.Second},
	)
	return lifecycle.Run(ctx, n.log, parts...)
}

func (n *Instance) runDataPlane(ctx context.Context) error {
	// The router's leases are given back before the stores are let go.
	last, stop := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	var failed error
	beside.Go(func() { failed = n.stores.run(last) })
	err := n.router.Run(ctx)
	stop()
	beside.Wait()
	return errors.Join(err, failed, n.closeStores(), n.endTraces())
}

// untilDone is a part that has nothing to do but to be stopped.
func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// withdraw turns readiness off and leaves load balancers the time to see it.
func (n *Instance) withdraw(ctx context.Context) error {
	n.router.Withdraw()
	if n.o.DrainDelay == 0 {
		return nil
	}
	n.log.Info("not ready any more, and still serving", "for", n.o.DrainDelay)
	select {
	case <-n.after(n.o.DrainDelay):
	case <-ctx.Done():
	}
	return nil
}

// drain takes no new connections, and waits for what is open; every few
// seconds it says how much that is.
func (n *Instance) drain(s *server) func(context.Context) error {
	return func(ctx context.Context) error {
		n.router.Drain()
		done := make(chan error, 1)
		go func() { done <- s.http.Shutdown(ctx) }()
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			select {
			case err := <-done:
				if errors.Is(err, context.DeadlineExceeded) {
					left := n.router.Left()
					return fmt.Errorf("%d requests were still open after %s and are cut (%d of clients, %d of peers; %d waited for room)",
						left.Clients+left.Peers, n.o.DrainWithin, left.Clients, left.Peers, left.Waiting)
				}
				return err
			case <-tick.C:
				left := n.router.Left()
				n.log.Info("draining", "clients", left.Clients, "peers", left.Peers, "waiting", left.Waiting, "shadows", left.Shadows)
			}
		}
	}
}

func (n *Instance) controlStatus() dataplane.ControlStatus {
	s := n.control.Status()
	c := dataplane.ControlStatus{Connected: s.Connected, Node: string(s.Node), Address: s.Address, LastContact: s.LastContact}
	if s.Waiting != (table.Ref{}) {
		c.Waiting = &dataplane.TableNumber{Epoch: s.Waiting.Epoch, Revision: s.Waiting.Revision}
	}
	if s.Refused != nil {
		c.Refused = s.Refused.String()
	}
	if s.DiskError != nil {
		c.Disk = s.DiskError.Error()
	}
	return c
}

// server is one listener and what it serves.
type server struct {
	listener net.Listener
	http     *http.Server
}

func bind(flag, address string, bound net.Listener, h http.Handler) (*server, error) {
	if bound == nil {
		var (
			config net.ListenConfig
			err    error
		)
		if bound, err = config.Listen(context.Background(), "tcp", address); err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &server{bound, &http.Server{
		Handler: h, Protocols: &protocols,
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 4096},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // handshakes and aborts that clients cause
	}}, nil
}

func (s *server) address() string { return s.listener.Addr().String() }

func (s *server) run(ctx context.Context) error { return lifecycle.Serve(ctx, s.http, s.listener) }
