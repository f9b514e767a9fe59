package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"anabranch/api/fleet"
	"anabranch/api/identity"
	"anabranch/api/routerpb"
	"anabranch/cmd/certificate"
	"anabranch/cmd/lifecycle"
	"anabranch/controlplane/audit/archive"
	"anabranch/controlplane/backup"
	"anabranch/controlplane/billing"
	"anabranch/controlplane/capacity"
	"anabranch/controlplane/cloudwatch"
	"anabranch/controlplane/collect"
	"anabranch/controlplane/emergency"
	"anabranch/controlplane/forward"
	"anabranch/controlplane/forward/nodepb"
	"anabranch/controlplane/inquiry"
	"anabranch/controlplane/leader"
	"anabranch/controlplane/ledger"
	"anabranch/controlplane/oidc"
	"anabranch/controlplane/prices"
	"anabranch/controlplane/publish"
	"anabranch/controlplane/reconcile"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
	"anabranch/controlplane/usage"
)

// maxReport bounds a message of a router in bytes: a report over hundreds of clusters.
const maxReport = 4 << 20

// Addresses is where a node listens.
type Addresses struct {
	HTTP, GRPC, Raft string
}

// Node is one control plane node. New binds its ports, Run does the rest.
type Node struct {
	o        Options
	log      *slog.Logger
	store    *store.Store
	forward  *forward.Forward
	signals  *signal.Store
	leader   *leader.Leader
	ledger   *ledger.Counter
	usage    *usage.Gatherer
	publish  *publish.Server
	rest     *rest.Server
	backups  *backup.Schedule  // nil: none are taken
	archive  *archive.Archiver // nil: the audit trail is not archived
	collect  *collect.Collector
	prices   *prices.Keeper
	grpc     *grpc.Server
	http     *http.Server
	people   *oidc.Provider // nil: none
	certs    *certificate.Keeper
	metrics  *prometheus.Registry // of all parts
	capacity *capacity.Keeper
	// emergency keeps orders that are given without quorum.
	emergency *emergency.Book
	// cloudWatch is nil unless metrics are published there.
	cloudWatch *cloudwatch.Publisher
	// reconcile is nil unless the account is held against bills.
	reconcile *reconcile.Reconciler

	httpListener, grpcListener net.Listener
}

