package dataplane

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
)

// timed is a writer that remembers the bound of its request's body.
type timed struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (w *timed) SetReadDeadline(t time.Time) error {
	w.until = t
	return nil
}

// A server reads what is left of a body before it answers. Without a bound anybody could keep a
// connection for good by announcing a body and sending none.
func TestABodyThatNobodyWantsIsNotWaitedForLong(t *testing.T) {
	w, _ := one(t)
	for name, c := range map[string]struct{ method, path, key string }{
		"no key":         {"POST", "/v1/chat/completions", ""},
		"unknown path":   {"POST", "/admin", "acme-key"},
		"another method": {"PUT", "/v1/chat/completions", "acme-key"},
		"models":         {"GET", "/v1/models", "acme-key"},
		"too large":      {"POST", "/v1/chat/completions", "acme-key"},
	} {
		t.Run(name, func(t *testing.T) {
			q := httptest.NewRequest(c.method, c.path, strings.NewReader("x"))
			q.ContentLength = maxBody + 1
			q.Header.Set("Authorization", "Bearer "+c.key)
			answer := &timed{ResponseRecorder: httptest.NewRecorder()}
			w.routers[us].Front().ServeHTTP(answer, q)
			if left := time.Until(answer.until); left <= 0 || left > bodyWithin {
				t.Errorf("status %d, and the body may take %v", answer.Code, left)
			}
		})
	}
}

func TestAWholeBodyEndsTheBoundOfItsTime(t *testing.T) {
	w, _ := one(t)
	q := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(askWhole))
	q.Header.Set("Authorization", "Bearer acme-key")
	answer := &timed{ResponseRecorder: httptest.NewRecorder(), until: time.Now()}
	w.routers[us].Front().ServeHTTP(answer, q)
	if answer.Code != http.StatusOK || !answer.until.IsZero() {
		t.Errorf("status %d, bound at %v", answer.Code, answer.until)
	}
}

// piecewise is a body that notes how much room is made for it.
type piecewise struct {
	io.Reader
	rooms []int
}

func (p *piecewise) Read(b []byte) (int, error) {
	p.rooms = append(p.rooms, len(b))
	return p.Reader.Read(b)
}

func TestRoomForABodyIsMadeAsItComes(t *testing.T) {
	for _, size := range []int{0, 1, firstPiece, firstPiece + 1, 1 << 20, maxBody} {
		want := bytes.Repeat([]byte("x"), size)
		body := &piecewise{Reader: bytes.NewReader(want)}
		q := httptest.NewRequest(http.MethodPost, "/", body)
		q.ContentLength = int64(size)
		held := (&bodies{most: 1 << 30}).holding("acme")
		got, problem := readBody(httptest.NewRecorder(), q, &held)
		if problem != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %d, %v", size, len(got), problem)
		}
		if body.rooms[0] > firstPiece+1 {
			t.Errorf("%d bytes: room for %d before any came", size, body.rooms[0])
		}
		if cap(got) > size+size/2+1<<10 {
			t.Errorf("%d bytes: room for %d at the end", size, cap(got))
		}
	}
}

func TestALongPathIsRecordedInPart(t *testing.T) {
	w, _ := one(t)
	r := w.get(http.MethodPost, w.routers[us].front.URL+"/v1/"+strings.Repeat("x", 10_000), "acme", askWhole)
	if rec := w.record(us, r); len(rec.Path) != recordedPath {
		t.Errorf("%d bytes of the path are kept", len(rec.Path))
	}
}

func TestWithoutACredentialNothingIsCharged(t *testing.T) {
	s := newStub(t, answers)
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, func(pb *routerpb.Table) {
		pb.Clusters[0].Auth = []*routerpb.Credential{{Type: "bearer", Env: "NOT_SET"}}
	})
	if r := w.ask(us, "globex", askWhole); r.problem(t)["code"] != "credential_missing" {
		t.Errorf("%d %q", r.status, r.body)
	}
	w.idle()
	stop := w.run()
	if got := w.settled(stop, "q-requests"); got != 0 {
		t.Errorf("charged %d requests that nobody saw", got)
	}
}

