package publish

import (
	"bytes"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"anabranch/api/delta"
	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
)

// maxMisfits is how many deltas a router may be unable to put together until it is sent whole tables
// for the rest of its stream.
const maxMisfits = 2

// session is one router's stream, from its hello on. Only its own goroutine touches it, but for
// replaced and moved, which the server closes.
type session struct {
	s        *Server
	router   fleet.RouterID
	region   fleet.RegionID
	send     chan<- *routerpb.ToRouter
	replaced chan struct{}
	moved    chan struct{}
	number   uint64 // in the order of coming; the server's, as is moving, which says that moved is closed
	moving   bool
	form     form                       // of the tables that it gets
	deltas   bool                       // it takes deltas
	heard    func(*routerpb.FromRouter) // takes answers to questions; nil: it is asked none

	overreached bool // its reports told more than is its own; said once

	seen   signal.Observation
	holds  *routerpb.TableRef // what the router has, as far as it said
	digest []byte             // of that, as its hello said; nil: what this node sent, or not told
	// refused is the last table that it did not take: nothing is sent until there is a newer one.
	refused *routerpb.TableRef
	// flying is the table on its way, and nonce its number; nil: none.
	flying *routerpb.TableRef
	nonce  uint64
	sent   time.Time
	// partly: what is on its way is a delta. misfits are those that did not fit, and whole is what
	// must come after one.
	partly, whole bool
	misfits       int
	books         books
	consumption   consumption
	tenure        tenure
	commands      commands
}

func newSession(s *Server, hello *routerpb.Hello, send chan<- *routerpb.ToRouter) *session {
	x := &session{
		s:        s,
		router:   fleet.RouterID(hello.GetRouterId()),
		region:   fleet.RegionID(hello.GetRegion()),
		send:     send,
		replaced: make(chan struct{}),
		moved:    make(chan struct{}),
		holds:    hello.GetHolds(),
		digest:   hello.GetHoldsSha256(),
		deltas:   slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_DELTA),
		seen: signal.Observation{
			Node: s.o.Node, Hello: hello, Received: s.o.Now(), Connected: true,
		},
	}
	if slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_SLICE) {
		x.form.region = x.region
	}
	x.form.plain = !slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_LEASES)
	x.form.patient = !slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_SHED)
	x.form.settled = !slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_DRILL)
	x.tenure.on = !x.form.settled
	x.books.on = slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_LEDGER)
	x.consumption.on = slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_USAGE)
	x.commands.on = slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_ORDERS)
	return x
}

// run carries the stream until either side ends it.
func (x *session) run(ctx context.Context, received <-chan *routerpb.FromRouter, lost <-chan error) error {
	s := x.s
	s.o.Signals.Put(x.seen)
	s.logger.Info("router joined", "router", x.router, "region", x.region, "version", x.seen.Hello.GetVersion())
	x.send <- &routerpb.ToRouter{Body: &routerpb.ToRouter_Welcome{Welcome: &routerpb.Welcome{
		Protocol: Protocol, NodeId: string(s.o.Node), ClusterId: s.o.View().ClusterID(),
	}}}
	ping := time.NewTicker(s.o.Ping)
	defer ping.Stop()
	dead := time.NewTimer(s.o.Dead)
	defer dead.Stop()
	pace := time.NewTicker(s.o.LedgerEvery)
	defer pace.Stop()
	for {
		changed := s.turns.wait()
		view := s.o.View()
		table := view.TableFor(x.router, x.region)
		message := x.next(view, table)
		var push chan<- *routerpb.ToRouter
		if message != nil {
			push = x.send
		}
		account := x.account(view, s.o.Now())
		var tell chan<- *routerpb.ToRouter
		if account.ToRouter != nil {
			tell = x.send
		}
		if account.ToRouter != nil && !x.books.whole {
			push = nil // a table may bring a new quota store, which takes from the ledger what is spent
		}
		taken, after := x.taken(view)
		var mark chan<- *routerpb.ToRouter
		if taken != nil {
			mark = x.send
		}
		lease, tenure := x.lease(view, s.o.Now())
		var lend chan<- *routerpb.ToRouter
		if lease != nil {
			lend = x.send
		}
		orders, ordered := x.orders(view, s.o.Now())
		var order chan<- *routerpb.ToRouter
		if orders != nil {
			order = x.send
			push = nil // what holds tables off, or goes back, comes before them
		}
		select {
		case order <- &routerpb.ToRouter{Body: &routerpb.ToRouter_Orders{Orders: orders}}:
			x.commands.told = orders
		case <-ordered:
		case push <- message:
			x.nonce++
			x.flying, x.partly, x.whole, x.sent = table.GetRef(), message.GetDelta() != nil, false, s.o.Now()
			s.metrics.count(message)
		case m := <-received:
			dead.Reset(s.o.Dead)
			if err := x.hear(m); err != nil {
				return err
			}
		case tell <- account.ToRouter:
			x.books = account.books
		case mark <- taken:
			x.consumption = after
		case lend <- lease:
			x.tenure = tenure
		case <-changed:
		case <-pace.C:
		case <-ping.C:
			if x.flying != nil && s.o.Now().Sub(x.sent) > 2*s.o.Dead {
				return status.Errorf(codes.DeadlineExceeded, "table %d was not acknowledged within %s", x.flying.GetRevision(), 2*s.o.Dead)
			}
			select {
			case x.send <- &routerpb.ToRouter{Body: &routerpb.ToRouter_Ping{Ping: &routerpb.Ping{AtUnixMs: s.o.Now().UnixMilli()}}}:
			default: // something is on its way, which is as good as a ping
			}
		case <-dead.C:
			return status.Errorf(codes.DeadlineExceeded, "router was silent for %s", s.o.Dead)
		case <-x.replaced:
			return status.Error(codes.Aborted, "the router has connected again")
		case <-x.moved:
			return status.Error(codes.Unavailable, "node has more than its share of routers: connect to another")
		case <-s.stop:
			return status.Error(codes.Unavailable, "node is stopping")
		case err := <-lost:
			return ended(err)
		case <-ctx.Done():
			return ended(ctx.Err())
		}
	}
}

