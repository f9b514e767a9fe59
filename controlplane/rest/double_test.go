package rest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/controlplane/forward"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// double is a control plane node in memory: the real state behind the real server, without Raft.
type double struct {
	t      *testing.T
	url    string
	server *Server

	mu      sync.Mutex // guards what is below
	view    *state.View
	changed chan struct{}
	fail    error // what Propose and ReadBarrier answer instead
	ready   bool
	clock   time.Time
	signals *signal.Store
	members []Member
	// membership answers what it is told to, and remembers what it was asked.
	membership membershipDouble
	leader     fleet.NodeID
	propose    int // calls of Propose
	before     func(*double, *statepb.Command)
}

// roles have a token each, named after the role.
var roles = []string{"viewer", "operator", "approver", "admin"}

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// newDouble starts a node with tokens for every role; change may alter the options.
func newDouble(t *testing.T, change ...func(*Options)) *double {
	t.Helper()
	return bare(t, change...).initialised()
}

// newUnserved is the same without a socket, for tests in virtual time.
func newUnserved(t *testing.T, change ...func(*Options)) *double {
	t.Helper()
	return unserved(t, change...).initialised()
}

func (d *double) initialised() *double {
	d.t.Helper()
	init := &statepb.Init{ClusterId: "c-1"}
	for _, role := range roles {
		sum := sha256.Sum256([]byte("secret-" + role))
		init.Tokens = append(init.Tokens, &statepb.Token{Name: role, Role: role, Sha256: sum[:]})
	}
	d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Init{Init: init}})
	return d
}

// bare starts a node that is not initialised.
func bare(t *testing.T, change ...func(*Options)) *double {
	t.Helper()
	d := unserved(t, change...)
	h := httptest.NewServer(d.server.Handler())
	d.url = h.URL
	t.Cleanup(func() {
		d.server.Drain()
		h.Close()
	})
	return d
}

func unserved(t *testing.T, change ...func(*Options)) *double {
	t.Helper()
	d := &double{t: t, view: state.Empty(), changed: make(chan struct{}), ready: true, clock: epoch, leader: "n1"}
	d.signals = signal.New(d.now)
	d.members = []Member{{ID: "n1", Address: "127.0.0.1:7120", Voter: true, Leader: true, Healthy: true, AppliedIndex: 1}}
	o := Options{
		Node: "n2", View: d.current, Changed: d.changedAfter, Propose: d.commit, ReadBarrier: d.barrier,
		Members: func() []Member { return d.members }, Membership: &d.membership, Leader: func() (fleet.NodeID, string) { return d.leader, "" },
		Ready:     func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.ready },
		Staleness: func() time.Duration { return 250 * time.Millisecond },
		Signals:   d.signals, Version: "test", Now: d.now,
		ReadRate: -1, WriteRate: -1, // the clock stands still; TestCallersArePaced has limits
		Heartbeat: 20 * time.Millisecond, FleetInterval: 5 * time.Millisecond,
		Console: fstest.MapFS{
			"index.html":          {Data: []byte("<!doctype html>console")},
			"assets/index-1a2.js": {Data: []byte("1")},
			"favicon.svg":         {Data: []byte("<svg/>")},
		},
	}
	for _, f := range change {
		f(&o)
	}
	server, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	// In tests nobody gives a place back meanwhile: patience_test.go plays the waiting.
	server.reckoning.patience, server.explaining.patience = time.Millisecond, time.Millisecond
	d.server = server
	return d
}

// serve starts h, a server of this node with limits of its own, and turns the calls to it.
func (d *double) serve(h *http.Server) {
	d.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.t.Error(err)
		}
	}()
	d.url = "http://" + l.Addr().String()
	d.t.Cleanup(func() {
		if err := h.Close(); err != nil {
			d.t.Error(err)
		}
		<-done
	})
}

// errNoLeaderForTest is how the cluster without a leader answers.
var errNoLeaderForTest = forward.ErrNoLeader

func (d *double) now() time.Time { d.mu.Lock(); defer d.mu.Unlock(); return d.clock }