// The first event of a messages stream tells of one output token, the last of all. What ends between
// is charged by what came.
func TestAnAnswerCutShortIsChargedByWhatCame(t *testing.T) {
	const (
		start = `data: {"type":"message_start","message":{"usage":{"input_tokens":11,"output_tokens":1}}}` + "\n\n"
		delta = `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"tok"}}` + "\n\n"
	)
	w, first, _ := pair(t, nil)
	first.does(func(rw http.ResponseWriter, _ *http.Request) { send(rw, start, delta, delta, delta); cut() })
	r := w.get(http.MethodPost, w.routers[us].front.URL+"/v1/messages", "globex", `{"model":"llama","stream":true,"messages":[]}`)
	if rec := w.record(us, r); !rec.Broken || rec.Usage.Completion != 3 || rec.Usage.Prompt != 11 {
		t.Errorf("record %+v", rec)
	}
	w.idle()
	stop := w.run()
	if got := w.settled(stop, "q-tokens"); got != 11+3 {
		t.Errorf("charged %d tokens, want 14", got)
	}
}

func TestWhatHasNoOutputIsNotChargedForIt(t *testing.T) {
	w, s := one(t)
	s.does(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"data":[],"usage":{"prompt_tokens":9,"total_tokens":9}}`)
	})
	w.get(http.MethodPost, w.routers[us].front.URL+"/v1/embeddings", "globex", `{"model":"llama","input":"x"}`)
	w.idle()
	stop := w.run()
	if got := w.settled(stop, "q-tokens"); got != 9 {
		t.Errorf("charged %d tokens, want 9", got)
	}
}

// What external APIs keep, bill or hand out keys to is not for tenants to change.
func TestAccountsOfProvidersAreNotTheTenants(t *testing.T) {
	s := newStub(t, answers)
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, nil)
	for _, path := range []string{"/v1/realtime/sessions", "/v1/fine_tuning/jobs", "/v1/assistants", "/v1/realtime/client_secrets", "/v1/%66ine_tuning/jobs"} {
		if r := w.get(http.MethodPost, w.routers[us].front.URL+path, "acme", askWhole); r.status != 404 {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	if r := w.get(http.MethodPost, w.routers[us].front.URL+"/v1/images/generations", "acme", askWhole); r.status != 200 {
		t.Errorf("images: %d", r.status)
	}
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests at the place", n)
	}
}

func TestStrangersDoNotPushRecordsOut(t *testing.T) {
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}}}, nil)
	w.ask(us, "", askWhole)
	w.get(http.MethodGet, w.routers[us].front.URL+"/robots.txt", "", "")
	if n := w.routers[us].explain.next.Load(); n != 0 {
		t.Errorf("%d records", n)
	}
}

func TestWhatQuotasDenyIsNoDemand(t *testing.T) {
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}}}, nil)
	w.run()
	w.ledger.denies(true)
	if r := w.ask(us, "globex", askWhole); r.status != http.StatusTooManyRequests {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if d := w.routers[us].Report(time.Now()).Demand; len(d) != 0 {
		t.Errorf("demand %v", d)
	}
}

func TestAClusterWithoutACredentialCostsNoBudget(t *testing.T) {
	good := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers), newStub(t, answers)}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{good}},
	}, member("us-a", func(c *routerpb.Cluster) { c.Auth = []*routerpb.Credential{{Type: "bearer", File: "/nowhere/token"}} }))
	spend(w.routers[us], "us-b")
	for range 3 {
		if r := w.ask(us, "acme", askWhole); r.status != 200 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
}

// Whoever has no key can't make the share of failures look small.
func TestStrangersAreNotReported(t *testing.T) {
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, says(500))}}}, nil)
	w.ask(us, "", askWhole)
	w.ask(us, "acme", askWhole)
	w.idle()
	if got := w.routers[us].Report(time.Now()); got.Requests != 1 || got.Failures != 1 {
		t.Errorf("%d requests, %d failures", got.Requests, got.Failures)
	}
}
