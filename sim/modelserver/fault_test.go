package modelserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestRefuseClosesPortAndConnections(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	opts := chat("llama-3.1-8b", "long", `,"stream":true,"max_tokens":100000,"ignore_eos":true`)
	resp, err := f.send(t.Context(), "/v1/chat/completions", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	before := f.Addrs()["a"]
	f.inject("a", Fault{Kind: Refuse})
	if _, done, err := readStream(resp.Body); err == nil || done {
		t.Error("an open stream went on to its end")
	}
	if _, err := f.send(t.Context(), "/v1/chat/completions", chat("llama-3.1-8b", "hi", "")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting: %v, want a refusal", err)
	}
	if f.status("a").Ready || !f.status("b").Ready {
		t.Error("the wrong endpoint is out")
	}
	if status, _ := f.get(f.url("b", "/health")); status != 200 {
		t.Errorf("the other endpoint: %d", status)
	}
	f.heal("a", "")
	if status, _ := f.post("/v1/chat/completions", chat("llama-3.1-8b", "hi", `,"max_tokens":2`)); status != 200 || f.Addrs()["a"] != before {
		t.Errorf("after healing: %d at %s, want 200 at %s", status, f.Addrs()["a"], before)
	}
	eventually(t, "the cut stream is accounted for", func() bool {
		st := f.status("a")
		return st.InFlight == 0 && st.Aborted == 1 && st.Models[0].Running == 0
	})
}

func TestRefuseBeforeRun(t *testing.T) {
	t.Parallel()
	s, err := New(twoPods)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Inject("", Fault{Kind: Refuse}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil { // binds again, and ends at once
		t.Error(err)
	}
}

func TestHangSendsNothing(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	streaming, err := f.send(t.Context(), "/v1/chat/completions",
		chat("llama-3.1-8b", "running", `,"stream":true,"max_tokens":3000,"ignore_eos":true`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = streaming.Body.Close() }()
	eventually(t, "tokens flow", func() bool { return f.status("a").Models[0].Running == 1 })
	f.inject("a", Fault{Kind: Hang})
	_, before := f.get(f.url("a", "/metrics"))

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	resp, err := f.send(ctx, "/v1/chat/completions", chat("llama-3.1-8b", "hi", `,"stream":true`))
	if err == nil {
		_ = resp.Body.Close()
		t.Errorf("it answers %d", resp.StatusCode)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("asking: %v, want silence until the deadline", err)
	}
	if status, _ := f.get(f.url("a", "/health")); status != 200 {
		t.Errorf("health is %d", status)
	}
	if _, after := f.get(f.url("a", "/metrics")); after != before {
		t.Error("the metrics move")
	}

	answered := make(chan int, 1)
	go func() {
		resp, err := f.send(t.Context(), "/v1/chat/completions", chat("llama-3.1-8b", "patient", `,"max_tokens":2`))
		if err != nil {
			answered <- 0
			return
		}
		_ = resp.Body.Close()
		answered <- resp.StatusCode
	}()
	eventually(t, "the patient one is there", func() bool { return f.status("a").InFlight == 2 })
	f.heal("a", Hang)
	if status := <-answered; status != 200 {
		t.Errorf("after healing it answers %d", status)
	}
	if chunks, done, err := readStream(streaming.Body); err != nil || !done {
		t.Errorf("the stream from before ended after %d chunks: %v", len(chunks), err)
	}
	eventually(t, "everything is accounted for", func() bool {
		st := f.status("a")
		return st.InFlight == 0 && st.Aborted == 1 && st.Completed == 2
	})
}

func TestSlowStretchesAnswers(t *testing.T) {
	t.Parallel()
	opts := twoPods
	opts.TimeScale = 0.2
	f := start(t, opts)
	duration := func() time.Duration {
		begin := time.Now()
		f.post("/v1/chat/completions", chat("llama-3.1-8b", "hi", `,"max_tokens":40,"ignore_eos":true`))
		return time.Since(begin)
	}
	normal := duration()
	f.inject("a", Fault{Kind: Slow, Factor: 10})
	slow := duration()
	// 40 steps of 77 ms × 0.2; the upper bound of the ratio would depend on the machine.
	if slow < 400*time.Millisecond || slow < 2*normal {
		t.Errorf("normal %v, ten times slower %v", normal, slow)
	}
	f.heal("a", Slow)
	if healed := duration(); healed > slow/2 {
		t.Errorf("healed %v, slow %v", healed, slow)
	}
}

func TestErrorsAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	for kind, want := range map[FaultKind]int{Error500: 500, Error429: 429} {
		f.inject("a", Fault{Kind: kind})
		resp, err := f.send(t.Context(), "/v1/chat/completions", chat("llama-3.1-8b", "hi", `,"stream":true`))
		if err != nil {
			t.Fatal(err)
		}
		body := readAll(t, resp)
		if resp.StatusCode != want || !strings.Contains(body, `"error"`) {
			t.Errorf("%s: %d %s", kind, resp.StatusCode, body)
		}
		if after := resp.Header.Get("Retry-After"); (after != "") != (want == 429) {
			t.Errorf("%s: Retry-After is %q", kind, after)
		}
		f.heal("a", kind)
	}
	eventually(t, "both are counted", func() bool {
		st := f.status("a")
		return st.Rejected == 1 && st.Failed == 1 && st.InFlight == 0
	})
	if st := f.status("a"); st.Models[0].Running+st.Models[0].Waiting != 0 {
		t.Error("a refused request reached the engine")
	}
}

func TestRatioHitsItsShare(t *testing.T) {
	t.Parallel()
	fs := newFaults(1)
	fs.add(Fault{Kind: Error500, Ratio: 0.3}.withDefaults())
	var hits int
	const n = 10000
	for range n {
		if fs.draw().status == 500 {
			hits++
		}
	}
	if got := float64(hits) / n; math.Abs(got-0.3) > 0.02 {
		t.Errorf("a ratio of 0.3 hits %.3f", got)
	}
}

func TestCutResetsAStreamInTheMiddle(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	for after, want := range map[int]int{0: 8, 3: 3, -1: 0, 500: 20} {
		f.inject("a", Fault{Kind: Cut, After: after})
		resp, err := f.send(t.Context(), "/v1/chat/completions", chat("llama-3.1-8b", "hi", `,"stream":true,"max_tokens":20,"ignore_eos":true`))
		if err != nil {
			t.Fatal(err)
		}
		chunks, done, err := readStream(resp.Body)
		_ = resp.Body.Close()
		if err == nil || done {
			t.Errorf("after %d: the stream ended well", after)
		}
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after %d: %v, want a reset", after, err)
		}
		if len(chunks) == 0 || chunks[0].Choices[0].Delta.Role != "assistant" {
			t.Fatalf("after %d: no role in %d chunks", after, len(chunks))
		}
		if _, n := content(chunks); n != want {
			t.Errorf("after %d: %d tokens, want %d", after, n, want)
		}
		if last := chunks[len(chunks)-1]; last.Choices[0].FinishReason != nil {
			t.Errorf("after %d: the reason to finish came before the cut", after)
		}
	}
	if _, err := f.send(t.Context(), "/v1/chat/completions", chat("llama-3.1-8b", "hi", "")); err == nil {
		t.Error("an answer in one piece was not cut")
	}
	eventually(t, "all are counted as failed", func() bool {
		st := f.status("a")
		return st.Failed == st.Received && st.InFlight == 0 && st.Models[0].Running == 0
	})
}

func TestFrozenMetricsStay(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	f.inject("a", Fault{Kind: FreezeMetrics})
	_, before := f.get(f.url("a", "/metrics"))
	f.post("/v1/chat/completions", chat("llama-3.1-8b", "hi", `,"max_tokens":2`))
	_, frozen := f.get(f.url("a", "/metrics"))
	f.inject("a", Fault{Kind: Hang})
	f.heal("a", Hang) // does not thaw what another fault froze
	_, still := f.get(f.url("a", "/metrics"))
	f.heal("a", FreezeMetrics)
	_, thawed := f.get(f.url("a", "/metrics"))
	if frozen != before || still != before {
		t.Error("frozen metrics moved")
	}
	if thawed == before || !strings.Contains(thawed, `vllm:generation_tokens_total{engine="0",model_name="llama-3.1-8b"} 2`) {
		t.Errorf("thawed metrics:\n%s", thawed)
	}
}

func TestClientThatLeavesAbortsItsSequence(t *testing.T) {
	t.Parallel()
	opts := twoPods
	opts.TimeScale = 1
	f := start(t, opts)
	for _, stream := range []string{"true", "false"} {
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			resp, err := f.send(ctx, "/v1/chat/completions",
				chat("llama-3.1-8b", "long", `,"max_tokens":100000,"ignore_eos":true,"stream":`+stream))
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body) // until we leave
				_ = resp.Body.Close()
			}
		}()
		eventually(t, "it runs", func() bool { return f.status("a").Models[0].Running == 1 })
		leave()
		<-gone
		left := time.Now()
		eventually(t, "its slot is free", func() bool {
			st := f.status("a")
			return st.Models[0].Running == 0 && st.Models[0].KVUsage == 0 && st.InFlight == 0
		})
		if d := time.Since(left); d > 2*time.Second {
			t.Errorf("stream %s: freed after %v", stream, d)
		}
	}
	if st := f.status("a"); st.Aborted != 2 {
		t.Errorf("%d aborted, want 2", st.Aborted)
	}
	if _, page := f.get(f.url("a", "/metrics")); !strings.Contains(page, `finished_reason="abort",model_name="llama-3.1-8b"} 2`) {
		t.Errorf("the metrics don't count the aborts:\n%s", page)
	}
}

