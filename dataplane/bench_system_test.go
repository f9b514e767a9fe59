package dataplane

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
	"anabranch/ratelimit/redisbucket"
	"anabranch/ratelimit/redisbucket/redistest"
)

// system is what stands between the clients and the model servers of the far end.
type system struct {
	name string
	url  string
	// cpu is what it has used of the processors, in both modes: unlike the time on the wall it does
	// not count what else runs on the machine.
	cpu func() time.Duration
}

// own is what this process has used.
func own() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // can't be: the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// front serves a handler as the router's command does.
func front(b *testing.B, name string, h http.Handler) system {
	b.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ReadHeaderTimeout, s.Config.IdleTimeout, s.Config.MaxHeaderBytes = 10*time.Second, 2*time.Minute, 64<<10
	s.Start()
	b.Cleanup(s.Close)
	return system{name, s.URL, own}
}

// bare is the baseline: the standard library's reverse proxy, at its best.
func bare(b *testing.B, f *far) system {
	b.Helper()
	var turn atomic.Uint64
	transport := &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}
	b.Cleanup(transport.CloseIdleConnections)
	p := &httputil.ReverseProxy{
		Rewrite:    func(q *httputil.ProxyRequest) { q.SetURL(f.places[turn.Add(1)%farPlaces]) },
		Transport:  transport,
		BufferPool: &pieces{sync.Pool{New: func() any { return new([32 << 10]byte) }}},
	}
	return front(b, "bare", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		// Or an answer that begins at once would close the body that the transport is about to find the
		// end of.
		_ = http.NewResponseController(w).EnableFullDuplex()
		p.ServeHTTP(w, q)
	}))
}

// pieces are the buffers of the baseline.
type pieces struct{ sync.Pool }

func (p *pieces) Get() []byte  { return p.Pool.Get().(*[32 << 10]byte)[:] }
func (p *pieces) Put(x []byte) { p.Pool.Put((*[32 << 10]byte)(x)) }

// relayAlone is the router's relay without the router.
func relayAlone(b *testing.B, f *far) system {
	b.Helper()
	var turn atomic.Uint64
	relay := proxy.New(proxy.Options{})
	b.Cleanup(relay.Close)
	all := &bodies{most: 1 << 30}
	return front(b, "relay", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		held := all.holding("acme")
		defer held.free()
		body, problem := bodyOf(w, q, &held)
		if problem != nil {
			problem.Write(w)
			return
		}
		relay.Do(q.Context(), w, &proxy.Attempt{
			URL: at(f.places[turn.Add(1)%farPlaces], q.URL), Body: body, Client: q.Header, KeepUsage: true, FirstByte: time.Minute,
		})
	}))
}

// wholeRouter is a router with all that it does in front of two clusters: authentication, quotas of four
// kinds at the authority, routing, metrics and log lines, scraping and settling.
func wholeRouter(b *testing.B, f *far, name string, store admit.Store) system {
	b.Helper()
	w := &world{t: b, routers: map[string]*node{us: {peer: &httptest.Server{URL: "https://peer.invalid"}}}}
	pb := w.describe()
	hash := sha256.Sum256([]byte("acme-key"))
	pb.Tenants = []*routerpb.Tenant{{Id: "acme", Tier: "top", Priority: 100, KeySha256: [][]byte{hash[:]}}}
	pb.Quotas = nil
	for _, kind := range []string{"requests", "input-tokens", "output-tokens", "total-tokens"} {
		pb.Quotas = append(pb.Quotas, &routerpb.Quota{
			Id: "q-" + kind, Tenant: "acme", Kind: kind, Limit: 1 << 30, PeriodMs: 60_000, Burst: 1 << 30, Degraded: "open",
		})
	}
	for i := range farPlaces {
		if i%4 == 0 {
			id := "us-" + strconv.Itoa(i/4)
			pb.Clusters = append(pb.Clusters, &routerpb.Cluster{
				Id: id, Region: us, Kind: "endpoints", Models: []string{"llama"}, Health: "HEALTHY", HealthCap: 1,
			})
			pb.Weights[0].Clusters = append(pb.Weights[0].Clusters, &routerpb.ClusterWeight{Cluster: id, Weight: 4.0 / farPlaces})
		}
		c := pb.Clusters[i/4]
		c.Endpoints = append(c.Endpoints, &routerpb.Endpoint{Id: "e" + strconv.Itoa(i), Url: f.places[i].String(), Class: "h100"})
	}
	pb.Classes[0].FirstByteFloorMs, pb.Classes[0].RequestTimeoutMs = 60_000, 600_000
	built, err := table.Build(pb)
	if err != nil {
		b.Fatal(err)
	}
	r, err := New(Options{
		Router: "r", Region: us, Version: "test", Tables: &table.Holder{}, Quotas: admit.Own(store),
		Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)), //nolint:sloglint // the lines are to be made
	})
	if err != nil {
		b.Fatal(err)
	}
	r.Applied(built)
	r.tables.Store(built)
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			b.Errorf("Run: %v", err)
		}
	})
	b.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return front(b, name, r.Front())
}

// memoryRouter is one whose quotas are kept in its own memory.
func memoryRouter(b *testing.B, f *far) system {
	b.Helper()
	return wholeRouter(b, f, "router", ratelimit.NewLending(nil))
}

// systems are those to compare, the baseline first. Redis and HAProxy are among them where they are
// installed.
func systems(b *testing.B, f *far) []system {
	b.Helper()
	all := []system{bare(b, f), relayAlone(b, f), memoryRouter(b, f)}
	if _, err := exec.LookPath("redis-server"); err == nil {
		store, err := redisbucket.NewLender(redisbucket.LenderOptions{Addrs: []string{redistest.Start(b).Addr}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = store.Close() })
		all = append(all, wholeRouter(b, f, "router+redis", store))
	}
	if path, err := exec.LookPath("haproxy"); err == nil {
		all = append(all, haproxy(b, f, path))
	}
	return all
}

// haproxy is HAProxy in front of the same places, with a listener that it inherits.
func haproxy(b *testing.B, f *far, path string) system {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	var config strings.Builder
	config.WriteString("defaults\n mode http\n timeout connect 5s\n timeout client 10m\n timeout server 10m\n" +
		"frontend in\n bind fd@3\n default_backend places\nbackend places\n balance roundrobin\n")
	for i, p := range f.places {
		fmt.Fprintf(&config, " server s%d %s\n", i, p.Host)
	}
	name := filepath.Join(b.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(name, []byte(config.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), path, "-db", "-f", name)
	cmd.ExtraFiles = []*os.File{file}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return system{"haproxy", "http://" + l.Addr().String(), func() time.Duration { return usedBy(b, cmd.Process.Pid) }}
}

// usedBy is what another process has used.
func usedBy(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	// proc(5): after the name in parentheses come the 3rd field and those that follow; the 14th and
	// 15th are the time in either mode, in hundredths of a second.
	_, rest, _ := strings.Cut(string(stat), ") ")
	sum := 0
	for _, ticks := range strings.Fields(rest)[11:13] {
		n, err := strconv.Atoi(ticks)
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond
}
