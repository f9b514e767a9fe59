package gateway

import (
	"strings"
	"testing"

	"anabranch/api/fleet"
)

const podMetrics = `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3
vllm:num_requests_running{engine="1",model_name="n"} 2
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 7
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="n"} 0.5
`

func TestParseSumsEngines(t *testing.T) {
	t.Parallel()
	s, err := parse(strings.NewReader(podMetrics))
	if want := (signals{waiting: 7, running: 5, kvUsage: 0.5}); err != nil || s != want {
		t.Errorf("%+v, %v; want %+v", s, err, want)
	}
	for name, page := range map[string]string{
		"empty":   "",
		"partial": "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n",
		"garbage": "{}}{",
	} {
		if s, err := parse(strings.NewReader(page)); err == nil {
			t.Errorf("%s: %+v, want an error", name, s)
		}
	}
}

func testPool(loads ...signals) *pool {
	p := &pool{queueThreshold: 5, kvThreshold: 0.8}
	for i, s := range loads {
		id := string(rune('a' + i))
		p.members = append(p.members, &member{Endpoint: Endpoint{ID: fleet.EndpointID(id)}, host: id + ":1", ready: true, signals: s})
	}
	return p
}

func TestPickTakesTheLeastLoaded(t *testing.T) {
	t.Parallel()
	p := testPool(signals{waiting: 4, running: 8}, signals{running: 6}, signals{waiting: 1, running: 8})
	if m := p.pick(nil); m.ID != "b" || m.inFlight != 1 {
		t.Errorf("picked %s with %d in flight", m.ID, m.inFlight)
	}
	if m := p.pick(map[fleet.EndpointID]bool{"b": true}); m.ID != "c" {
		t.Errorf("picked %s, want the next best of those not tried", m.ID)
	}
	p.members[1].ready = false
	if m := p.pick(nil); m.ID != "c" {
		t.Errorf("picked %s, which is not ready", m.ID)
	}
	if m := p.pick(map[fleet.EndpointID]bool{"a": true, "c": true}); m != nil {
		t.Errorf("picked %s, all were tried", m.ID)
	}
}

func TestBurstBetweenScrapesSpreads(t *testing.T) {
	t.Parallel()
	p := testPool(signals{}, signals{}, signals{})
	for range 60 {
		p.pick(nil)
	}
	for _, m := range p.members {
		if m.inFlight != 20 {
			t.Errorf("%s has %d of 60", m.ID, m.inFlight)
		}
	}
	for _, m := range p.members {
		for range 20 {
			p.release(m)
		}
		if m.load() != 0 {
			t.Errorf("%s still has load %v", m.ID, m.load())
		}
	}
}

func TestReadinessEndsByMissesAndComesBackByAScrape(t *testing.T) {
	t.Parallel()
	p := testPool(signals{})
	m := p.members[0]
	p.miss(m, false)
	if !m.ready {
		t.Error("one slow scrape is enough to be out")
	}
	p.miss(m, false)
	if m.ready {
		t.Error("still ready after two")
	}
	p.observe(m, signals{waiting: 1})
	if !m.ready || m.misses != 0 {
		t.Errorf("after a scrape: ready %v, %d misses", m.ready, m.misses)
	}
	p.miss(m, true)
	if m.ready {
		t.Error("still ready after a refused connection")
	}
}

func TestViewIsTheMeanOfReadyPods(t *testing.T) {
	t.Parallel()
	p := testPool(signals{waiting: 10, running: 4, kvUsage: 0.4}, signals{waiting: 0, running: 2, kvUsage: 0.8}, signals{waiting: 99})
	p.members[2].ready = false
	v := p.view()
	if v.ready != 2 || v.waiting != 5 || v.running != 3 || v.saturation != 1.5 || len(v.queues) != 2 || v.queues["a:1"] != 10 {
		t.Errorf("view %+v", v)
	}
	p.members[0].ready, p.members[1].ready = false, false
	if v := p.view(); v.ready != 0 || v.saturation != 1 || v.waiting != 0 {
		t.Errorf("empty view %+v", v)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat("0123456789", 2000)
	for _, piece := range []int{1, 7, 1000, 4095, 4096, 4097, 20000} {
		var got tail
		for rest := whole; rest != ""; {
			n := min(piece, len(rest))
			got.add([]byte(rest[:n]))
			rest = rest[n:]
		}
		if want := whole[len(whole)-maxTail:]; string(got.bytes()) != want {
			t.Errorf("in pieces of %d: %d bytes, want the last %d", piece, len(got.bytes()), maxTail)
		}
	}
}

func TestUsageOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		prompt, cached int
		ok             bool
	}{
		`{"usage":{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}`: {12, 8, true},
		`{"usage": {"prompt_tokens": 12, "completion_tokens": 3}}`:                                         {12, 0, true},
		`data: {"usage":{"prompt_tokens":1}}` + "\n\n" + `data: {"usage":{"prompt_tokens":2}}`:             {2, 0, true},
		`{"usage":null}`:                         {},
		`{"usage":{"prompt_tokens":`:             {},
		``:                                       {},
		`{"prompt_tokens":99999999999999999999}`: {},
	} {
		prompt, cached, ok := usageOf([]byte(text))
		if prompt != want.prompt || cached != want.cached || ok != want.ok {
			t.Errorf("%s: %d, %d, %v", text, prompt, cached, ok)
		}
	}
}

func TestModelLabelsAreBounded(t *testing.T) {
	t.Parallel()
	open := newMetrics(Options{Name: "pool"})
	for i := range 200 {
		open.model("model-" + strings.Repeat("x", i))
	}
	if len(open.known) > maxModels || open.model("one too many") != "unknown" || open.model("model-x") != "model-x" {
		t.Errorf("%d models known", len(open.known))
	}
	fixed := newMetrics(Options{Name: "pool", Models: []fleet.ModelID{"m"}})
	if fixed.model("m") != "m" || fixed.model("n") != "unknown" || fixed.model("") != "unknown" {
		t.Error("a fixed list is not what counts")
	}
}

func TestValidateNamesTheOption(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*Options){
		"name":             func(o *Options) { o.Name = "" },
		"listen":           func(o *Options) { o.Listen = "" },
		"endpoints: name":  func(o *Options) { o.Endpoints = nil },
		"endpoints[0].id":  func(o *Options) { o.Endpoints[0].ID = "" },
		"is there twice":   func(o *Options) { o.Endpoints = append(o.Endpoints, o.Endpoints[0]) },
		"endpoints[0].url": func(o *Options) { o.Endpoints[0].URL = "localhost:1" },
		"http://host:port": func(o *Options) { o.Endpoints[0].URL = "https://localhost:1" },
	} {
		o := Options{Name: "pool", Listen: "127.0.0.1:0", Endpoints: []Endpoint{{"a", "http://127.0.0.1:1"}}}
		spoil(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestListenSaysWhatIsTaken(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	for what, o := range map[string]Options{
		"listen:":             {Listen: f.Addr()},
		"listen for metrics:": {Listen: "127.0.0.1:0", Metrics: f.Addr()},
	} {
		o.Name, o.Endpoints = "pool", []Endpoint{{"a", "http://127.0.0.1:1"}}
		g, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Run(t.Context()); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want %q, got %v", what, err)
		}
	}
}