func TestStopCutsStreamsAndWaitingRequests(t *testing.T) {
	t.Parallel()
	opts := twoPods
	opts.TimeScale = 1
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	f := &fixture{s, t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	ends := make(chan error, 2)
	for _, stream := range []string{"true", "false"} {
		go func() {
			resp, err := f.send(t.Context(), "/v1/chat/completions",
				chat("llama-3.1-8b", "long", `,"max_tokens":100000,"ignore_eos":true,"stream":`+stream))
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			ends <- err
		}()
	}
	eventually(t, "both run", func() bool { return f.status("a").Models[0].Running == 2 })
	stop()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
	for range 2 {
		if err := <-ends; err == nil {
			t.Error("an answer that was cut short looks whole")
		}
	}
	if st := f.status("a"); st.InFlight != 0 || st.Aborted != 2 || st.Models[0].Running != 0 {
		t.Errorf("after the end: %+v", st)
	}
}

func TestAdminPort(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	admin := "http://" + f.AdminAddr()
	do := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, admin+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, readAll(t, resp)
	}
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		text               string
	}{
		"health":          {"GET", "/healthz", "", 200, ""},
		"status":          {"GET", "/status?recent=5", "", 200, `"cluster":"test"`},
		"bad recent":      {"GET", "/status?recent=x", "", 400, "recent"},
		"unknown fault":   {"POST", "/faults", `{"fault":"flood"}`, 400, "is not one of"},
		"unknown field":   {"POST", "/faults", `{"fault":"hang","colour":1}`, 400, "colour"},
		"bad ratio":       {"POST", "/faults", `{"fault":"cut","ratio":2}`, 400, "ratio"},
		"bad factor":      {"POST", "/faults", `{"fault":"slow","factor":-1}`, 400, "factor"},
		"bad after":       {"POST", "/faults", `{"fault":"cut","after":-2}`, 400, "after"},
		"no such pod":     {"POST", "/faults", `{"endpoint":"z","fault":"hang"}`, 404, "no such endpoint"},
		"heal no one":     {"DELETE", "/faults?endpoint=z", "", 404, "no such endpoint"},
		"heal no fault":   {"DELETE", "/faults?fault=flood", "", 400, "is not one of"},
		"heal the well":   {"DELETE", "/faults", "", 200, ""},
		"no such path":    {"GET", "/fault", "", 404, ""},
		"not that method": {"PUT", "/faults", "", 405, ""},
	} {
		if status, body := do(c.method, c.path, c.body); status != c.status || !strings.Contains(body, c.text) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	do("POST", "/faults", `{"fault":"slow","factor":3}`)
	do("POST", "/faults", `{"endpoint":"b","fault":"error500","ratio":0.5}`)
	_, body := do("GET", "/status", "")
	var st Status
	if err := json.Unmarshal([]byte(body), &st); err != nil {
		t.Fatal(err)
	}
	if a, b := st.Endpoints[0].Faults, st.Endpoints[1].Faults; len(a) != 1 || len(b) != 2 || b[0].Factor != 3 || b[1].Ratio != 0.5 {
		t.Errorf("faults %+v and %+v", a, b)
	}
	do("DELETE", "/faults?endpoint=b&fault=slow", "")
	if a, b := f.status("a").Faults, f.status("b").Faults; len(a) != 1 || len(b) != 1 || b[0].Kind != Error500 {
		t.Errorf("after healing one of b: %+v and %+v", a, b)
	}
	do("DELETE", "/faults", "")
	if a, b := f.status("a").Faults, f.status("b").Faults; len(a)+len(b) != 0 {
		t.Errorf("after healing all: %+v and %+v", a, b)
	}
}
