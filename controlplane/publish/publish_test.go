package publish

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// replica is a node's state that a test moves on.
type replica struct {
	t *testing.T

	mu      sync.Mutex // guards what is below
	view    *state.View
	changed chan struct{} // closed by the next change
}

func newReplica(t *testing.T) *replica {
	r := &replica{t: t, view: state.Empty(), changed: make(chan struct{})}
	r.apply(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1"}}})
	return r
}

func (r *replica) apply(c *statepb.Command) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Format, c.AtUnixMs = state.Format, 1
	next, out, err := state.Apply(r.view, r.view.Index()+1, c)
	if err != nil || out.GetCode() != "" {
		r.t.Fatalf("apply: %v %v", err, out)
	}
	r.view = next
	close(r.changed)
	r.changed = make(chan struct{})
}

// publish commits a table with one region by the name given.
func (r *replica) publish(region string) {
	r.t.Helper()
	r.apply(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: &routerpb.Table{
		Regions: []*routerpb.Region{{Id: region}}, Clusters: []*routerpb.Cluster{{Id: "c"}}, Models: []*routerpb.Model{{Id: "m"}},
	}}}})
}

func (r *replica) View() *state.View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view
}

func (r *replica) Changed(after uint64) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view.Index() > after {
		done := make(chan struct{})
		close(done)
		return done
	}
	return r.changed
}

// rig is a server behind real gRPC.
type rig struct {
	*replica
	server  *Server
	signals *signal.Store
	conn    *grpc.ClientConn
	logs    *safeLog
	stop    func() // ends the server and waits
}

type safeLog struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func newRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	r := &rig{replica: newReplica(t), signals: signal.New(nil), logs: &safeLog{}}
	o := Options{
		Node: "n1", View: r.View, Changed: r.Changed, Signals: r.signals,
		Logger: slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&o)
	}
	var err error
	if r.server, err = New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- r.server.Run(ctx) }()
	listener := bufconn.Listen(1 << 20)
	g := grpc.NewServer()
	routerpb.RegisterRouterControlServer(g, r.server)
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	r.conn, err = grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(func() {
		r.stop()
		if err := r.conn.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		g.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return r
}

// router is the other end of a stream.
type router struct {
	t      *testing.T
	stream grpc.BidiStreamingClient[routerpb.FromRouter, routerpb.ToRouter]
	end    func()
}

func (r *rig) dial() *router {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	stream, err := routerpb.NewRouterControlClient(r.conn).Connect(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cancel)
	return &router{t: r.t, stream: stream, end: cancel}
}

func hello(id string, holds *routerpb.TableRef) *routerpb.FromRouter {
	return &routerpb.FromRouter{Body: &routerpb.FromRouter_Hello{Hello: &routerpb.Hello{
		Protocol: Protocol, RouterId: id, Region: "us", Version: "v1", Holds: holds,
	}}}
}

func report(requests uint64) *routerpb.FromRouter {
	return &routerpb.FromRouter{Body: &routerpb.FromRouter_Report{Report: &routerpb.Report{AtUnixMs: int64(requests), Requests: requests}}}
}

func (r *rig) join(id string, holds *routerpb.TableRef) *router {
	r.t.Helper()
	x := r.dial()
	x.say(hello(id, holds))
	if w := x.hear().GetWelcome(); w.GetNodeId() != "n1" || w.GetClusterId() != "c-1" || w.GetProtocol() != Protocol {
		r.t.Fatalf("welcome is %v", w)
	}
	return x
}

func (x *router) say(m *routerpb.FromRouter) {
	x.t.Helper()
	if err := x.stream.Send(m); err != nil {
		x.t.Fatal(err)
	}
}

func (x *router) hear() *routerpb.ToRouter {
	x.t.Helper()
	m, err := x.stream.Recv()
	if err != nil {
		x.t.Fatal(err)
	}
	return m
}

// table waits for the next table, letting pings pass.
func (x *router) table() *routerpb.TablePush {
	x.t.Helper()
	for {
		if p := x.hear().GetTable(); p != nil {
			return p
		}
	}
}

func (x *router) ack(p *routerpb.TablePush, code string) {
	x.t.Helper()
	x.say(&routerpb.FromRouter{Body: &routerpb.FromRouter_Ack{Ack: &routerpb.Ack{
		Nonce: p.GetNonce(), Table: p.GetTable().GetRef(), Ok: code == "", Code: code,
	}}})
}

// ended waits for the end of the stream and says how it ended.
func (x *router) ended() error {
	x.t.Helper()
	for {
		if _, err := x.stream.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func wantCode(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("stream ended with %v, want %s and %q", err, code, text)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within ten seconds", what)
		case <-tick.C:
		}
	}
}

func (r *rig) observed(id fleet.RouterID) (signal.Observation, bool) {
	for _, o := range r.signals.Snapshot(time.Now()).Routers {
		if o.Router() == id {
			return o, true
		}
	}
	return signal.Observation{}, false
}

func TestATableReachesTheRouterAndItsAnswerTheSignals(t *testing.T) {
	r := newRig(t, nil)
	r.publish("us")
	x := r.join("r1", nil)
	p := x.table()
	if p.GetTable().GetRegions()[0].GetId() != "us" || p.GetNonce() == 0 {
		t.Fatalf("got %v", p)
	}
	x.say(report(7))
	x.ack(p, "")
	eventually(t, "report and acknowledgement", func() bool {
		o, ok := r.observed("r1")
		return ok && o.Connected && o.Node == "n1" && o.Report.GetRequests() == 7 && o.Ack.GetOk()
	})
	r.publish("eu")
	if next := x.table(); next.GetTable().GetRegions()[0].GetId() != "eu" || next.GetNonce() <= p.GetNonce() {
		t.Errorf("got %v", next)
	}
}

func TestARouterThatHasTheTableIsSentNone(t *testing.T) {
	r := newRig(t, nil)
	r.publish("us")
	x := r.join("r1", r.View().Table().GetRef())
	r.publish("eu")
	if p := x.table(); p.GetTable().GetRegions()[0].GetId() != "eu" {
		t.Errorf("got %v", p)
	}
}

func TestARouterIsNotTakenBack(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Ping = 5 * time.Millisecond })
	r.publish("us")
	ahead := &routerpb.TableRef{ClusterId: "c-1", Epoch: 1, Revision: 10_000}
	x := r.join("r1", ahead)
	for range 5 {
		if m := x.hear(); m.GetTable() != nil {
			t.Fatalf("a node that lags sent %v to a router that is ahead", m.GetTable().GetTable().GetRef())
		}
	}
}

