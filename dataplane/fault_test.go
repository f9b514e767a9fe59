package dataplane

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"anabranch/api/routerpb"
)

// pair is a world of two clusters in one region: all requests want the first.
func pair(t *testing.T, change func(*routerpb.Table)) (w *world, first, second *stub) {
	t.Helper()
	first, second = newStub(t, answers), newStub(t, answers)
	w = newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{first}},
		{id: "us-b", region: us, weight: 0, endpoints: []*stub{second}},
	}, change)
	return w, first, second
}

// moved points a cluster of the table at another address.
func (w *world) moved(cluster, url string) {
	for _, c := range w.table.Clusters {
		if c.Id == cluster {
			c.Endpoints[0].Url = url
		}
	}
	w.apply()
}

// Whatever a place does before the first content, the client gets a whole answer from another, and
// is charged for one.
func TestFaultsBeforeContentAreAnsweredElsewhere(t *testing.T) {
	silent := func(parts ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			send(w, parts...)
			w.(http.Flusher).Flush()
			hangs(w, r)
		}
	}
	for name, c := range map[string]struct {
		does   http.HandlerFunc
		dead   bool
		code   string
		stream bool // only when streamed
	}{
		"dead":              {dead: true, code: "connect_failed"},
		"reset":             {does: func(http.ResponseWriter, *http.Request) { cut() }, code: "upstream_reset"},
		"503":               {does: says(503), code: "upstream_error"},
		"500":               {does: says(500), code: "upstream_error"},
		"429":               {does: says(429), code: "endpoint_busy"},
		"no header":         {does: hangs, code: "first_byte_timeout", stream: true},
		"a header, no more": {does: silent(), code: "first_byte_timeout", stream: true},
		"a role, no more":   {does: silent(role), code: "first_byte_timeout", stream: true},
		"a role, then cut":  {does: func(w http.ResponseWriter, _ *http.Request) { send(w, role); cut() }, code: "upstream_truncated", stream: true},
		"an answer cut short": {does: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, whole[:30])
			w.(http.Flusher).Flush()
			cut()
		}, code: "upstream_truncated"},
	} {
		for kind, body := range map[string]string{"stream": askStream, "whole": askWhole} {
			if c.stream && kind == "whole" {
				continue
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				w, first, second := pair(t, nil)
				if c.dead {
					w.moved("us-a", "http://"+refusing(t))
				} else {
					first.does(c.does)
				}
				r := w.ask(us, "globex", body)
				if r.status != 200 || r.err != nil || strings.Count(r.body, `"tok"`) != map[string]int{"stream": 3, "whole": 0}[kind] {
					t.Fatalf("%d %q, %v", r.status, r.body, r.err)
				}
				if r.header.Get("X-Anabranch-Cluster") != "us-b" || r.header.Get("X-Anabranch-Attempts") != "2" {
					t.Errorf("answered by %s after %s attempts", r.header.Get("X-Anabranch-Cluster"), r.header.Get("X-Anabranch-Attempts"))
				}
				rec := w.record(us, r)
				if len(rec.Attempts) != 2 || rec.Attempts[0].Code != c.code || rec.Attempts[0].Cluster != "us-a" || rec.Attempts[1].Code != "" {
					t.Errorf("attempts %+v, want the first to be %s", rec.Attempts, c.code)
				}
				if second.requests.Load() != 1 {
					t.Errorf("the second place got %d requests", second.requests.Load())
				}
				w.idle()
				stop := w.run()
				if got := w.settled(stop, "q-tokens"); got != 14 {
					t.Errorf("charged %d tokens, want the 14 that were used", got)
				}
				if got := w.ledger.total("q-requests"); got != 1 {
					t.Errorf("charged %d requests", got)
				}
			})
		}
	}
}