func (d *double) advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock = d.clock.Add(by)
}

func (d *double) current() *state.View { d.mu.Lock(); defer d.mu.Unlock(); return d.view }

func (d *double) failing(err error) { d.mu.Lock(); defer d.mu.Unlock(); d.fail = err }

func (d *double) changedAfter(after uint64) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.view.Index() > after {
		done := make(chan struct{})
		close(done)
		return done
	}
	return d.changed
}

func (d *double) barrier(context.Context) error { d.mu.Lock(); defer d.mu.Unlock(); return d.fail }

func (d *double) commit(_ context.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
	_, unwritable := proto.Marshal(cmd) // as the store does first
	d.mu.Lock()
	d.propose++
	err, before := cmp.Or(d.fail, unwritable), d.before
	d.before = nil
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if before != nil {
		before(d, cmd)
	}
	return d.apply(cmd), nil
}

func (d *double) apply(cmd *statepb.Command) *statepb.Outcome {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	next, out, err := state.Apply(d.view, d.view.Index()+1, cmd)
	if err != nil {
		d.t.Errorf("apply: %v", err)
		return &statepb.Outcome{Code: "halted"}
	}
	d.view = next
	close(d.changed)
	d.changed = make(chan struct{})
	return out
}

// answer is what came back.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// do calls as a role; headers are "Name: value".
func (d *double) do(role, method, path, body string, headers ...string) answer {
	d.t.Helper()
	req, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if role != "" {
		req.Header.Set("Authorization", "Bearer secret-"+role)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	a := answer{d.t, resp.StatusCode, resp.Header, b}
	keepsContract(d.t, method, path, a)
	return a
}

// want checks the status and, for problems, the code.
func (a answer) want(status int, code string) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	if code != "" {
		p := a.problem()
		if p.Code != code || p.Status != status || p.Title == "" || p.Type != "urn:anabranch:problem:"+code {
			a.t.Fatalf("problem %+v, want the code %s", p, code)
		}
	}
	return a
}

func (a answer) problem() Problem {
	a.t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		a.t.Fatalf("content type %q: %s", got, a.body)
	}
	var p Problem
	a.into(&p)
	return p
}

func (a answer) into(v any) {
	a.t.Helper()
	dec := json.NewDecoder(bytes.NewReader(a.body))
	if err := dec.Decode(v); err != nil {
		a.t.Fatalf("%v: %s", err, a.body)
	}
}

// spec is the answer's spec as JSON.
func (a answer) spec() string {
	a.t.Helper()
	var r struct {
		Spec json.RawMessage `json:"spec"`
	}
	a.into(&r)
	return string(r.Spec)
}

// doc writes a resource in YAML.
func doc(kind, name, spec string) string {
	return "apiVersion: anabranch/v1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

const yaml = "Content-Type: application/yaml"

// seed creates resources as the operator, "Kind name {spec}".
func (d *double) seed(docs ...string) {
	d.t.Helper()
	plurals := map[string]string{"Region": "regions", "Model": "models", "Cluster": "clusters", "Tenant": "tenants", "TrafficPolicy": "policies", "Quota": "quotas", "RateCard": "ratecards"}
	for _, text := range docs {
		p := strings.SplitN(text, " ", 3)
		d.do("operator", "POST", "/v1/"+plurals[p[0]], doc(p[0], p[1], p[2]), yaml).want(201, "")
	}
}

// twice commits a second version of whatever is put, right after the first.
func twice(commit func(context.Context, *statepb.Command) (*statepb.Outcome, error)) func(context.Context, *statepb.Command) (*statepb.Outcome, error) {
	return func(ctx context.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
		out, err := commit(ctx, cmd)
		if put := cmd.GetPut(); put != nil && err == nil {
			_, err = commit(ctx, &statepb.Command{Format: 1, Op: &statepb.Command_Put{Put: &statepb.Put{Kind: put.GetKind(), Name: put.GetName(), Doc: []byte(`{"spec":{}}`), AnyRevision: true}}})
		}
		return out, err
	}
}