// A restored state may be behind what a router holds, and its numbers may mean other tables.
func TestARestoredStateHoldsTablesBackUntilItsEpochRises(t *testing.T) {
	r := newRig(t, nil)
	r.publish("us")
	older := r.View().Table().GetRef()
	r.publish("eu")
	r.mu.Lock()
	r.view = r.view.Reborn(state.Rebirth{Lineage: "l1"})
	r.mu.Unlock()
	fresh, holder := r.join("r-new", nil), r.join("r-old", older)
	if got := fresh.table(); got.GetTable().GetRegions()[0].GetId() != "eu" {
		t.Errorf("a router that holds none was sent %v", got)
	}
	r.apply(&statepb.Command{Op: &statepb.Command_BumpEpoch{BumpEpoch: &statepb.BumpEpoch{AtLeast: 2}}})
	r.publish("ap")
	// The first that the router with a table hears of is the one of the new epoch.
	if got := holder.table().GetTable(); got.GetRef().GetEpoch() != 2 || got.GetRegions()[0].GetId() != "ap" {
		t.Errorf("a router that holds %v was sent %v", older, got.GetRef())
	}
}

// Between the new epoch and its first table the one in force is of the old epoch still.
func TestATableOfAnEpochThatIsOverIsForNobodyWhoHoldsOne(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Ping = 5 * time.Millisecond })
	r.publish("us")
	older := r.View().Table().GetRef()
	r.publish("eu")
	r.mu.Lock()
	r.view = r.view.Reborn(state.Rebirth{Lineage: "l1"})
	r.mu.Unlock()
	r.apply(&statepb.Command{Op: &statepb.Command_BumpEpoch{BumpEpoch: &statepb.BumpEpoch{AtLeast: 2}}})
	holder := r.join("r-old", older)
	for range 5 { // pings show that the node had time to send
		if m := holder.hear(); m.GetTable() != nil || m.GetDelta() != nil {
			t.Fatalf("a router that holds %v was sent %v", older, m)
		}
	}
	if got := r.join("r-new", nil).table().GetTable().GetRef(); got.GetEpoch() != 1 {
		t.Errorf("a router that holds none was sent %v", got)
	}
	r.publish("ap")
	if got := holder.table().GetTable().GetRef(); got.GetEpoch() != 2 {
		t.Errorf("then it was sent %v", got)
	}
}

func TestARouterOfAnotherControlPlaneIsSentOurs(t *testing.T) {
	r := newRig(t, nil)
	r.publish("us")
	x := r.join("r1", &routerpb.TableRef{ClusterId: "another", Epoch: 9, Revision: 10_000})
	if p := x.table(); p.GetTable().GetRef().GetClusterId() != "c-1" {
		t.Errorf("got %v", p)
	}
}