func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestWhatIsCutAfterContentEndsWithAnErrorAndIsCharged(t *testing.T) {
	w, first, second := pair(t, nil)
	first.does(func(rw http.ResponseWriter, _ *http.Request) { send(rw, role, content, content); cut() })
	r := w.ask(us, "globex", askStream)
	if r.status != 200 || r.err == nil {
		t.Errorf("%d, %v: the client takes it for whole", r.status, r.err)
	}
	if !strings.HasPrefix(r.body, role+content+content+"data: {\"error\"") || strings.Contains(r.body, "[DONE]") {
		t.Errorf("body %q", r.body)
	}
	if e := r.problem(t); e["code"] != "stream_broken" || e["origin"] != "endpoint" {
		t.Errorf("error %v", e)
	}
	if second.requests.Load() != 0 {
		t.Error("it was tried again after content")
	}
	rec := w.record(us, r)
	if !rec.Broken || rec.Code != "stream_broken" || rec.Usage.Completion != 2 {
		t.Errorf("record %+v", rec)
	}
	w.idle()
	stop := w.run()
	// The prompt is charged as estimated, and the two tokens that came.
	if got, want := w.settled(stop, "q-tokens"), rec.PromptTokens+2; got != want {
		t.Errorf("charged %d tokens, want %d", got, want)
	}
}

func TestWhenNothingAnswersTheLastFailureIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		does         http.HandlerFunc
		status       int
		code, origin string
		requests     int64 // charged
	}{
		"errors": {says(500), 502, "upstream_error", "endpoint", 1},
		"busy":   {says(429), 503, "no_capacity", "endpoint", 1},
		"silent": {hangs, 504, "first_byte_timeout", "router", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, first, second := pair(t, nil)
			first.does(c.does)
			second.does(c.does)
			r := w.ask(us, "globex", askStream)
			e := r.problem(t)
			if r.status != c.status || e["code"] != c.code || e["origin"] != c.origin {
				t.Errorf("%d %v", r.status, e)
			}
			if r.header.Get("X-Anabranch-Attempts") != "2" {
				t.Errorf("%s attempts", r.header.Get("X-Anabranch-Attempts"))
			}
			if c.status == 503 && r.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			w.idle()
			stop := w.run()
			if got := w.settled(stop, "q-tokens"); got != 0 {
				t.Errorf("charged %d tokens for nothing", got)
			}
			if got := w.ledger.total("q-requests"); got != c.requests {
				t.Errorf("charged %d requests, want %d", got, c.requests)
			}
		})
	}
}

func TestWhatNoServerSawIsNotCharged(t *testing.T) {
	w, _, _ := pair(t, nil)
	w.moved("us-a", "http://"+refusing(t))
	w.moved("us-b", "http://"+refusing(t))
	if r := w.ask(us, "globex", askWhole); r.status != 503 || r.problem(t)["code"] != "connect_failed" || r.header.Get("Retry-After") != "1" {
		t.Errorf("%d %q", r.status, r.body)
	}
	if r := w.ask(us, "globex", `{"model":"lonely"}`); r.status != 503 {
		t.Errorf("%d %q", r.status, r.body)
	}
	w.idle()
	stop := w.run()
	if got := w.settled(stop, "q-requests"); got != 0 {
		t.Errorf("charged %d requests", got)
	}
}

func TestAMistakeOfTheClientIsTriedOnce(t *testing.T) {
	w, first, second := pair(t, nil)
	first.does(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(rw, `{"error":{"message":"context too long"}}`)
	})
	r := w.ask(us, "globex", askWhole)
	if r.status != 400 || !strings.Contains(r.body, "context too long") || second.requests.Load() != 0 {
		t.Errorf("%d %q, %d at the second", r.status, r.body, second.requests.Load())
	}
	stop := w.run()
	if got := w.settled(stop, "q-tokens"); got != 0 {
		t.Errorf("charged %d tokens", got)
	}
}

