package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// event writes one server-sent event and sends it off.
func event(w http.ResponseWriter, data string) {
	_, _ = fmt.Fprintf(w, "data: %s\n\n", data) // a test's client that left
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

const (
	role    = `{"choices":[{"delta":{"role":"assistant"}}]}`
	content = `{"choices":[{"delta":{"content":"wet"}}]}`
	broken  = `{"error":{"message":"gone","type":"server_error","code":"stream_broken","origin":"endpoint"}}`
)

func TestAnswersAreJudgedForWhatTheClientGot(t *testing.T) {
	whole := `{"choices":[{"message":{"content":"wet"}}]}`
	for name, c := range map[string]struct {
		stream bool
		answer http.HandlerFunc
		want   Outcome
		reason string
	}{
		"whole": {false, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, whole) }, OK, ""},
		"whole without content": {
			false, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"choices":[]}`) },
			Failed, "answer without content",
		},
		"whole that is cut": {
			false, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				_, _ = fmt.Fprint(w, whole[:10])
			}, Failed, "answer cut: unexpected EOF",
		},
		"stream": {
			true, func(w http.ResponseWriter, _ *http.Request) {
				event(w, role)
				event(w, content)
				event(w, "[DONE]")
			}, OK, "",
		},
		"stream without content": {
			true, func(w http.ResponseWriter, _ *http.Request) { event(w, role); event(w, "[DONE]") },
			Failed, "stream without content",
		},
		"stream broken after content, told": {
			true, func(w http.ResponseWriter, _ *http.Request) { event(w, content); event(w, broken) },
			Broken, "stream error stream_broken from endpoint",
		},
		"stream broken before content": {
			true, func(w http.ResponseWriter, _ *http.Request) { event(w, role); event(w, broken) },
			Failed, "stream error stream_broken from endpoint",
		},
		"stream broken after content, not told": {
			true, func(w http.ResponseWriter, _ *http.Request) { event(w, content) },
			Failed, "stream ended without [DONE] or an error event",
		},
		"stream of something else": {
			true, func(w http.ResponseWriter, _ *http.Request) { event(w, "<html>") },
			Failed, "stream with an event that is no JSON",
		},
		"over quota": {
			false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, Limited, "",
		},
		"no target": {
			true, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = fmt.Fprint(w, `{"error":{"message":"m","code":"no_target","origin":"router"}}`)
			}, Failed, "HTTP 503 no_target from router",
		},
		"a proxy's own page": {
			true, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
			Failed, "HTTP 502 not in the shape of an error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Anabranch-Region", "eu")
				w.Header().Set("X-Anabranch-Attempts", "2")
				w.Header().Set("X-Anabranch-Request-Id", "us-r1-7")
				c.answer(w, r)
			}))
			defer server.Close()
			got := send(t.Context(), server.Client(), request{region: "us", url: server.URL, stream: c.stream})
			if got.Outcome != c.want || got.Reason != c.reason {
				t.Errorf("outcome %d, reason %q; want %d, %q", got.Outcome, got.Reason, c.want, c.reason)
			}
			if got.Region != "us" || got.Served != "eu" || got.Attempts != 2 || got.RequestID != "us-r1-7" || got.Latency <= 0 {
				t.Errorf("result %+v", got)
			}
			if firstToken := got.TTFT > 0; firstToken != (c.stream && (c.want == OK || c.want == Broken || strings.Contains(name, "not told"))) {
				t.Errorf("TTFT %v", got.TTFT)
			}
		})
	}
}

func TestRefusedConnectionFailsWithoutItsAddress(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	got := send(t.Context(), server.Client(), request{region: "us", url: server.URL})
	if got.Outcome != Failed || got.Reason != "connection refused" {
		t.Errorf("%+v", got)
	}
}

// door is a router that answers everything and remembers what it was asked.
type door struct {
	mu     sync.Mutex // guards asked
	asked  []asked
	answer atomic.Pointer[http.HandlerFunc]
}

type asked struct {
	key, session, model string
	stream              bool
	turns               []message
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model     string    `json:"model"`
		Stream    bool      `json:"stream"`
		MaxTokens int       `json:"max_tokens"`
		Messages  []message `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.MaxTokens <= 0 {
		http.Error(w, "bad body", http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	d.asked = append(d.asked, asked{
		r.Header.Get("Authorization"), r.Header.Get("X-Anabranch-Session"), body.Model, body.Stream, body.Messages,
	})
	d.mu.Unlock()
	w.Header().Set("X-Anabranch-Region", "us")
	if h := d.answer.Load(); h != nil {
		(*h)(w, r)
		return
	}
	if body.Stream {
		event(w, content)
		event(w, "[DONE]")
		return
	}
	_, _ = fmt.Fprint(w, `{"choices":[{"message":{"content":"wet"}}]}`)
}

func open(t *testing.T) (*door, Options) {
	t.Helper()
	d := &door{}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	return d, Options{
		Routers: []Router{{"us", server.URL}, {"eu", server.URL}},
		Keys:    map[string]string{"acme": "k1", "globex": "k2"}, RPS: MaxRPS, Max: 300,
		Duration: time.Minute, StreamRatio: -1, Seed: 7,
	}
}

// draw takes n requests from the mix, each answered at once.
func draw(t *testing.T, o Options, n int) []*talk {
	t.Helper()
	m := newMix(o.withDefaults())
	var all []*talk
	for range n {
		next := m.next()
		seen := *next
		seen.turns = slices.Clone(next.turns)
		all = append(all, &seen)
		m.done(next, Result{Outcome: OK, text: "wet"})
	}
	return all
}

func TestRunSendsAndCountsEverything(t *testing.T) {
	d, o := open(t)
	sum, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Total.Finished != 300 || sum.Total.OK != 300 || sum.Skipped != 0 || len(d.asked) != 300 {
		t.Fatalf("%d asked, summary %+v", len(d.asked), sum)
	}
	for _, a := range d.asked {
		if a.key != "Bearer k1" && a.key != "Bearer k2" || a.session == "" || !slices.ContainsFunc(models, func(m model) bool { return m.name == a.model }) {
			t.Errorf("asked %+v", a)
		}
	}
	if sum.Regions[0].Finished+sum.Regions[1].Finished != 300 || sum.Regions[0].Finished < 75 || sum.Regions[1].Finished < 75 {
		t.Errorf("regions %+v", sum.Regions)
	}
}

func TestMixHoldsSomeOfEverything(t *testing.T) {
	_, o := open(t)
	o.Shares = map[string]float64{"acme": 5, "globex": 1}
	count := map[string]int{}
	for _, talk := range draw(t, o, 600) {
		count[talk.tenant]++
		count[talk.model]++
		count[fmt.Sprint("stream ", talk.request.stream)]++
		if len(talk.turns) > 2 {
			count["later turns"]++
		}
		if talk.turns[0].Role != "system" || talk.turns[len(talk.turns)-1].Role != "user" || len(talk.turns) > maxTurns {
			t.Errorf("turns %v", talk.turns)
		}
	}
	for what, bounds := range map[string][2]int{
		"acme": {400, 580}, "globex": {20, 200}, "stream true": {360, 480}, "stream false": {120, 240},
		"llama-3.1-8b": {240, 480}, "llama-3.1-70b": {20, 200}, "support-lora": {20, 200}, "legal-lora": {10, 160},
		"later turns": {300, 500},
	} {
		if n := count[what]; n < bounds[0] || n > bounds[1] {
			t.Errorf("%s: %d of 600, want %v", what, n, bounds)
		}
	}
}

func TestConversationsShareTheirSystemPrompt(t *testing.T) {
	_, o := open(t)
	prompts, sessions := map[string]bool{}, map[string]bool{}
	for _, talk := range draw(t, o, 600) {
		prompts[talk.turns[0].Content] = true
		sessions[talk.request.session] = true
	}
	if most := 4 * len(models) * len(o.Keys); len(prompts) > most || len(sessions) <= len(prompts) {
		t.Errorf("%d prompts in %d sessions, want at most %d and fewer than sessions", len(prompts), len(sessions), most)
	}
}

func TestAConversationThatFailedOrHasSaidAllEnds(t *testing.T) {
	_, o := open(t)
	m := newMix(o.withDefaults())
	first := m.next()
	m.done(first, Result{Outcome: Failed})
	for range 50 {
		if next := m.next(); next == first {
			t.Fatal("a conversation that failed goes on")
		}
	}
	long := m.next()
	long.turns = make([]message, maxTurns-1)
	m.done(long, Result{Outcome: OK})
	if slices.Contains(m.idle[long.router.Region], long) {
		t.Error("a conversation that has said all goes on")
	}
}

func TestSameSeedAsksTheSame(t *testing.T) {
	_, o := open(t)
	one, two := draw(t, o, 50), draw(t, o, 50)
	o.Seed++
	other := draw(t, o, 50)
	same := func(a, b *talk) bool { return string(a.request.body) == string(b.request.body) }
	if !slices.EqualFunc(one, two, same) {
		t.Error("two runs of one seed differ")
	}
	if slices.EqualFunc(one, other, same) {
		t.Error("another seed asks the same")
	}
}

func TestEverySecondIsTold(t *testing.T) {
	_, o := open(t)
	var told, finished int
	o.Each = func(second int, rows []Row) {
		told++
		if second != told || len(rows) != 2 {
			t.Errorf("second %d after %d, rows %+v", second, told-1, rows)
		}
		finished += rows[0].Finished + rows[1].Finished
	}
	sum, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if told == 0 || finished != sum.Total.Finished {
		t.Errorf("told %d seconds with %d requests of %d", told, finished, sum.Total.Finished)
	}
}

func TestCancelDropsWhatIsInFlight(t *testing.T) {
	d, o := open(t)
	started, once := make(chan struct{}), sync.Once{}
	hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(started) })
		<-r.Context().Done()
	})
	d.answer.Store(&hang)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	sum, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Total.Finished != 0 {
		t.Errorf("requests that were dropped count: %+v", sum.Total)
	}
}

func TestDurationEndsTheRun(t *testing.T) {
	_, o := open(t)
	o.Max, o.Duration, o.RPS = 0, 50*time.Millisecond, 200
	sum, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if sum.Total.Finished > 40 || sum.Total.Failed > 0 {
		t.Errorf("%+v", sum.Total)
	}
}

func TestOptionsAreCheckedByName(t *testing.T) {
	good := Options{Routers: routers, Keys: map[string]string{"acme": "k"}}
	for field, change := range map[string]func(*Options){
		"routers":      func(o *Options) { o.Routers = nil },
		"tenants":      func(o *Options) { o.Keys = nil },
		"rps":          func(o *Options) { o.RPS = MaxRPS + 1 },
		"duration":     func(o *Options) { o.Duration = -1 },
		"max":          func(o *Options) { o.Max = -1 },
		"stream-ratio": func(o *Options) { o.StreamRatio = 1.5 },
		"shares":       func(o *Options) { o.Shares = map[string]float64{"acme": -1} },
	} {
		o := good
		change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), field+":") {
			t.Errorf("%s: Run = %v", field, err)
		}
	}
	if err := good.Validate(); err != nil {
		t.Errorf("good options: %v", err)
	}
}
