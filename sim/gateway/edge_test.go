package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/modelserver"
)

func TestEndToEndHeaders(t *testing.T) {
	t.Parallel()
	in := http.Header{
		"Connection": {"close, X-One", "x-two"}, "X-One": {"1"}, "X-Two": {"2"}, "X-Three": {"3", "4"},
		"Keep-Alive": {"timeout=5"}, "Transfer-Encoding": {"chunked"}, "Upgrade": {"h2c"}, "Te": {"trailers"},
		"Content-Type": {"application/json"},
	}
	out := endToEnd(in)
	if len(out) != 2 || !slices.Equal(out["X-Three"], []string{"3", "4"}) || out.Get("Content-Type") == "" {
		t.Errorf("left are %v", out)
	}
	if in.Get("X-One") != "1" || len(in) != 9 {
		t.Errorf("the original changed: %v", in)
	}
}

func TestModelOf(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"model":"m"}`:               "m",
		`{"messages":[],"model":"m"}`: "m",
		`{"model":7}`:                 "",
		`{}`:                          "",
		`not JSON`:                    "",
		``:                            "",
	} {
		if got := modelOf([]byte(body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestWhoIsShed(t *testing.T) {
	t.Parallel()
	g, err := New(Options{
		Name: "pool", Listen: "127.0.0.1:0", Endpoints: []Endpoint{{"a", "http://127.0.0.1:1"}},
		MaxSaturation: 3, Sheddable: []string{"batch", "bulk"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		header, objective string
		saturation        float64
		want              bool
	}{
		{objectiveHeader, "batch", 0.99, false},
		{objectiveHeader, "batch", 1, true},
		{objectiveHeader, "bulk", 1, true},
		{objectiveHeaderLLM, "batch", 1, true},
		{objectiveHeader, "standard", 2.9, false},
		{objectiveHeader, "", 2.9, false},
		{objectiveHeader, "standard", 3, true},
	} {
		h := http.Header{}
		h.Set(c.header, c.objective)
		if got := g.sheds(h, c.saturation); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestScrapeOfASickPodFails(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	answers := map[string]http.HandlerFunc{
		"a status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"no page":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "# nothing\n") },
		"silence":  func(http.ResponseWriter, *http.Request) { <-release },
		"an endless page": func(w http.ResponseWriter, r *http.Request) {
			for line := strings.Repeat("x", 1000) + " 1\n"; r.Context().Err() == nil; {
				if _, err := io.WriteString(w, line); err != nil {
					return
				}
			}
		},
	}
	for name, answer := range answers {
		pod := httptest.NewServer(answer)
		g, err := New(Options{
			Name: "pool", Listen: "127.0.0.1:0", Endpoints: []Endpoint{{"a", pod.URL}}, ScrapeTimeout: 200 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := g.read(t.Context(), g.pool.members[0])
		if err == nil {
			t.Errorf("%s: %+v", name, s)
		}
		if name == "silence" {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("silence: %v", err)
			}
			close(release)
		}
		g.client.CloseIdleConnections()
		pod.Close()
	}
}

func TestBarrierOpensWhenAllHaveArrived(t *testing.T) {
	t.Parallel()
	b := newBarrier(2)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	b.done("a")
	b.done("a") // once more doesn't count
	if b.wait(gone) == nil {
		t.Error("open with one of two")
	}
	b.done("b")
	b.done("b")
	if err := b.wait(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRefreshKeepsOldMeansWithoutAReadyPod(t *testing.T) {
	t.Parallel()
	m := newMetrics(Options{Name: "pool"})
	m.refresh(view{ready: 2, waiting: 3, running: 4, kvUsage: 0.5, queues: map[string]float64{"a:1": 6, "b:1": 0}})
	m.refresh(view{ready: 0, saturation: 1})
	page := m.handler(&pool{})
	show := func() string {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
		return w.Body.String()
	}
	text := show()
	for _, line := range []string{
		`ready_endpoints{name="pool"} 0`, `average_queue_size{name="pool"} 3`, `average_running_requests{name="pool"} 4`,
		`average_kv_cache_utilization{name="pool"} 0.5`, `per_endpoint_queue_size{model_server_endpoint="a:1",name="pool"} 6`,
	} {
		if !strings.Contains(text, "\n"+prefix+line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	m.refresh(view{ready: 1, queues: map[string]float64{"b:1": 1}})
	if text := show(); strings.Contains(text, `"a:1"`) || !strings.Contains(text, `model_server_endpoint="b:1",name="pool"} 1`) {
		t.Errorf("a pod that is gone still has a queue:\n%s", text)
	}
}

func TestHungPodGetsLessAndLess(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.inject("a", modelserver.Fault{Kind: modelserver.Hang})
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var answered atomic.Int64
	for range 30 {
		ended := make(chan struct{})
		all.Go(func() {
			defer close(ended)
			resp, err := f.send(ctx, body(`,"max_tokens":1`))
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if err == nil {
				answered.Add(1)
			}
		})
		select {
		case <-ended:
		case <-time.After(50 * time.Millisecond):
			// It is late, or stays in flight at the hung pod. The pod's metrics are frozen at
			// idle, so that what is in flight is all that tells.
		}
	}
	n := f.received()
	eventually(t, "the other pod answers all it got", func() bool { return answered.Load() == int64(f.received()["b"]) })
	leave()
	all.Wait()
	if n["a"] == 0 || n["a"] > 12 {
		t.Errorf("requests by pod: %v", n)
	}
}

func TestOtherMethodsAndRedirectsPass(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	resp, err := f.do(t.Context(), http.MethodGet, "http://"+f.Addr()+"/v1/models", "")
	if err != nil {
		t.Fatal(err)
	}
	if text := read(t, resp); resp.StatusCode != http.StatusOK || !strings.Contains(text, "llama-3.1-8b") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if page := f.metricsPage(); strings.Contains(page, "llm_d_epp_request_total{") {
		t.Error("a GET counts as inference")
	}
	resp, err = f.do(t.Context(), http.MethodGet, "http://"+f.Addr()+"/nowhere", "")
	if err != nil {
		t.Fatal(err)
	}
	if read(t, resp); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a pod's 404 becomes %d", resp.StatusCode)
	}
}

func TestRedirectIsTheClientsBusiness(t *testing.T) {
	t.Parallel()
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = io.WriteString(w, podMetrics)
			return
		}
		http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(pod.Close)
	g, err := New(Options{Name: "pool", Listen: "127.0.0.1:0", Endpoints: []Endpoint{{"a", pod.URL}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, "gateway", g.Run)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.Addr()+"/x", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	read(t, resp)
	if resp.StatusCode != http.StatusTemporaryRedirect || resp.Header.Get("Location") != "http://elsewhere.invalid/" {
		t.Errorf("%d to %q", resp.StatusCode, resp.Header.Get("Location"))
	}
}

func TestPodsOwnErrorsPass(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	for kind, want := range map[modelserver.FaultKind]int{modelserver.Error500: 500, modelserver.Error429: 429} {
		f.inject("", modelserver.Fault{Kind: kind})
		resp, text := f.post(body(""))
		if resp.StatusCode != want || !strings.HasPrefix(text, `{"error"`) || resp.Header.Get("x-llm-d-request-dropped-reason") != "" {
			t.Errorf("%s: %d %s", kind, resp.StatusCode, text)
		}
		f.heal()
	}
	f.shows(`llm_d_epp_request_error_total{error_code="ModelServerError",model_name="llama-3.1-8b",target_model_name="llama-3.1-8b"} 1`)
}

func TestBodyOverTheLimit(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	resp, err := f.send(t.Context(), strings.Repeat("x", maxBody+1))
	if err != nil {
		return // the connection may be closed before the answer is read
	}
	if read(t, resp); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d", resp.StatusCode)
	}
	if n := f.received(); n[fleet.EndpointID("a")]+n["b"] != 0 {
		t.Errorf("it reached a pod: %v", n)
	}
}

func TestStopCutsStreams(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Options, p *modelserver.Options) { p.TimeScale = 1 })
	var endpoints []Endpoint
	for _, m := range f.pool.members {
		endpoints = append(endpoints, m.Endpoint)
	}
	g, err := New(Options{Name: "second", Listen: "127.0.0.1:0", Endpoints: endpoints})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	ends := make(chan error, 2)
	for _, stream := range []string{"true", "false"} {
		go func() {
			resp, err := f.do(t.Context(), http.MethodPost, "http://"+g.Addr()+chatPath,
				body(`,"max_tokens":100000,"ignore_eos":true,"stream":`+stream))
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			ends <- err
		}()
	}
	eventually(t, "both run", func() bool { n := f.received(); return n["a"]+n["b"] == 2 })
	stop()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
	for range 2 {
		if err := <-ends; err == nil {
			t.Error("an answer that was cut short looks whole")
		}
	}
	eventually(t, "the pods know", func() bool {
		st := f.pods.Status(0).Endpoints
		return st[0].InFlight+st[1].InFlight == 0
	})
}
