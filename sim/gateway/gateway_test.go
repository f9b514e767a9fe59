package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/modelserver"
)

// TestMain fails the run if a goroutine of the package outlives the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leftOver(5 * time.Second); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines are left:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// leftOver is the stacks of goroutines that run our code and don't end within the time.
func leftOver(within time.Duration) string {
	var left []string
	for end := time.Now().Add(within); time.Now().Before(end); runtime.Gosched() {
		buf := make([]byte, 4<<20)
		left = left[:0]
		for i, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if i > 0 && (strings.Contains(g, "anabranch/sim") || strings.Contains(g, "net/http.(*Server)")) {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return ""
		}
	}
	return strings.Join(left, "\n\n")
}

// fixture is a gateway in front of two model servers, and a client.
type fixture struct {
	*Gateway
	t      *testing.T
	pods   *modelserver.Server
	client *http.Client
}

// start brings up pods and a gateway with short pauses; change may alter both.
func start(t *testing.T, change func(*Options, *modelserver.Options)) *fixture {
	t.Helper()
	podOpts := modelserver.Options{
		Cluster: "pool",
		Endpoints: []modelserver.Endpoint{
			{ID: "a", Listen: "127.0.0.1:0", Class: "h100"},
			{ID: "b", Listen: "127.0.0.1:0", Class: "h100"},
		},
		Models:    []modelserver.Model{{Name: "llama-3.1-8b"}},
		TimeScale: 0.02,
	}
	opts := Options{
		Name: "pool", Listen: "127.0.0.1:0", Metrics: "127.0.0.1:0",
		ScrapeEvery: 5 * time.Millisecond, RefreshEvery: 10 * time.Millisecond, ScrapeTimeout: 10 * time.Second,
	}
	if change != nil {
		change(&opts, &podOpts)
	}
	pods, err := modelserver.New(podOpts)
	if err != nil {
		t.Fatal(err)
	}
	if err := pods.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, e := range podOpts.Endpoints {
		opts.Endpoints = append(opts.Endpoints, Endpoint{e.ID, "http://" + pods.Addrs()[e.ID]})
	}
	g, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, "pods", pods.Run)
	run(t, "gateway", g.Run)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	eventually(t, "all pods are ready", func() bool { return g.pool.view().ready == len(opts.Endpoints) })
	return &fixture{g, t, pods, &http.Client{Transport: transport, Timeout: 20 * time.Second}}
}

// run starts something that the end of the test stops and waits for.
func run(t *testing.T, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s does not stop", what)
		}
	})
}

func (f *fixture) do(ctx context.Context, method, url, body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return f.client.Do(req)
}

const chatPath = "/v1/chat/completions"

func (f *fixture) send(ctx context.Context, body string, headers ...string) (*http.Response, error) {
	return f.do(ctx, http.MethodPost, "http://"+f.Addr()+chatPath, body, headers...)
}

// post gives an answer and its body.
func (f *fixture) post(body string, headers ...string) (*http.Response, string) {
	f.t.Helper()
	resp, err := f.send(f.t.Context(), body, headers...)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp, read(f.t, resp)
}

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func (f *fixture) metricsPage() string {
	f.t.Helper()
	resp, err := f.do(f.t.Context(), http.MethodGet, "http://"+f.MetricsAddr()+"/metrics", "")
	if err != nil {
		f.t.Fatal(err)
	}
	return read(f.t, resp)
}

// shows waits until the metrics have all these lines.
func (f *fixture) shows(lines ...string) {
	f.t.Helper()
	var page, missing string
	eventually(f.t, "the metrics show what they should", func() bool {
		page = f.metricsPage()
		for _, l := range lines {
			if missing = l; !strings.Contains("\n"+page, "\n"+l) {
				return false
			}
		}
		return true
	}, func() string { return "no line " + missing + " in\n" + page })
}

func (f *fixture) inject(id fleet.EndpointID, fault modelserver.Fault) {
	f.t.Helper()
	if err := f.pods.Inject(id, fault); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) heal() {
	f.t.Helper()
	if err := f.pods.Heal(f.t.Context(), "", ""); err != nil {
		f.t.Fatal(err)
	}
}

// received is how many requests reached each pod.
func (f *fixture) received() map[fleet.EndpointID]uint64 {
	n := map[fleet.EndpointID]uint64{}
	for _, e := range f.pods.Status(0).Endpoints {
		n[e.ID] = e.Received
	}
	return n
}

func eventually(t *testing.T, what string, ok func() bool, detail ...func() string) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(10 * time.Second); !ok(); {
		select {
		case <-end:
			for _, d := range detail {
				what += ": " + d()
			}
			t.Fatalf("not within 10 s: %s", what)
		case <-tick.C:
		}
	}
}

func body(more string) string {
	return `{"model":"llama-3.1-8b","messages":[{"role":"user","content":"` + strings.Repeat("hello there ", 30) + `"}]` + more + `}`
}
