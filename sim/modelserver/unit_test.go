package modelserver

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func TestValidateNamesTheOption(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*Options){
		"cluster":             func(o *Options) { o.Cluster = "" },
		"endpoints: name":     func(o *Options) { o.Endpoints = nil },
		"models: name":        func(o *Options) { o.Models = nil },
		"time scale":          func(o *Options) { o.TimeScale = -1 },
		"start-up":            func(o *Options) { o.StartUp = -1 },
		"endpoints[1].id":     func(o *Options) { o.Endpoints[1].ID = "A B" },
		"is there twice":      func(o *Options) { o.Endpoints[1].ID = "a" },
		"endpoints[0].listen": func(o *Options) { o.Endpoints[0].Listen = "" },
		"endpoints[0].class":  func(o *Options) { o.Endpoints[0].Class = "tpu" },
		"not one of llama":    func(o *Options) { o.Models[0].Name = "mystery" },
		"models[0]":           func(o *Options) { o.Models[0].Adapters = []fleet.ModelID{"a b"} },
		"models[1]":           func(o *Options) { o.Models = append(o.Models, o.Models[0]) },
	} {
		o := twoPods
		o.Endpoints = append([]Endpoint(nil), o.Endpoints...)
		o.Models = append([]Model(nil), o.Models...)
		spoil(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	o := twoPods
	o.Models = []Model{{Name: "acme/mystery", Like: "llama-3.1-8b"}}
	if _, err := New(o); err != nil {
		t.Errorf("an unknown model that is like a known one: %v", err)
	}
}

func TestListenSaysWhichAddressIsTaken(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	o := twoPods
	o.Endpoints = []Endpoint{{ID: "free", Listen: "127.0.0.1:0", Class: "h100"}, {ID: "taken", Listen: f.Addrs()["a"], Class: "h100"}}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), f.Addrs()["a"]) {
		t.Errorf("run: %v", err)
	}
}

func TestClockStretchesAndPauses(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	c := newClock(0.1, begin)
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	for _, step := range []struct {
		wall float64
		do   func()
		want time.Duration
	}{
		{0, nil, 0},
		{1, nil, 10 * time.Second},
		{2, func() { c.pause(at(2), true) }, 20 * time.Second},
		{5, nil, 20 * time.Second},
		{5, func() { c.pause(at(5), true) }, 20 * time.Second}, // twice is once
		{6, func() { c.pause(at(6), false) }, 20 * time.Second},
		{7, nil, 30 * time.Second},
	} {
		if step.do != nil {
			step.do()
		}
		if got := c.virtual(at(step.wall)); got != step.want {
			t.Errorf("at %v s: %v, want %v", step.wall, got, step.want)
		}
	}
	if d := c.wall(time.Second); d != 100*time.Millisecond {
		t.Errorf("a second takes %v", d)
	}
}

// The driver adds nothing to the engine's times and loses nothing of them.
func TestRunnerKeepsTheEnginesTime(t *testing.T) {
	t.Parallel()
	profile, err := sim.Lookup("h100", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		opts := sim.Options{Profile: profile, Tokens: true}
		request := sim.Request{ID: 1, PromptTokens: 4000, OutputTokens: 50}
		engine := sim.New(opts)
		if err := engine.Submit(0, request); err != nil {
			t.Fatal(err)
		}
		var first, last time.Duration
		for at, ok := engine.Next(); ok; at, ok = engine.Next() {
			for _, ev := range engine.Advance(at) {
				switch ev.Kind {
				case sim.First:
					first = ev.At
				case sim.Finished:
					last = ev.At
				}
			}
		}

		const scale = 2
		r := newRunner(Model{Name: "m"}, opts, scale, 100000)
		newExposition([]*runner{r})
		done := make(chan struct{})
		go func() { r.run(t.Context()); close(done) }()
		begin := time.Now()
		c, err := r.submit(request, "")
		if err != nil {
			t.Fatal(err)
		}
		expect := func(seen int, want time.Duration) {
			if _, err := r.wait(t.Context(), c, seen); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(begin); math.Abs(float64(d-want)) > float64(10*time.Microsecond) {
				t.Errorf("more than %d tokens after %v, want %v", seen, d, want)
			}
		}
		expect(0, scale*first)
		r.pause(true)
		<-time.After(time.Hour) // of the bubble's time: nothing happens meanwhile
		if p, _ := r.wait(t.Context(), c, 0); p.generated != 1 {
			t.Errorf("%d tokens while paused", p.generated)
		}
		r.pause(false)
		begin = begin.Add(time.Hour)
		expect(math.MaxInt, scale*last)
		r.release(c)
		if st, finished := r.stats(); st.Finished != 1 || finished["stop"] != 1 || len(r.calls) != 0 {
			t.Errorf("stats %+v, %v, %d calls left", st, finished, len(r.calls))
		}
	})
}

