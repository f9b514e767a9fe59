package node

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/publish"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	held "anabranch/dataplane/drill"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/table"
	"anabranch/failover/drill"
)

// lender is one of the nodes that lend a drill to a router, in virtual time, with a copy of the state of its own.
type lender struct {
	t *testing.T

	mu       sync.Mutex // guards what is below
	view     *state.View
	changed  chan struct{} // closed by the next change
	listener pipes
	stop     func()
	away     bool // it applies nothing
}

// View is the state as this node knows it.
func (l *lender) View() *state.View {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view
}

func (l *lender) Changed(after uint64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.view.Index() > after {
		done := make(chan struct{})
		close(done)
		return done
	}
	return l.changed
}

func (l *lender) apply(c *statepb.Command) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	next, out, err := state.Apply(l.view, l.view.Index()+1, c)
	if err != nil || out.GetCode() != "" {
		l.t.Fatalf("apply: %v %v", err, out)
	}
	l.view = next
	close(l.changed)
	l.changed = make(chan struct{})
}

// up starts the node's process: it knows its state, and not since when.
func (l *lender) up() {
	server, err := publish.New(publish.Options{
		Node: "n", View: l.View, Changed: l.Changed, Signals: signal.New(nil), Logger: slog.New(slog.DiscardHandler),
		Effect: func(d *statepb.Drill) drill.Effect {
			return drill.Effect{Leased: drill.State(d.GetState()).Leased(), Shifted: held.Whole / 2}
		},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	g := grpc.NewServer()
	routerpb.RegisterRouterControlServer(g, server)
	listener := pipes{dialled: make(chan net.Conn), closed: make(chan struct{}), once: new(sync.Once)}
	var parts sync.WaitGroup
	parts.Go(func() { _ = server.Run(ctx) })   // it has no error
	parts.Go(func() { _ = g.Serve(listener) }) // it ends as it is stopped
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener = listener
	l.stop = func() {
		cancel()
		g.Stop()
		parts.Wait()
	}
}

// down ends the process and its streams at once; nothing if it is not up.
func (l *lender) down() {
	l.mu.Lock()
	stop := l.stop
	l.listener, l.stop = pipes{}, nil
	l.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// lending is three nodes and a router, while a drill is under way.
type lending struct {
	t      *testing.T
	nodes  [3]*lender
	id     uint64
	tables table.Holder
	leases *held.Holder
	status func() subscribe.Status
	end    func()
}

// commit applies a command at every node that is not away.
func (q *lending) commit(op *statepb.Command) {
	q.t.Helper()
	op.Format, op.AtUnixMs = 6, time.Now().UnixMilli()
	if op.Actor == nil {
		op.Actor = &statepb.Actor{Name: "system/leader"}
	}
	for _, n := range q.nodes {
		if !n.away {
			n.apply(proto.CloneOf(op))
		}
	}
}

func (q *lending) drill() *statepb.Drill {
	for _, n := range q.nodes {
		if !n.away {
			return n.View().Drill(q.id)
		}
	}
	return nil
}

func (q *lending) steer(to drill.State) {
	q.t.Helper()
	q.commit(&statepb.Command{Op: &statepb.Command_SteerDrill{SteerDrill: &statepb.SteerDrill{
		Id: q.id, IfRevision: q.drill().GetRevision(), State: string(to), BaseSha256: bytes.Repeat([]byte{1}, 32), NotAfterUnixMs: time.Now().Add(time.Hour).UnixMilli(),
	}}})
}

// renew has the leader renew each 5 s, for n times.
func (q *lending) renew(n int) {
	q.t.Helper()
	for range n {
		<-time.After(drill.RenewEvery)
		q.commit(&statepb.Command{Op: &statepb.Command_RenewDrill{RenewDrill: &statepb.RenewDrill{Id: q.id, IfRevision: q.drill().GetRevision()}}})
	}
	<-time.After(100 * time.Millisecond)
}

// obeys says whether the router's requests obey the drill now.
func (q *lending) obeys() bool {
	t := q.tables.Load()
	return t != nil && q.leases.View().Obeyed(t.Drill(), q.leases.At(time.Now()))
}

// until is how long the router obeys, looked at ten times a second, at most for two minutes.
func (q *lending) until() time.Duration {
	began := time.Now()
	for q.obeys() && time.Since(began) < 2*time.Minute {
		<-time.After(100 * time.Millisecond)
	}
	return time.Since(began)
}

// newLending brings a drill to where half of its traffic is shifted, and a router that obeys it.
func newLending(t *testing.T) *lending {
	q := &lending{t: t, leases: held.NewHolder(time.Now())}
	for i := range q.nodes {
		q.nodes[i] = &lender{t: t, view: state.Empty(), changed: make(chan struct{})}
		q.nodes[i].apply(&statepb.Command{Format: 1, AtUnixMs: 1, Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1"}}})
	}
	by := func(name string, c *statepb.Command) {
		c.Actor = &statepb.Actor{Name: name}
		q.commit(c)
	}
	level := &statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 6}}}
	for _, n := range q.nodes {
		c := proto.CloneOf(level)
		c.Format, c.AtUnixMs = 2, 1
		n.apply(c)
	}
	by("ann", &statepb.Command{Op: &statepb.Command_CreateDrill{CreateDrill: &statepb.CreateDrill{Spec: []byte(`{"kind":"soft"}`)}}})
	q.id = q.nodes[0].View().Drills()[0].GetId()
	decide := func(who string, d *statepb.DecideDrill) {
		d.Id = q.id
		by(who, &statepb.Command{Op: &statepb.Command_DecideDrill{DecideDrill: d}})
	}
	decide("ann", &statepb.DecideDrill{Act: "validate", Resolved: []byte(`{"clusters":["us-0"]}`), Forecast: []byte(`{"verdict":"PASS"}`)})
	decide("bob", &statepb.DecideDrill{Act: "approve", PlanSha256: q.drill().GetPlanSha256()})
	decide("ann", &statepb.DecideDrill{Act: "start"})
	with := fleetTable()
	with.Drill = &routerpb.Drill{Id: q.id, Kind: "soft", Clusters: []string{"us-0"}, BaseSha256: bytes.Repeat([]byte{1}, 32)}
	q.commit(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: with}}})
	for _, n := range q.nodes {
		n.up()
	}
	q.router()
	q.steer(drill.Precheck)
	q.steer(drill.Measuring)
	<-time.After(time.Second)
	q.steer(drill.Shifting)
	<-time.After(time.Second)
	if !q.obeys() {
		t.Fatalf("the router obeys no drill: holds %v, %+v", q.tables.Load().Drill(), q.leases.View())
	}
	return q
}