// New checks the options, opens the data folder and binds the ports. A node that is made must be
// run: Run frees what New took.
func New(o Options) (*Node, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	n := &Node{o: o, log: o.Logger.With("component", "node"), signals: signal.New(nil), certs: certificate.New(o.Logger)}
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// open takes ports and folder, then builds what stands on them.
func (n *Node) open() error {
	var err error
	var listen net.ListenConfig
	if n.httpListener, err = listen.Listen(context.Background(), "tcp", n.o.HTTP); err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	if n.grpcListener, err = listen.Listen(context.Background(), "tcp", n.o.GRPC); err != nil {
		return fmt.Errorf("--grpc: %w", err)
	}
	options := store.Options{
		Dir: n.o.DataDir, ID: n.o.ID,
		RaftListen: n.o.Raft, Listener: n.o.RaftListener, RaftAdvertise: n.o.RaftAdvertise,
		Peers: n.o.Peers, TimeScale: n.o.TimeScale, Logger: n.o.Logger,
	}
	routers := grpc.Creds(insecure.NewCredentials())
	var identify func(context.Context) (fleet.RegionID, fleet.RouterID, error)
	if !n.o.TLS.Empty() {
		own, err := n.certs.Open("tls", n.o.TLS)
		if err != nil {
			return err
		}
		options.TLS = own.Client(identity.KindNode)
		routers = grpc.Creds(credentials.NewTLS(own.Server(identity.KindRouter)))
		identify = publish.FromCertificate
	}
	if n.store, err = store.Open(options); err != nil {
		return err
	}
	return n.wire(routers, identify)
}

// wire builds the parts; nothing runs yet.
func (n *Node) wire(routers grpc.ServerOption, identify func(context.Context) (fleet.RegionID, fleet.RouterID, error)) error {
	id := n.store.ID()
	desk := inquiry.NewDesk(id)
	registry := n.registry()
	n.metrics = registry
	if err := n.wireEmergency(registry); err != nil {
		return err
	}
	n.forward = forward.New(forward.Options{
		Store:  n.store,
		Desk:   desk,
		Orders: n.emergency,
		Logger: n.o.Logger,
		Local: func() *nodepb.ExchangeRequest {
			return &nodepb.ExchangeRequest{Routers: n.signals.Local(id), Sources: n.signals.LocalSources(id)}
		},
		Exchange: func(r *nodepb.ExchangeRequest) {
			now := time.Now()
			n.signals.Merge(r.GetRouters(), now)
			n.signals.MergeSources(fleet.NodeID(r.GetNodeId()), r.GetSources(), now)
		},
	})
	var err error
	if n.leader, err = leader.New(leader.Options{
		Store: n.store, Propose: n.store.Propose, Signals: n.signals, Cold: n.cold, Logger: n.o.Logger, Registerer: registry,
		Drills: leader.Drills{Simulator: rehearsals{}, Isolate: n.isolate},
	}); err != nil {
		return err
	}
	if n.ledger, err = ledger.New(ledger.Options{
		View: n.store.View, Propose: n.forward.Propose, Logger: n.o.Logger, Registerer: registry,
	}); err != nil {
		return err
	}
	if n.usage, err = usage.New(usage.Options{
		View: n.store.View, Propose: n.forward.Propose, Price: billing.Price, Logger: n.o.Logger, Registerer: registry,
	}); err != nil {
		return err
	}
	if err := errors.Join(n.wireCapacity(registry), n.wireBackups(registry), n.wireCollect(registry), n.wireCloudWatch(registry), n.wireReconcile(registry), n.wirePrices(registry)); err != nil {
		return err
	}
	desks, err := inquiry.NewDesks(inquiry.Options{
		Desk: desk, Nodes: forward.Inquiries{Forward: n.forward}, Holder: n.holder, Registerer: registry,
	})
	if err != nil {
		return err
	}
	if n.publish, err = publish.New(publish.Options{
		Node: id, View: n.store.View, Changed: n.store.Changed, Signals: n.signals,
		Emergencies: n.emergency,
		Inquiries:   desk, Spendings: n.ledger, Usages: n.usage, Effect: new(effects).of, Identify: identify, Fleet: n.fleet, Isolated: n.isolated, Registerer: registry, Logger: n.o.Logger,
	}); err != nil {
		return err
	}
	people, err := n.wireSignIn()
	if err != nil {
		return err
	}
	if n.rest, err = rest.New(rest.Options{
		Node: id, View: n.store.View, Changed: n.store.Changed,
		Propose: n.forward.Propose, ReadBarrier: n.forward.ReadIndex,
		Members: n.members, Membership: n.forward, Leader: n.store.Leader, Ready: n.ready, Staleness: n.staleness,
		SignIn: people, Prices: n.prices.Asked, Inquiries: desks, Signals: n.signals, Console: n.o.Console, Metrics: handler(registry), Registerer: registry,
		Logger: n.o.Logger, Version: n.o.Version, ReadRate: n.o.ReadRate, WriteRate: n.o.WriteRate,
		CohortOf: leader.Cohort,
		Look:     n.leader.Look,
		TableSize: func(v *state.View) (int, error) {
			now := time.Now()
			return leader.TableSize(v, n.signals.Snapshot(now), now)
		},
		Table: func(v *state.View, before *routerpb.Table, signals signal.Snapshot) *routerpb.Table {
			return leader.Table(v, before, signals, signals.At)
		},
		Emergency: n.emergency,
		Planned:   n.leader.Input,
		Advisor:   n.capacity,
		Simulator: simulator{},
		Drills:    n.dryRun,
		Readiness: n.drillable,
		DrillPage: drillPage,
	}); err != nil {
		return err
	}
	n.http = n.rest.HTTPServer()
	if n.o.HTTPCert != "" {
		shown, err := n.certs.Open("http", identity.Files{Cert: n.o.HTTPCert, Key: n.o.HTTPKey})
		if err != nil {
			return err
		}
		n.http.TLSConfig = shown.Front()
	} else if !loopback(n.httpListener.Addr().String()) {
		n.log.Warn("tokens travel in the clear: give --http-cert and --http-key, or end TLS in front of this port", "http", n.httpListener.Addr().String())
	}
	n.grpc = grpc.NewServer(
		routers,
		grpc.MaxRecvMsgSize(maxReport),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: publish.DefaultDead, Timeout: publish.DefaultPing}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: publish.DefaultPing, PermitWithoutStream: true}),
	)
	routerpb.RegisterRouterControlServer(n.grpc, n.publish)
	return nil
}

// wireSignIn makes what knows people by an OpenID provider; nil: there is none.
func (n *Node) wireSignIn() (rest.SignIn, error) {
	if n.o.OIDC == nil {
		return nil, nil //nolint:nilnil // see above
	}
	o := *n.o.OIDC
	o.Logger = n.o.Logger
	var err error
	n.people, err = oidc.New(o)
	return n.people, err
}

// meetProvider keeps in touch with the OpenID provider.
func (n *Node) meetProvider(ctx context.Context) error {
	if n.people == nil {
		<-ctx.Done()
		return nil
	}
	return n.people.Run(ctx)
}

// close frees what open took of a node that never runs.
func (n *Node) close() error {
	var problems []error
	for _, l := range []net.Listener{n.httpListener, n.grpcListener} {
		if l != nil {
			problems = append(problems, l.Close())
		}
	}
	if n.store != nil {
		ended, end := context.WithCancel(context.Background())
		end()
		problems = append(problems, n.store.Run(ended))
	}
	return errors.Join(problems...)
}

// ID of the node.
func (n *Node) ID() fleet.NodeID { return n.store.ID() }

// Addresses that the node is bound to.
func (n *Node) Addresses() Addresses {
	return Addresses{
		HTTP: n.httpListener.Addr().String(),
		GRPC: n.grpcListener.Addr().String(),
		Raft: n.store.Address(),
	}
}

