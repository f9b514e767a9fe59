package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/sim/modelserver"
)

func TestAnswersPassByteForByte(t *testing.T) {
	t.Parallel()
	const events = "data: {\"a\": 1}\r\n\r\n: comment\ndata: no end"
	var seen http.Header
	step := make(chan struct{})
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = io.WriteString(w, podMetrics)
			return
		}
		seen = r.Header.Clone()
		got, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Pod", string(got))
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusTeapot)
		for _, b := range []byte(events) {
			_, _ = w.Write([]byte{b})
			_ = http.NewResponseController(w).Flush()
			if b == '1' {
				<-step // the rest only when the client has seen this
			}
		}
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
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.Addr()+"/any/path?x=1", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"x-gateway-destination-endpoint": "10.0.0.1:1", "x-gateway-destination-endpoint-subset": "10.0.0.1:1",
		"authorization": "Bearer secret", "x-request-id": "r1", "x-gateway-inference-fairness-id": "acme",
		"connection": "x-private", "x-private": "1",
	} {
		req.Header.Set(k, v)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	part := make([]byte, strings.Index(events, "1")+1)
	if _, err := io.ReadFull(resp.Body, part); err != nil {
		t.Fatalf("what the pod has sent does not arrive: %v", err)
	}
	close(step)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || string(part)+string(rest) != events || resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Pod") != "body" {
		t.Errorf("%d %q %q: %v", resp.StatusCode, resp.Header.Get("X-Pod"), string(part)+string(rest), err)
	}
	for name, want := range map[string]string{
		"X-Request-Id": "r1", "X-Gateway-Inference-Fairness-Id": "acme", "Authorization": "", "X-Private": "",
		"X-Gateway-Destination-Endpoint": "", "X-Gateway-Destination-Endpoint-Subset": "",
	} {
		if got := seen.Get(name); got != want {
			t.Errorf("the pod saw %s: %q, want %q", name, got, want)
		}
	}
}

func TestRequestsSpreadOverPods(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			resp, err := f.send(t.Context(), body(`,"max_tokens":20,"stream":true`))
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		})
	}
	all.Wait()
	if n := f.received(); n["a"]+n["b"] != 40 || n["a"] < 12 || n["b"] < 12 {
		t.Errorf("requests by pod: %v", n)
	}
}

func TestDeadPodIsPassedOver(t *testing.T) {
	t.Parallel()
	// Scrapes are rare, so that it is the requests that find out.
	f := start(t, func(o *Options, _ *modelserver.Options) { o.ScrapeEvery = time.Hour })
	f.post(body(`,"max_tokens":1`))
	f.inject("a", modelserver.Fault{Kind: modelserver.Refuse})
	for range 10 {
		if resp, text := f.post(body(`,"max_tokens":1`)); resp.StatusCode != http.StatusOK {
			t.Errorf("%d %s", resp.StatusCode, text)
		}
	}
	f.shows(`llm_d_epp_ready_endpoints{name="pool"} 1`)
}

func TestNoReadyPodIs503(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.post(body(`,"max_tokens":1`))
	f.inject("", modelserver.Fault{Kind: modelserver.Refuse})
	f.shows(`llm_d_epp_ready_endpoints{name="pool"} 0`,
		`llm_d_epp_flow_control_pool_saturation{inference_pool="pool",stage="effective"} 1`)
	resp, text := f.post(body(""))
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "ServiceUnavailable") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	f.heal()
	f.shows(`llm_d_epp_ready_endpoints{name="pool"} 2`)
	if resp, text := f.post(body(`,"max_tokens":1`)); resp.StatusCode != http.StatusOK {
		t.Errorf("healed: %d %s", resp.StatusCode, text)
	}
}

func TestMeansFreezeWhenNoPodIsReady(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Options, p *modelserver.Options) { p.MaxSequences, p.TimeScale = 1, 1 })
	// Two run, two wait; then all die.
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			resp, err := f.send(ctx, body(`,"stream":true,"max_tokens":100000,"ignore_eos":true`))
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body) // until it breaks
				_ = resp.Body.Close()
			}
		})
	}
	mean := `llm_d_epp_average_queue_size{name="pool"} 1`
	running := `llm_d_epp_average_running_requests{name="pool"} 1`
	f.shows(mean, running)
	f.inject("", modelserver.Fault{Kind: modelserver.Refuse})
	f.shows(`llm_d_epp_ready_endpoints{name="pool"} 0`, mean, running)
	leave()
	all.Wait()
	f.heal()
	f.shows(`llm_d_epp_ready_endpoints{name="pool"} 2`, `llm_d_epp_average_queue_size{name="pool"} 0`)
}