func TestOneTableAtATimeAndTheLatestWins(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Ping = 5 * time.Millisecond })
	r.publish("a")
	x := r.join("r1", nil)
	first := x.table()
	r.publish("b")
	r.publish("c")
	for range 5 { // pings show that the node had time to send
		if m := x.hear(); m.GetTable() != nil {
			t.Fatalf("a second table came before the first was acknowledged: %v", m)
		}
	}
	x.ack(first, "")
	if p := x.table(); p.GetTable().GetRegions()[0].GetId() != "c" {
		t.Errorf("after the first came %v, want the latest", p.GetTable())
	}
}

func TestARefusedTableIsNotSentAgain(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Ping = 5 * time.Millisecond })
	r.publish("bad")
	x := r.join("r1", nil)
	x.ack(x.table(), "weights_sum")
	eventually(t, "refusal in the signals", func() bool {
		o, ok := r.observed("r1")
		return ok && o.Ack.GetCode() == "weights_sum"
	})
	for range 5 {
		if m := x.hear(); m.GetTable() != nil {
			t.Fatal("the table that was refused came again")
		}
	}
	r.publish("good")
	if p := x.table(); p.GetTable().GetRegions()[0].GetId() != "good" {
		t.Errorf("got %v", p)
	}
	if !strings.Contains(r.logs.String(), "router refused a table") || !strings.Contains(r.logs.String(), "weights_sum") {
		t.Errorf("the log does not say so: %s", r.logs)
	}
}

func TestAnAnswerToNothingChangesNothing(t *testing.T) {
	r := newRig(t, nil)
	r.publish("us")
	x := r.join("r1", nil)
	p := x.table()
	x.ack(&routerpb.TablePush{Nonce: p.GetNonce() + 5, Table: p.GetTable()}, "nonsense")
	x.ack(p, "")
	eventually(t, "the real answer", func() bool {
		o, ok := r.observed("r1")
		return ok && o.Ack.GetOk()
	})
}

func TestWhoIsNotTakenIn(t *testing.T) {
	first := func(m *routerpb.FromRouter) *routerpb.FromRouter { return m }
	greeting := func(change func(*routerpb.Hello)) *routerpb.FromRouter {
		m := hello("r1", nil)
		change(m.GetHello())
		return m
	}
	tests := map[string]struct {
		options func(*Options)
		say     *routerpb.FromRouter
		code    codes.Code
		text    string
	}{
		"a report first":      {nil, first(report(1)), codes.InvalidArgument, "first message must be hello"},
		"another version":     {nil, greeting(func(h *routerpb.Hello) { h.Protocol = 7 }), codes.FailedPrecondition, "version 7"},
		"no name":             {nil, greeting(func(h *routerpb.Hello) { h.RouterId = "" }), codes.InvalidArgument, "hello.router_id is empty"},
		"a name that is none": {nil, greeting(func(h *routerpb.Hello) { h.Region = "US East" }), codes.InvalidArgument, "hello.region"},
		"another's name": {func(o *Options) {
			o.Identify = func(context.Context) (fleet.RegionID, fleet.RouterID, error) { return "us", "r2", nil }
		}, hello("r1", nil), codes.PermissionDenied, "certificate is for router r2 in us, hello says r1 in us"},
		"another region": {func(o *Options) {
			o.Identify = func(context.Context) (fleet.RegionID, fleet.RouterID, error) { return "eu", "r1", nil }
		}, hello("r1", nil), codes.PermissionDenied, "certificate is for router r1 in eu"},
		"no certificate": {func(o *Options) { o.Identify = FromCertificate }, hello("r1", nil), codes.Unauthenticated, "certificate"},
		"one too many":   {func(o *Options) { o.MaxStreams = 1 }, hello("r1", nil), codes.ResourceExhausted, "connect to another"},
		"a silent one":   {func(o *Options) { o.Dead = time.Millisecond }, nil, codes.DeadlineExceeded, "no hello"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tt.options)
			if name == "one too many" {
				r.join("r0", nil)
			}
			x := r.dial()
			if tt.say != nil {
				if err := x.stream.Send(tt.say); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			wantCode(t, x.ended(), tt.code, tt.text)
			if _, known := r.observed("r1"); known {
				t.Error("the signals know of it")
			}
		})
	}
}

func TestAKnownRouterIsTakenIn(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Identify = func(context.Context) (fleet.RegionID, fleet.RouterID, error) { return "us", "r1", nil }
	})
	r.join("r1", nil)
}

func TestASecondHelloEndsTheStream(t *testing.T) {
	r := newRig(t, nil)
	x := r.join("r1", nil)
	x.say(hello("r1", nil))
	wantCode(t, x.ended(), codes.InvalidArgument, "hello comes once")
}

func TestWhatIsFromTheFutureIsIgnored(t *testing.T) {
	r := newRig(t, nil)
	x := r.join("r1", nil)
	x.say(&routerpb.FromRouter{})
	x.say(report(3))
	eventually(t, "the report after it", func() bool {
		o, ok := r.observed("r1")
		return ok && o.Report.GetRequests() == 3
	})
}