// Run serves until ctx ends or the node must stop, and says why.
func (n *Node) Run(ctx context.Context) error {
	at := n.Addresses()
	n.log.Info("starting", "node", n.ID(), "version", n.o.Version, "http", at.HTTP, "grpc", at.GRPC, "raft", at.Raft)
	return lifecycle.Run(ctx, n.log,
		lifecycle.Part{Name: "certificates", Run: n.certs.Run},
		lifecycle.Part{Name: "store", Run: n.store.Run},
		lifecycle.Part{Name: "forward", Run: n.forward.Run},
		lifecycle.Part{Name: "membership", Run: n.takePart, Stop: n.leave},
		lifecycle.Part{Name: "collect", Run: n.collect.Run},
		lifecycle.Part{Name: "emergency", Run: n.emergency.Run},
		lifecycle.Part{Name: "leader", Run: n.leader.Run},
		lifecycle.Part{Name: "ledger", Run: n.ledger.Run},
		lifecycle.Part{Name: "usage", Run: n.usage.Run},
		lifecycle.Part{Name: "prices", Run: n.prices.Run},
		lifecycle.Part{Name: "capacity", Run: n.capacity.Run},
		lifecycle.Part{Name: "backup", Run: n.takeBackups},
		lifecycle.Part{Name: "archive", Run: n.archiveAudit},
		lifecycle.Part{Name: "cloudwatch", Run: n.publishMetrics},
		lifecycle.Part{Name: "reconcile", Run: n.askForBills},
		lifecycle.Part{Name: "sign-in", Run: n.meetProvider},
		lifecycle.Part{Name: "publish", Run: n.publish.Run},
		lifecycle.Part{Name: "series", Run: n.rest.Run},
		lifecycle.Part{Name: "grpc", Run: n.serveGRPC},
		lifecycle.Part{Name: "http", Run: n.serveHTTP, Stop: n.http.Shutdown},
	)
}

func (n *Node) serveGRPC(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- n.grpc.Serve(n.grpcListener) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		n.grpc.Stop()
		if err := <-done; !errors.Is(err, grpc.ErrServerStopped) { // stopped before it began
			return err
		}
		return nil
	}
}

func (n *Node) serveHTTP(ctx context.Context) error {
	return lifecycle.Serve(ctx, n.http, n.httpListener)
}

// takePart joins the cluster if asked to, gives a new one its identity, and tells the others how
// this node is reached. Each step is harmless when repeated.
func (n *Node) takePart(ctx context.Context) error {
	steps := []func(context.Context) error{n.found, n.introduce}
	if len(n.o.Join) > 0 {
		steps = append([]func(context.Context) error{func(ctx context.Context) error {
			return n.forward.Join(ctx, n.o.Join)
		}}, steps...)
	}
	for _, step := range steps {
		if err := n.retry(ctx, step); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// retry calls step until it is done or ctx ends: before there is a quorum nothing can be.
func (n *Node) retry(ctx context.Context, step func(context.Context) error) error {
	for {
		err := step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // stopped on purpose, whatever the step says to that
		case err == nil, errors.Is(err, store.ErrForeignCluster):
			return err
		}
		n.log.Debug("not part of the cluster yet", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// found makes a new cluster know itself and its first tokens. The first node whose command is
// committed wins; Apply ignores the rest. A node without tokens leaves it to the others: nobody could
// ever speak to a cluster that it had founded.
func (n *Node) found(ctx context.Context) error {
	view := n.store.View()
	if view.ClusterID() != "" {
		return nil
	}
	if len(n.o.Tokens) == 0 || len(n.o.Peers) == 0 {
		n.log.Info("waiting for a node with --peers and --tokens-file to set up the cluster")
		select {
		case <-ctx.Done():
			return nil
		case <-n.store.Changed(view.Index()):
			return errors.New("the cluster's identity has not arrived yet")
		}
	}
	_, err := n.forward.Propose(ctx, &statepb.Command{
		Actor: n.actor(),
		Op:    &statepb.Command_Init{Init: &statepb.Init{ClusterId: uuid.NewString(), Tokens: n.o.tokens()}},
	})
	return err
}

func (n *Node) introduce(ctx context.Context) error {
	at := n.Addresses()
	me := &statepb.PutNode{Id: string(n.ID()), HttpAddress: at.HTTP, GrpcAddress: at.GRPC, Version: n.o.Version}
	if known, ok := n.store.View().Node(string(n.ID())); ok &&
		known.GetHttpAddress() == me.HttpAddress && known.GetGrpcAddress() == me.GrpcAddress && known.GetVersion() == me.Version {
		return nil
	}
	_, err := n.forward.Propose(ctx, &statepb.Command{
		Actor: n.actor(), Op: &statepb.Command_PutNode{PutNode: me},
	})
	return err
}

func (n *Node) actor() *statepb.Actor {
	return &statepb.Actor{Name: "system/" + string(n.ID()), Role: "system"}
}