// next is what to send now, or nil: one table at a time, never one that the router has or has
// refused, never back behind what it has. A restored state that has not published a table since its epoch
// rose has nothing for routers that hold one: theirs may be the later one, whatever the numbers say.
func (x *session) next(view *state.View, table *routerpb.Table) *routerpb.ToRouter {
	ref := table.GetRef()
	if x.holds != nil && (view.EpochDue() || ref.GetEpoch() < view.Epoch()) {
		return nil
	}
	if table == nil || x.flying != nil || !newer(ref, x.holds) || !newer(ref, x.refused) {
		return nil
	}
	m := x.s.forms.get(table, x.form, view.Table(), view.FreshTable())
	if d := x.delta(m, view.Tables()); d != nil {
		return &routerpb.ToRouter{Body: &routerpb.ToRouter_Delta{Delta: d}}
	}
	return &routerpb.ToRouter{Body: &routerpb.ToRouter_Table{Table: &routerpb.TablePush{Nonce: x.nonce + 1, Table: m.whole()}}}
}

// delta is what differs from what the router has. Nil: it needs the whole.
func (x *session) delta(m *made, kept []*routerpb.Table) *routerpb.TableDelta {
	if !x.deltas || x.whole || x.holds == nil {
		return nil
	}
	b := m.from(x.holds, kept, x.form)
	if b == nil || b.delta == nil || x.digest != nil && !bytes.Equal(x.digest, b.digest) {
		return nil
	}
	d := b.delta
	return &routerpb.TableDelta{ // shared but for the nonce
		Nonce: x.nonce + 1, Base: d.GetBase(), Changed: d.GetChanged(), Sha256: d.GetSha256(),
		Regions: d.GetRegions(), Clusters: d.GetClusters(), Models: d.GetModels(), Tenants: d.GetTenants(),
		Quotas: d.GetQuotas(), Classes: d.GetClasses(), Weights: d.GetWeights(), Rules: d.GetRules(),
		Organisations: d.GetOrganisations(), DrillKept: d.GetDrillKept(),
	}
}

// newer says whether a router that has seen one table would take another: it is of a different
// control plane, which is the router's to judge, or later in the order of epoch and revision.
func newer(ref, than *routerpb.TableRef) bool {
	switch {
	case than == nil || ref.GetClusterId() != than.GetClusterId():
		return true
	case ref.GetEpoch() != than.GetEpoch():
		return ref.GetEpoch() > than.GetEpoch()
	default:
		return ref.GetRevision() > than.GetRevision()
	}
}

func (x *session) hear(m *routerpb.FromRouter) error {
	switch body := m.GetBody().(type) {
	case *routerpb.FromRouter_Report:
		x.reported(body.Report)
	case *routerpb.FromRouter_Ack:
		x.acknowledge(body.Ack)
	case *routerpb.FromRouter_Hello:
		return status.Error(codes.InvalidArgument, "hello comes once")
	case *routerpb.FromRouter_Spending:
		return x.spent(body.Spending)
	case *routerpb.FromRouter_Usage:
		return x.used(body.Usage)
	default:
		if x.heard != nil {
			x.heard(m)
		}
		return nil // an answer, or of a newer version
	}
	x.s.o.Signals.Put(x.seen)
	return nil
}

func (x *session) acknowledge(ack *routerpb.Ack) {
	if x.flying == nil || ack.GetNonce() != x.nonce {
		return // of nothing that is on its way
	}
	ref := x.flying
	x.flying = nil
	x.s.metrics.answered(ack)
	if x.partly && !ack.GetOk() && (ack.GetCode() == delta.CodeBase || ack.GetCode() == delta.CodeDigest) {
		x.misfit(ack, ref)
		return
	}
	x.seen.Ack = ack
	if ack.GetOk() {
		x.holds, x.digest = ref, nil
		x.s.logger.Debug("table acknowledged", "router", x.router, "epoch", ref.GetEpoch(), "revision", ref.GetRevision())
		return
	}
	x.refused = ref
	x.s.logger.Error("router refused a table", "router", x.router, "region", x.region, "epoch", ref.GetEpoch(),
		"revision", ref.GetRevision(), "code", ack.GetCode(), "field", ack.GetField(), "reason", ack.GetMessage())
}

// misfit notes that the router could not make a table of a delta: it gets the whole next.
func (x *session) misfit(ack *routerpb.Ack, ref *routerpb.TableRef) {
	x.whole = true
	x.misfits++
	x.deltas = x.misfits < maxMisfits
	x.s.logger.Warn("router needs the whole table", "router", x.router, "region", x.region, "epoch", ref.GetEpoch(),
		"revision", ref.GetRevision(), "code", ack.GetCode(), "reason", ack.GetMessage(), "more_deltas", x.deltas)
}
