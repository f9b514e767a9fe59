package modelserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/kvevents"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/table"
	"anabranch/failover"
	"anabranch/sim/modelserver"
)

// hearing is a router's registry that follows the events of two endpoints, a and b, but sends
// requests only when told to.
type hearing struct {
	t        *testing.T
	opts     modelserver.Options
	client   *http.Client
	registry *endpoint.Registry
	reg      *prometheus.Registry
	stop     func() // the servers
}

// serve runs the servers; a second time at the same addresses.
func (h *hearing) serve() *modelserver.Server {
	h.t.Helper()
	s, err := modelserver.New(h.opts)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := s.Listen(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	for i, e := range h.opts.Endpoints {
		h.opts.Endpoints[i].Listen = s.Addrs()[e.ID]
		h.opts.Endpoints[i].KVEvents = strings.TrimPrefix(s.EventURLs()[e.ID], "tcp://")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	})
	return s
}

func hear(t *testing.T) *hearing {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	h := &hearing{t: t, client: &http.Client{Transport: transport, Timeout: 20 * time.Second}, reg: prometheus.NewRegistry()}
	h.opts = modelserver.Options{Cluster: "test", Models: []modelserver.Model{{Name: "llama-3.1-8b"}}, TimeScale: 0.001}
	for _, id := range []fleet.EndpointID{"a", "b"} {
		// An L40S has room for 200,000 tokens.
		h.opts.Endpoints = append(h.opts.Endpoints, modelserver.Endpoint{ID: id, Listen: "127.0.0.1:0", Class: "l40s", KVEvents: "127.0.0.1:0"})
	}
	s := h.serve()
	t.Cleanup(func() { h.stop() })
	pb := &routerpb.Table{
		Ref: &routerpb.TableRef{ClusterId: "c", Revision: 1}, Regions: []*routerpb.Region{{Id: "us"}},
		Models:   []*routerpb.Model{{Id: "llama-3.1-8b", OutputWeight: 4}},
		Clusters: []*routerpb.Cluster{{Id: "test", Region: "us", Kind: "endpoints", Models: []string{"llama-3.1-8b"}, HealthCap: 1}},
	}
	for id, url := range s.EventURLs() {
		pb.Clusters[0].Endpoints = append(pb.Clusters[0].Endpoints,
			&routerpb.Endpoint{Id: string(id), Url: "http://" + s.Addrs()[id], Class: "l40s", KvEventsUrl: url})
	}
	tab, err := table.Build(pb)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := kvevents.NewMetrics(h.reg)
	if err != nil {
		t.Fatal(err)
	}
	h.registry = endpoint.New(endpoint.Options{Region: "us", KVEvents: metrics})
	h.registry.Sync(tab)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.registry.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	eventually(t, "both publishers are heard", func() bool {
		return h.count("anabranch_router_kv_publishers", "listening") == 2 && h.count("anabranch_router_kv_publishers", "connecting") == 0
	})
	return h
}

// count is the value of a series with one label.
func (h *hearing) count(name, label string) float64 {
	h.t.Helper()
	all, err := h.reg.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

func (h *hearing) endpoint(id string) *endpoint.Endpoint {
	for _, e := range h.registry.Cluster("test").Endpoints() {
		if string(e.ID) == id {
			return e
		}
	}
	h.t.Fatalf("no endpoint %s", id)
	return nil
}

// prompt of so many tokens, of which each block is the prompt's own.
func prompt(name string, tokens int) string {
	var b strings.Builder
	for i := 0; b.Len() < tokens*4; i++ {
		fmt.Fprintf(&b, "%s %d, ", name, i)
	}
	return b.String()[:tokens*4]
}

func (h *hearing) body(text string) []byte {
	b, err := json.Marshal(map[string]any{"model": "llama-3.1-8b", "prompt": text, "max_tokens": 2})
	if err != nil {
		h.t.Fatal(err)
	}
	return b
}

// load is a prompt as the router sees it.
func (h *hearing) load(text string) endpoint.Load {
	r, err := inference.Read("/v1/completions", h.body(text), 7)
	if err != nil {
		h.t.Fatal(err)
	}
	return endpoint.Load{
		Model: "llama-3.1-8b", PromptTokens: int64(r.PromptBytes / 4), PromptBytes: r.PromptBytes, Blocks: r.Blocks,
	}
}

// direct sends a prompt to an endpoint as somebody else would.
func (h *hearing) direct(id, text string) inference.Usage {
	h.t.Helper()
	url := h.endpoint(id).URL + "/v1/completions"
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, url, strings.NewReader(string(h.body(text))))
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	usage, ok := inference.UsageOf(answer)
	if !ok {
		h.t.Fatalf("%s", answer)
	}
	return usage
}