func TestALeavingClientFreesThePlaceAndIsSettled(t *testing.T) {
	for name, c := range map[string]struct {
		does   http.HandlerFunc
		tokens int64 // charged beside the prompt
	}{
		"during prefill": {hangs, 0},
		"mid-stream":     {func(w http.ResponseWriter, r *http.Request) { send(w, role, content); hangs(w, r) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{})
			w, first, second := pair(t, func(pb *routerpb.Table) { pb.Classes[0].FirstByteFloorMs = 60000 })
			first.does(func(rw http.ResponseWriter, r *http.Request) {
				close(arrived)
				c.does(rw, r)
			})
			ctx, leave := context.WithCancel(context.Background())
			q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.routers[us].front.URL+"/v1/chat/completions", strings.NewReader(askStream))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer globex-key")
			got := make(chan error, 1)
			content := make(chan struct{}, 1)
			go func() {
				res, err := http.DefaultClient.Do(q)
				if err == nil {
					content <- struct{}{}
					_, err = io.ReadAll(res.Body)
					res.Body.Close()
				}
				got <- err
			}()
			<-arrived
			if c.tokens > 0 {
				<-content
			}
			leave()
			if err := <-got; !errors.Is(err, context.Canceled) {
				t.Errorf("the client: %v", err)
			}
			w.eventually("the place is told", func() bool { return first.left.Load() == 1 })
			w.idle()
			if second.requests.Load() != 0 {
				t.Error("it was tried elsewhere for nobody")
			}
			n := w.routers[us]
			w.eventually("it is recorded", func() bool { return n.explain.next.Load() == 1 })
			rec := n.explain.slots[0].Load()
			if !rec.ClientGone || rec.Code != "client_gone" || n.failed.Load() != 0 {
				t.Errorf("record %+v, %d failures", rec, n.failed.Load())
			}
			want := rec.PromptTokens + c.tokens
			stop := w.run()
			if got := w.settled(stop, "q-tokens"); got != want {
				t.Errorf("charged %d tokens, want %d", got, want)
			}
		})
	}
}

func TestTwoEndpointsOfAClusterAreTriedBeforeTheNextCluster(t *testing.T) {
	bad1, bad2, bad3, good := newStub(t, says(500)), newStub(t, says(500)), newStub(t, says(500)), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{bad1, bad2, bad3}},
		{id: "us-b", region: us, weight: 0, endpoints: []*stub{good}},
	}, nil)
	r := w.ask(us, "acme", askWhole)
	if r.status != 200 || r.header.Get("X-Anabranch-Attempts") != "3" {
		t.Errorf("%d after %s attempts", r.status, r.header.Get("X-Anabranch-Attempts"))
	}
	if n := bad1.requests.Load() + bad2.requests.Load() + bad3.requests.Load(); n != 2 {
		t.Errorf("%d requests at the first cluster", n)
	}
	for _, s := range []*stub{bad1, bad2, bad3} {
		if s.requests.Load() > 1 {
			t.Error("one endpoint was tried twice")
		}
	}
	good.does(says(500))
	r = w.ask(us, "acme", askWhole)
	if r.status != 502 || r.header.Get("X-Anabranch-Attempts") != "4" {
		t.Errorf("%d after %s attempts, want every endpoint tried once", r.status, r.header.Get("X-Anabranch-Attempts"))
	}
}

func TestTheRequestsDeadlineIsTold(t *testing.T) {
	w, first, second := pair(t, func(pb *routerpb.Table) {
		pb.Classes[0].RequestTimeoutMs, pb.Classes[0].FirstByteFloorMs = 100, 60000
	})
	first.does(hangs)
	r := w.ask(us, "acme", askStream)
	if r.status != 504 || r.problem(t)["code"] != "deadline_exceeded" || second.requests.Load() != 0 {
		t.Errorf("%d %q", r.status, r.body)
	}
	w.eventually("the place is told", func() bool { return first.left.Load() == 1 })
	w.idle()
}

// A place that hangs takes requests that are not streamed with it for as long as their answers
// might take; they leave when it is found dead.
// A dead place is left within a second of the first failure, and found again by canaries.
