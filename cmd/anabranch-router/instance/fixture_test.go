package instance

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"anabranch/api/identity"
	"anabranch/api/routerpb"
	"anabranch/cmd/anabranch/pki"
)

type fixture struct {
	t         *testing.T
	authority *pki.Authority
	dir       string
	grpc      *grpc.Server
	own       *identity.Live // the node's
	node      string
	reports   chan *routerpb.Report
	usage     chan *routerpb.UsageReport // nil: the node has no account
	model     *httptest.Server
	release   chan struct{}         // a stream waits for it after its first content
	hangUp    chan struct{}         // the node ends a router's stream
	streams   atomic.Int32          // to the node, begun
	change    func(*routerpb.Table) // what is other than usual; nil: nothing
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{
		t: t, authority: authority, dir: t.TempDir(),
		reports: make(chan *routerpb.Report, 1024), release: make(chan struct{}, 16), hangUp: make(chan struct{}),
	}
	f.model = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // the body is not looked at
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, content)
		w.(http.Flusher).Flush()
		select {
		case <-f.release:
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, content+finish+done)
	}))
	t.Cleanup(f.model.Close)
	pair, err := authority.Node("n1", time.Now())
	if f.own, err = identity.Open(f.files("n1", pair, err)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.node = l.Addr().String()
	f.grpc = grpc.NewServer(grpc.Creds(credentials.NewTLS(f.own.Server(identity.KindRouter))))
	routerpb.RegisterRouterControlServer(f.grpc, &control{f: f})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = f.grpc.Serve(l) // ends with Stop
	}()
	t.Cleanup(func() {
		f.grpc.Stop()
		<-served
	})
	return f
}

type control struct {
	routerpb.UnimplementedRouterControlServer
	f *fixture
}

func (c *control) Connect(stream grpc.BidiStreamingServer[routerpb.FromRouter, routerpb.ToRouter]) error {
	c.f.streams.Add(1)
	for _, m := range []*routerpb.ToRouter{
		{Body: &routerpb.ToRouter_Welcome{Welcome: &routerpb.Welcome{Protocol: 1, NodeId: "n1", ClusterId: "c"}}},
		{Body: &routerpb.ToRouter_Table{Table: &routerpb.TablePush{Nonce: 1, Table: c.f.table()}}},
	} {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	var sending sync.Mutex
	taken := func(sequence uint64) {
		sending.Lock()
		defer sending.Unlock()
		_ = stream.Send(&routerpb.ToRouter{Body: &routerpb.ToRouter_UsageTaken{UsageTaken: &routerpb.UsageTaken{Sequence: sequence}}}) // it may have gone
	}
	if c.f.usage != nil {
		taken(0)
	}
	left := make(chan struct{})
	go func() { // ends with the stream, which ends when this call returns
		defer close(left)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			if r := m.GetReport(); r != nil {
				c.f.reports <- r
			}
			if u := m.GetUsage(); u != nil {
				c.f.usage <- u
				taken(u.GetSequence())
			}
		}
	}()
	select {
	case <-left:
	case <-c.f.hangUp:
	}
	return nil
}

func (f *fixture) table() *routerpb.Table {
	t := f.usual()
	if f.change != nil {
		f.change(t)
	}
	return t
}

func (f *fixture) usual() *routerpb.Table {
	key := sha256.Sum256([]byte("acme-key"))
	return &routerpb.Table{
		Ref:     &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: 7},
		Regions: []*routerpb.Region{{Id: "eu-west-1", Zone: "eu"}},
		Models:  []*routerpb.Model{{Id: "llama", OutputWeight: 6}},
		Clusters: []*routerpb.Cluster{{
			Id: "eu-a", Region: "eu-west-1", Kind: "endpoints", Models: []string{"llama"}, Health: "HEALTHY", HealthCap: 1,
			Endpoints: []*routerpb.Endpoint{{Id: "e1", Url: f.model.URL, Class: "h100"}},
		}},
		Tenants: []*routerpb.Tenant{{Id: "acme", Tier: "top", Priority: 100, KeySha256: [][]byte{key[:]}}},
	}
}

func (f *fixture) files(name string, pair pki.Pair, err error) identity.Files {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	write := func(file string, text []byte) string {
		path := filepath.Join(f.dir, file)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			f.t.Fatal(err)
		}
		return path
	}
	return identity.Files{Cert: write(name+".pem", pair.Cert), Key: write(name+".key", pair.Key), CA: write("ca.pem", f.authority.Pair().Cert)}
}

func (f *fixture) options() Options {
	pair, err := f.authority.Router("eu-west-1", "r1", time.Now())
	return Options{
		Router: "r1", Region: "eu-west-1", DataDir: filepath.Join(f.dir, "data"),
		Listen: "127.0.0.1:0", PeerListen: "127.0.0.1:0", AdminListen: "127.0.0.1:0",
		ControlPlane: []string{f.node}, TLS: f.files("r1", pair, err), Logger: slog.New(slog.DiscardHandler),
	}
}

type running struct {
	*Instance
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

func (f *fixture) start(o Options) *running {
	f.t.Helper()
	n, err := New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.run(n)
}

func (f *fixture) run(n *Instance) *running {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{n, f.t, cancel, make(chan error, 1)}
	go func() { r.done <- n.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		_ = n.front.http.Close() // whatever a failed test left open
		if err := <-r.done; err != nil {
			f.t.Logf("Run: %v", err)
		}
	})
	return r
}

func (r *running) ended() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.done <- nil // for the cleanup
		return err
	case <-time.After(20 * time.Second):
		r.t.Fatal("Run did not end within 20 s")
		return nil
	}
}

func (r *running) eventually(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			r.t.Fatalf("not within 10 s: %s", what)
		case <-tick.C:
		}
	}
}

func (r *running) ready() bool {
	res, err := http.Get("http://" + r.Addresses().Admin + "/readyz")
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

func (r *running) stream() *http.Response {
	r.t.Helper()
	q, err := http.NewRequest(http.MethodPost, "http://"+r.Addresses().Front+"/v1/chat/completions", strings.NewReader(ask))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer acme-key")
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		r.t.Fatalf("status %d", res.StatusCode)
	}
	return res
}
