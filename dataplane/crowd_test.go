package dataplane

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"anabranch/api/routerpb"
)

// Many clients at once over places that fail in every way before content: each gets one whole
// answer, each is charged once, and nothing is left counted.
func TestACrowdOverFlakyPlaces(t *testing.T) {
	const clients, each = 16, 12
	flaky := func() *stub {
		var n atomic.Int64
		return newStub(t, func(w http.ResponseWriter, r *http.Request) {
			switch n.Add(1) % 12 {
			case 0, 2, 4, 6:
				cut()
			case 3:
				http.Error(w, "no", http.StatusServiceUnavailable)
			case 9:
				if r.Header.Get("X-Streams") != "" {
					send(w, role)
				}
				cut()
			default:
				answers(w, r)
			}
		})
	}
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{flaky(), flaky(), flaky()}},
		{id: "us-b", region: us, weight: 1, endpoints: []*stub{flaky(), flaky(), flaky()}},
		{id: "us-c", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}},
	}, func(pb *routerpb.Table) {
		pb.Classes[0].FirstByteFloorMs = 20000
		pb.Classes[0].Ejection.MinRequests = 100000 // every place stays in use
		pb.Classes[0].Ejection.ConnectFailures = 100000
	})
	var crowd sync.WaitGroup
	var answered, spent atomic.Int64
	for c := range clients {
		crowd.Go(func() {
			for i := range each {
				body := askWhole
				if (c+i)%2 == 0 {
					body = askStream
				}
				r := w.ask(us, "globex", body)
				switch {
				case r.status == http.StatusOK && r.err == nil && (strings.HasSuffix(r.body, done) || r.body == whole):
					answered.Add(1)
				case r.status == http.StatusBadGateway:
					spent.Add(1) // its budget or its attempts were
				default:
					t.Errorf("%d %q, %v", r.status, r.body, r.err)
				}
			}
		})
	}
	crowd.Wait()
	if n := answered.Load(); n < clients*each*3/4 || n+spent.Load() != clients*each {
		t.Errorf("%d of %d answered, %d not", n, clients*each, spent.Load())
	}
	w.idle()
	stop := w.run()
	if got, want := w.settled(stop, "q-tokens"), 14*answered.Load(); got != want {
		t.Errorf("charged %d tokens, want %d", got, want)
	}
	if got := w.ledger.total("q-requests"); got != clients*each {
		t.Errorf("charged %d requests", got)
	}
}

// counts of answers by cluster.
func (w *world) spread(n int, body func(i int) string, headers ...string) map[string]int {
	w.t.Helper()
	counts := map[string]int{}
	for i := range n {
		counts[w.ask(us, "acme", body(i), headers...).header.Get("X-Anabranch-Cluster")]++
	}
	return counts
}

func halves(t *testing.T) *world {
	return newWorld(t, []site{
		{id: "us-a", region: us, weight: 3, endpoints: []*stub{newStub(t, answers)}},
		{id: "us-b", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}},
	}, func(pb *routerpb.Table) { pb.Classes[0].FirstByteFloorMs = 20000 })
}

func TestShortPromptsAreSpreadByWeight(t *testing.T) {
	w := halves(t)
	counts := w.spread(400, func(int) string { return askWhole })
	// A binomial of 400 at 1/4 stays within 60 and 140 in all but one of some millions of cases.
	if b := counts["us-b"]; b < 60 || b > 140 || counts["us-a"]+b != 400 {
		t.Errorf("spread %v, want three to one", counts)
	}
}

func TestWhatBelongsTogetherStaysTogether(t *testing.T) {
	w := halves(t)
	turn := func(system string) func(int) string {
		return func(i int) string {
			text := fmt.Sprintf(`{"role":"system","content":%q}`, system)
			for j := range i {
				text += fmt.Sprintf(`,{"role":"user","content":"turn %d %s"}`, j, strings.Repeat("x", 600))
			}
			return `{"model":"llama","messages":[` + text + `]}`
		}
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	long := func() string {
		b := make([]byte, 1500)
		for i := range b {
			b[i] = 'a' + byte(rnd.IntN(26))
		}
		return string(b)
	}
	places := map[string]bool{}
	for range 12 {
		counts := w.spread(5, turn(long()))
		if len(counts) != 1 {
			t.Errorf("one conversation went to %v", counts)
		}
		for place := range counts {
			places[place] = true
		}
	}
	if len(places) != 2 {
		t.Errorf("all conversations went to %v", places)
	}
	for _, header := range []string{"X-Anabranch-Session", "X-Amzn-Sagemaker-Prefix-Aware-Id"} {
		if counts := w.spread(10, func(int) string { return askWhole }, header, "s-1"); len(counts) != 1 {
			t.Errorf("one session by %s went to %v", header, counts)
		}
	}
	keyed := func(int) string { return strings.Replace(askWhole, `{`, `{"prompt_cache_key":"k-1",`, 1) }
	if counts := w.spread(10, keyed); len(counts) != 1 {
		t.Errorf("one cache key went to %v", counts)
	}
}

func TestTheModeOfPickingIsThePolicys(t *testing.T) {
	a, b := newStub(t, answers), newStub(t, answers)
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{a, b}}}, func(pb *routerpb.Table) {
		pb.Classes[0].PickMode = "round-robin"
	})
	for range 20 {
		w.ask(us, "acme", askWhole)
	}
	if a.requests.Load() != 10 || b.requests.Load() != 10 {
		t.Errorf("%d and %d requests in turn", a.requests.Load(), b.requests.Load())
	}
}

func TestOtherAPIsPassThrough(t *testing.T) {
	w, s := one(t)
	s.does(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"path":"`+r.URL.RequestURI()+`","usage":{"prompt_tokens":9,"total_tokens":9}}`)
	})
	for path, body := range map[string]string{
		"/v1/embeddings":           `{"model":"llama","input":"x"}`,
		"/v1/completions":          `{"model":"llama","prompt":"x"}`,
		"/v1/responses":            `{"model":"llama","input":"x"}`,
		"/v1/messages?beta=true":   `{"model":"llama","messages":[]}`,
		"/v1/something/of/its/own": `{"model":"llama"}`,
	} {
		r := w.get(http.MethodPost, w.routers[us].front.URL+path, "acme", body)
		if r.status != http.StatusOK || !strings.Contains(r.body, `"path":"`+path+`"`) {
			t.Errorf("%s: %d %q", path, r.status, r.body)
		}
		if got := string(*s.body.Load()); got != body {
			t.Errorf("%s: the place got %s", path, got)
		}
	}
}