func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	var l ledger
	var slots []uint64
	for i := range 3000 {
		h := http.Header{}
		h.Set(requestHeader, fmt.Sprintf("r%d", i))
		h.Set(fairnessHeader, fmt.Sprintf("t%d/user", i))
		if i%10 == 0 {
			h.Set(canaryHeader, "1")
		}
		slots = append(slots, l.begin(h, strings.Repeat("m", 500), time.Unix(int64(i), 0)))
	}
	for i, s := range slots {
		l.end(s, []Outcome{Completed, Aborted, Rejected, Failed}[i%4])
	}
	counts, tenants, records := l.read(1 << 20)
	if want := (Counts{3000, 750, 750, 750, 750, 0, 300}); counts != want {
		t.Errorf("counts %+v, want %+v", counts, want)
	}
	if len(tenants) > maxTenants+1 || tenants["t0"] != 1 || tenants["(others)"] != 3000-maxTenants {
		t.Errorf("%d tenants, %d others", len(tenants), tenants["(others)"])
	}
	if len(records) != maxRecords {
		t.Fatalf("%d records", len(records))
	}
	if r := records[0]; r.RequestID != "r2999" || r.Tenant != "t2999" || r.Outcome != Failed || len(r.Model) != maxID {
		t.Errorf("newest record %+v", r)
	}
	if r := records[maxRecords-1]; r.RequestID != "r1976" {
		t.Errorf("oldest record %+v", r)
	}
	if _, _, few := l.read(2); len(few) != 2 || few[1].RequestID != "r2998" {
		t.Errorf("two records: %+v", few)
	}
}

func TestLedgerKnowsWhoAsked(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	f.post("/v1/chat/completions", chat("support-lora", "hi", `,"max_tokens":1`),
		"x-request-id", "r1", "x-gateway-inference-fairness-id", "acme/alice")
	f.post("/v1/chat/completions", chat("llama-3.1-8b", "hi", `,"max_tokens":1`),
		"x-request-id", "r2", "x-llm-d-inference-fairness-id", "acme")
	f.post("/v1/chat/completions", chat("llama-3.1-8b", "hi", `,"max_tokens":1`), "x-request-id", "r3", "x-anabranch-canary", "1")
	eventually(t, "all have ended", func() bool { return f.status("a").Completed == 3 })
	st := f.status("a")
	if st.Tenants["acme"] != 2 || st.Tenants[""] != 1 || st.Canaries != 1 || f.status("b").Received != 0 {
		t.Errorf("status %+v", st)
	}
	var got []string
	for _, r := range st.Recent {
		got = append(got, fmt.Sprintf("%s %s %s %v %s", r.RequestID, r.Tenant, r.Model, r.Canary, r.Outcome))
	}
	want := "r3  llama-3.1-8b true completed|r2 acme llama-3.1-8b false completed|r1 acme support-lora false completed"
	if strings.Join(got, "|") != want {
		t.Errorf("recent %q", got)
	}
}