func (q *lending) router() {
	client, err := subscribe.New(subscribe.Options{
		Addresses: []string{"passthrough:///0", "passthrough:///1", "passthrough:///2"}, Router: "r-1", Region: "us", Holder: &q.tables,
		Report: func(now time.Time) *routerpb.Report {
			return &routerpb.Report{AtUnixMs: now.UnixMilli(), WindowMs: 1000}
		},
		Drills: func(m *routerpb.DrillLease, now time.Time) { q.leases.Take(m, now) }, Logger: slog.New(slog.DiscardHandler),
		Dial: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			n := q.nodes[address[len(address)-1]-'0']
			n.mu.Lock()
			l := n.listener
			n.mu.Unlock()
			return l.dial(ctx)
		})},
	})
	if err != nil {
		q.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(q.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := client.Run(ctx); err != nil {
			q.t.Error(err)
		}
	})
	q.status = client.Status
	q.end = func() {
		cancel()
		running.Wait()
		for _, n := range q.nodes {
			n.down()
		}
	}
	for q.tables.Load() == nil {
		<-time.After(100 * time.Millisecond)
	}
}

// serving is the node that the router is connected to: the one whose loss it notices.
func (q *lending) serving() *lender {
	return q.nodes[q.status().Address[len(q.status().Address)-1]-'0']
}

// In virtual time, over real streams: whatever becomes of the control plane, a drill that is not renewed ends by itself,
// and one that is goes on.
func TestDrillsEndWithTheirLeases(t *testing.T) {
	const margin = 5 * time.Second
	for name, c := range map[string]struct {
		happens func(*lending)
		atLeast time.Duration // that it is obeyed after that
		atMost  time.Duration
	}{
		"all nodes are lost": {func(q *lending) {
			for _, n := range q.nodes {
				n.down()
				n.away = true
			}
		}, 20 * time.Second, drill.LeaseTTL},
		"quorum is lost, and all nodes go on answering": {func(q *lending) {}, 20 * time.Second, drill.LeaseTTL},
		"quorum is lost, and the router goes from node to node": {func(q *lending) {
			q.serving().down()
			<-time.After(10 * time.Second)
			q.serving().down()
		}, 10 * time.Second, drill.LeaseTTL - 10*time.Second},
		"all nodes start again from their logs, without a leader": {func(q *lending) {
			for _, n := range q.nodes {
				n.down()
			}
			<-time.After(12 * time.Second)
			for _, n := range q.nodes {
				n.up()
			}
		}, 0, drill.LeaseTTL - 12*time.Second + margin},
		"it is rolled back": {func(q *lending) { q.steer(drill.RollingBack) }, 0, time.Second},
		"it is rolled back while the router has no node": {func(q *lending) {
			for _, n := range q.nodes {
				n.down()
			}
			q.steer(drill.RollingBack)
			for _, n := range q.nodes {
				n.up()
			}
		}, 0, margin},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLending(t)
				q.renew(3)
				c.happens(q)
				if got := q.until(); got < c.atLeast || got > c.atMost+200*time.Millisecond {
					t.Errorf("the drill was obeyed for %v more, want %v to %v", got, c.atLeast, c.atMost)
				}
				<-time.After(time.Minute)
				if q.obeys() {
					t.Error("it came back")
				}
				q.end()
			})
		})
	}
}

// One of three nodes is lost, with the router's stream or cut off from the others: the drill goes on.
func TestADrillOutlivesOneOfThreeNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLending(t)
		q.renew(2)
		lost := q.serving()
		lost.down()
		lost.away = true
		for range 24 {
			q.renew(1)
			if !q.obeys() {
				t.Fatal("the drill has ended")
			}
		}
		// It comes back as it was, an old renewal its newest: nothing is extended by it.
		lost.up()
		for _, n := range q.nodes {
			if n != lost {
				n.down()
			}
		}
		if got := q.until(); got > drill.LeaseTTL {
			t.Errorf("a node that was away for long has the drill go on for %v", got)
		}
		q.end()
	})
}