// send sends a prompt as the router does.
func (h *hearing) send(id, text string) {
	h.t.Helper()
	began := time.Now()
	call := h.endpoint(id).Begin(h.load(text), began)
	usage := h.direct(id, text)
	call.Done(endpoint.Result{Outcome: failover.OK, FirstToken: time.Since(began), Usage: usage}, time.Now())
}

// learn sends prompts as the router does until their blocks are known; the first ones may come before
// the publisher has taken notice of its subscriber.
func (h *hearing) learn(id, text string) {
	h.t.Helper()
	h.send(id, "warm "+id+strings.Repeat(" up", 100))
	h.send(id, "warm "+id+strings.Repeat(" up", 100)) // now the server has told of cached tokens
	const name = "anabranch_router_kv_associations_total"
	before := h.count(name, "associated")
	for i := 0; h.count(name, "associated") == before; i++ {
		if i == 50 {
			h.t.Fatal("nothing is associated")
		}
		h.send(id, prompt(fmt.Sprint("try ", id, i), 2000))
		until := time.Now().Add(2 * kvevents.DefaultGrace)
		eventually(h.t, "the grace ends", func() bool {
			return time.Now().After(until) || h.count(name, "associated") > before
		})
	}
	h.send(id, text)
	eventually(h.t, "the prompt is associated", func() bool { return h.count(name, "associated") >= before+2 })
}

// cached is how many of a prompt's tokens the router believes to be there.
func (h *hearing) cached(id, text string) int64 {
	l := h.load(text)
	c := h.endpoint(id).Candidate(&l, time.Now())
	return c.Cached
}

// best is where the router would send a prompt now.
func (h *hearing) best(text string) string {
	l := h.load(text)
	list, cands := h.registry.Cluster("test").Candidates(&l, time.Now(), nil, nil, nil)
	i, _ := pick.Best(pick.Request{PromptTokens: l.PromptTokens}, cands, pick.PredictedTTFT, 0)
	return string(list[i].ID)
}

// Others send prompts to an endpoint until what this router sent has no room left in its cache. The
// router is told by nothing but events, and goes where half of the prompt is.
func TestRouterHearsWhatIsEvicted(t *testing.T) {
	t.Parallel()
	h := hear(t)
	text := prompt("mine", 60_000)
	h.learn("a", text)
	h.learn("b", text[:len(text)/2])
	eventually(t, "the load is gone", func() bool { return h.best(text) == "a" })
	if at, half := h.cached("a", text), h.cached("b", text); at < 59_000 || half < 29_000 || half > 30_000 {
		t.Fatalf("%d tokens at a and %d at b", at, half)
	}
	for i := range 4 {
		h.direct("a", prompt(fmt.Sprint("somebody else's ", i), 60_000))
	}
	eventually(t, "the router learns that nothing is left", func() bool { return h.cached("a", text) < 1000 })
	if got := h.best(text); got != "b" {
		t.Errorf("the prompt goes to %s", got)
	}
	if half := h.cached("b", text); half < 29_000 {
		t.Errorf("%d tokens at b", half)
	}
	if used := h.direct("a", text).Cached; used > 1000 {
		t.Errorf("%d tokens were there after all", used)
	}
	// What somebody else computes again is known too, and where it was never sent.
	eventually(t, "the router learns that it is back", func() bool { return h.cached("a", text) > 59_000 })
	h.direct("b", text)
	eventually(t, "the router learns that it is at b", func() bool { return h.cached("b", text) > 59_000 })
}

// An endpoint that dies and comes back holds nothing, and says so with its first message.
func TestRouterHearsOfARestart(t *testing.T) {
	t.Parallel()
	h := hear(t)
	text := prompt("mine", 20_000)
	h.learn("a", text)
	if at := h.cached("a", text); at < 19_000 {
		t.Fatalf("%d tokens", at)
	}
	h.stop()
	const name = "anabranch_router_kv_publishers"
	eventually(t, "the publishers are gone", func() bool { return h.count(name, "connecting") == 2 })
	h.serve()
	eventually(t, "the publishers are heard again", func() bool { return h.count(name, "listening") == 2 })
	// Its first message may come before the publisher has taken notice of its subscriber.
	h.direct("a", prompt("first", 500))
	h.direct("a", prompt("second", 500))
	eventually(t, "the router forgets", func() bool { return h.cached("a", text) == 0 })
	if h.count("anabranch_router_kv_event_breaks_total", "restart") == 0 {
		t.Error("no restart was counted")
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(15 * time.Second); !ok(); {
		select {
		case <-end:
			t.Fatalf("not within 15 s: %s", what)
		case <-tick.C:
		}
	}
}