func TestTextIsOneTokenPerWord(t *testing.T) {
	t.Parallel()
	for i := range 1000 {
		if s := tokenText(42, i); len(s) != sim.BytesPerToken || strings.ContainsAny(s, `"\`) {
			t.Fatalf("token %d is %q", i, s)
		}
	}
	text := answerText(7, 100)
	if sim.CountTokens(len(text)) != 100 || text == answerText(8, 100) || text != answerText(7, 100) {
		t.Errorf("answer %q", text)
	}
	if seedOf("a", "bc") == seedOf("ab", "c") {
		t.Error("model and prompt run into each other")
	}
}

func TestMetricsAreNamedAsInVLLM(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	long := strings.Repeat("a prompt to be cached ", 50)
	for range 2 {
		f.post("/v1/chat/completions", chat("llama-3.1-8b", long, `,"max_tokens":4`))
	}
	_, page := f.get(f.url("a", "/metrics"))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{
		"vllm:num_requests_waiting": "GAUGE", "vllm:num_requests_running": "GAUGE", "vllm:kv_cache_usage_perc": "GAUGE",
		"vllm:cache_config_info": "GAUGE", "vllm:lora_requests_info": "GAUGE", "vllm:prompt_tokens_total": "COUNTER",
		"vllm:generation_tokens_total": "COUNTER", "vllm:time_to_first_token_seconds": "HISTOGRAM",
		"vllm:prefix_cache_queries_total": "COUNTER", "vllm:prefix_cache_hits_total": "COUNTER",
		"vllm:request_success_total": "COUNTER", "vllm:num_preemptions_total": "COUNTER",
		"vllm:e2e_request_latency_seconds": "HISTOGRAM",
	} {
		if fam := families[name]; fam == nil || fam.GetType().String() != kind {
			t.Errorf("%s is not a %s", name, kind)
		}
	}
	for _, line := range []string{
		`vllm:num_requests_running{engine="0",model_name="llama-3.1-8b"} 0`,
		`vllm:generation_tokens_total{engine="0",model_name="llama-3.1-8b"} 8`,
		`vllm:request_success_total{engine="0",finished_reason="length",model_name="llama-3.1-8b"} 2`,
		`vllm:request_success_total{engine="0",finished_reason="stop",model_name="llama-3.1-8b"} 0`,
		`vllm:time_to_first_token_seconds_count{engine="0",model_name="llama-3.1-8b"} 2`,
		`vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",gpu_memory_utilization="0.9",num_gpu_blocks="25720"} 1`,
		`vllm:lora_requests_info{max_lora="4",running_lora_adapters="",waiting_lora_adapters=""} `,
	} {
		if !strings.Contains(page, "\n"+line) {
			t.Errorf("no line %s in\n%s", line, page)
		}
	}
	hits := families["vllm:prefix_cache_hits_total"].GetMetric()[0].GetCounter().GetValue()
	queries := families["vllm:prefix_cache_queries_total"].GetMetric()[0].GetCounter().GetValue()
	if hits < 200 || hits > queries/2 {
		t.Errorf("%v hits of %v tokens asked for twice", hits, queries)
	}
}

func TestNewestLoRASeriesHolds(t *testing.T) {
	t.Parallel()
	opts := twoPods
	opts.TimeScale = 1
	f := start(t, opts)
	f.get(f.url("a", "/metrics")) // dates the idle state
	ctx := t.Context()
	resp, err := f.send(ctx, "/v1/chat/completions", chat("legal-lora", "hi", `,"stream":true,"max_tokens":2000,"ignore_eos":true`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	eventually(t, "the adapter runs", func() bool {
		_, page := f.get(f.url("a", "/metrics"))
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		newest, adapters := 0.0, ""
		for _, m := range families["vllm:lora_requests_info"].GetMetric() {
			if v := m.GetGauge().GetValue(); v > newest {
				newest = v
				for _, l := range m.GetLabel() {
					if l.GetName() == "running_lora_adapters" {
						adapters = l.GetValue()
					}
				}
			}
		}
		return adapters == "legal-lora" && len(families["vllm:lora_requests_info"].GetMetric()) >= 2
	})
}

func TestTwoModelsOnOneEndpoint(t *testing.T) {
	t.Parallel()
	opts := twoPods
	opts.Models = append(opts.Models[:1:1], Model{Name: "llama-3.1-70b", Adapters: []fleet.ModelID{"big-lora"}})
	f := start(t, opts)
	for _, m := range []string{"llama-3.1-8b", "llama-3.1-70b", "big-lora"} {
		if status, body := f.post("/v1/chat/completions", chat(m, "hi", `,"max_tokens":3`)); status != 200 {
			t.Errorf("%s: %d %s", m, status, body)
		}
	}
	status, page := f.get(f.url("a", "/metrics"))
	if status != 200 ||
		!strings.Contains(page, `vllm:generation_tokens_total{engine="0",model_name="llama-3.1-8b"} 3`) ||
		!strings.Contains(page, `vllm:generation_tokens_total{engine="1",model_name="llama-3.1-70b"} 6`) {
		t.Errorf("metrics %d:\n%s", status, page)
	}
}