func TestSaturatedPoolShedsByObjective(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options, p *modelserver.Options) {
		p.MaxSequences, p.TimeScale, p.Endpoints = 1, 1, p.Endpoints[:1]
		o.QueueThreshold = 2
	})
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	fill := func(n int) {
		for range n {
			all.Go(func() {
				resp, err := f.send(ctx, body(`,"stream":true,"max_tokens":100000,"ignore_eos":true`))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body) // until we leave
					_ = resp.Body.Close()
				}
			})
		}
	}
	saturation := `llm_d_epp_flow_control_pool_saturation{inference_pool="pool",stage="effective"} `
	fill(3) // one runs, two wait
	f.shows(`llm_d_epp_average_queue_size{name="pool"} 2`, saturation+"1")
	resp, text := f.post(body(""), "x-gateway-inference-objective", "batch")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("x-llm-d-request-dropped-reason") != "rejected-saturated" ||
		resp.Header.Get("Retry-After") == "" || !strings.Contains(text, "ResourceExhausted") {
		t.Errorf("a sheddable request: %d %v %s", resp.StatusCode, resp.Header, text)
	}
	fill(2) // four wait; these were not sheddable
	f.shows(`llm_d_epp_average_queue_size{name="pool"} 4`, saturation+"2")
	if resp, text := f.post(body("")); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("any request at twice the threshold: %d %s", resp.StatusCode, text)
	}
	f.shows(`llm_d_epp_request_error_total{error_code="ResourceExhausted",model_name="llama-3.1-8b",target_model_name="llama-3.1-8b"} 2`,
		`llm_d_epp_flow_control_requests_total{inference_pool="pool",outcome="RejectedCapacity"} 2`)
	leave()
	all.Wait()
	f.shows(saturation+"0", `llm_d_epp_request_running{model_name="llama-3.1-8b"} 0`)
}

func TestBrokenStreamBreaksTheClients(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.inject("", modelserver.Fault{Kind: modelserver.Cut, After: 3})
	resp, err := f.send(t.Context(), body(`,"stream":true`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err == nil || strings.Contains(string(text), "[DONE]") {
		t.Errorf("a clean end: %s", text)
	}
	if n := strings.Count(string(text), "data: "); n != 4 {
		t.Errorf("%d events before the break, want the role and three tokens", n)
	}
	resp, text2 := f.post(body(""))
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text2, "ModelServerError") {
		t.Errorf("a reset before the head: %d %s", resp.StatusCode, text2)
	}
	f.shows(`llm_d_epp_request_running{model_name="llama-3.1-8b"} 0`,
		`llm_d_epp_request_error_total{error_code="ModelServerError",model_name="llama-3.1-8b",target_model_name="llama-3.1-8b"} 2`)
}

func TestClientThatLeavesFreesThePod(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Options, p *modelserver.Options) { p.TimeScale = 1 })
	ctx, leave := context.WithCancel(t.Context())
	resp, err := f.send(ctx, body(`,"stream":true,"max_tokens":100000,"ignore_eos":true`))
	if err != nil {
		t.Fatal(err)
	}
	leave()
	_ = resp.Body.Close()
	eventually(t, "the pod aborts", func() bool {
		var aborted, running uint64
		for _, e := range f.pods.Status(0).Endpoints {
			aborted += e.Aborted
			running += e.InFlight
		}
		return aborted == 1 && running == 0
	})
	f.shows(`llm_d_epp_request_running{model_name="llama-3.1-8b"} 0`)
	eventually(t, "nothing is in flight", func() bool {
		f.pool.mu.Lock()
		defer f.pool.mu.Unlock()
		return f.pool.members[0].inFlight+f.pool.members[1].inFlight == 0
	})
}

func TestUsageIsMetered(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Options, p *modelserver.Options) { p.Endpoints = p.Endpoints[:1] })
	f.post(body(`,"max_tokens":2`))
	f.post(body(`,"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}`))
	f.post(body(`,"max_tokens":2,"stream":true`)) // says no usage
	labels := `{model_name="llama-3.1-8b",target_model_name="llama-3.1-8b"} `
	f.shows("llm_d_epp_request_total"+labels+"3", "llm_d_epp_request_input_tokens_count"+labels+"2",
		"llm_d_epp_request_cached_tokens_count"+labels+"2", "llm_d_epp_request_ttft_seconds_count"+labels+"3",
		"llm_d_epp_request_cached_tokens_sum"+labels+"80", // five of six blocks, the second time
		`llm_d_epp_flow_control_requests_total{inference_pool="pool",outcome="Dispatched"} 3`)
}

func TestMetricsNeedTheToken(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options, _ *modelserver.Options) { o.Token = "s3cret" })
	for header, want := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer s3cret": 200} {
		resp, err := f.do(t.Context(), http.MethodGet, "http://"+f.MetricsAddr()+"/metrics", "", "Authorization", header)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		if resp.StatusCode != want {
			t.Errorf("with %q: %d, want %d", header, resp.StatusCode, want)
		}
	}
}