func TestASilentRouterIsGivenUp(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Dead = 50 * time.Millisecond })
	x := r.join("r1", nil)
	wantCode(t, x.ended(), codes.DeadlineExceeded, "silent for 50ms")
	eventually(t, "disconnected", func() bool {
		o, ok := r.observed("r1")
		return ok && !o.Connected
	})
}

func TestATableNeverAcknowledgedEndsTheStream(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Dead, o.Ping = 100*time.Millisecond, 5*time.Millisecond })
	r.publish("us")
	x := r.join("r1", nil)
	x.table()
	done := make(chan error, 1)
	go func() { done <- x.ended() }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := uint64(1); ; i++ {
		select {
		case err := <-done:
			wantCode(t, err, codes.DeadlineExceeded, "was not acknowledged")
			return
		case <-tick.C:
			if err := x.stream.Send(report(i)); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
	}
}

func TestARouterThatConnectsAgainReplacesItsStream(t *testing.T) {
	r := newRig(t, nil)
	old := r.join("r1", nil)
	r.join("r1", nil)
	wantCode(t, old.ended(), codes.Aborted, "connected again")
	eventually(t, "one stream left", func() bool { return r.server.Streams() == 1 })
	if o, _ := r.observed("r1"); !o.Connected {
		t.Error("the end of the old stream disconnected the router")
	}
}

func TestARouterThatLeavesIsDisconnected(t *testing.T) {
	r := newRig(t, nil)
	x := r.join("r1", nil)
	if err := x.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := x.ended(); err != nil {
		t.Errorf("a router that closes its stream is answered %v", err)
	}
	y := r.join("r2", nil)
	y.end()
	eventually(t, "both gone", func() bool {
		a, _ := r.observed("r1")
		b, _ := r.observed("r2")
		return !a.Connected && !b.Connected && r.server.Streams() == 0
	})
}

func TestARouterThatDoesNotReadDoesNotHoldTheNode(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Dead, o.Ping = 200*time.Millisecond, time.Millisecond })
	big := &routerpb.Table{Regions: []*routerpb.Region{{Id: strings.Repeat("x", 4<<20)}}, Clusters: []*routerpb.Cluster{{Id: "c"}}}
	r.apply(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: big}}})
	x := r.dial()
	x.say(hello("r1", nil))
	// It neither reads nor speaks: the send of the table blocks, and the silence is noticed.
	eventually(t, "given up", func() bool {
		o, ok := r.observed("r1")
		return ok && !o.Connected && r.server.Streams() == 0
	})
}

func TestStoppingEndsAllStreams(t *testing.T) {
	r := newRig(t, nil)
	x, y := r.join("r1", nil), r.join("r2", nil)
	r.stop() // waits for everything that the streams started
	wantCode(t, x.ended(), codes.Unavailable, "stopping")
	wantCode(t, y.ended(), codes.Unavailable, "stopping")
	wantCode(t, r.dial().ended(), codes.Unavailable, "stopping")
	if got := r.server.Streams(); got != 0 {
		t.Errorf("%d streams are left", got)
	}
}

func TestOptionsNameWhatIsMissing(t *testing.T) {
	r := newReplica(t)
	full := Options{Node: "n", View: r.View, Changed: r.Changed, Signals: signal.New(nil)}
	for want, change := range map[string]func(*Options){
		"Node":    func(o *Options) { o.Node = "" },
		"View":    func(o *Options) { o.View = nil },
		"Changed": func(o *Options) { o.Changed = nil },
		"Signals": func(o *Options) { o.Signals = nil },
	} {
		o := full
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v", want, err)
		}
	}
}

func TestOrderOfTables(t *testing.T) {
	ref := func(cluster string, epoch, revision uint64) *routerpb.TableRef {
		return &routerpb.TableRef{ClusterId: cluster, Epoch: epoch, Revision: revision}
	}
	tests := map[string]struct {
		ref, than *routerpb.TableRef
		want      bool
	}{
		"than none":           {ref("a", 0, 1), nil, true},
		"later revision":      {ref("a", 1, 5), ref("a", 1, 4), true},
		"same":                {ref("a", 1, 4), ref("a", 1, 4), false},
		"earlier revision":    {ref("a", 1, 3), ref("a", 1, 4), false},
		"later epoch":         {ref("a", 2, 1), ref("a", 1, 9), true},
		"earlier epoch":       {ref("a", 1, 9), ref("a", 2, 1), false},
		"of another cluster":  {ref("b", 0, 1), ref("a", 9, 9), true},
		"of a nameless table": {ref("a", 1, 1), ref("", 9, 9), true},
	}
	for name, tt := range tests {
		if got := newer(tt.ref, tt.than); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
