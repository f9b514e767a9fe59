package proxy

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"anabranch/failover"
)

const (
	role    = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	content = `data: {"choices":[{"index":0,"delta":{"content":"tok"}}]}` + "\n\n"
	finish  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	counted = `data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}` + "\n\n"
	done    = "data: [DONE]\n\n"
	answer  = `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":11,"completion_tokens":3}}`
)

// upstream is a place that does what a test says.
// cut ends the connection without a regular end.
// hang waits until the request is given up.
// front is an edge that makes one attempt for each request, as the router does.
// post returns the status, the body as far as it came, and whether it ended regularly.
// refusing is an address that refuses connections.
// raw is a place that speaks bytes: it reads a request's header, writes, and closes.
// What each fault of a place comes to before content: nothing has reached the client, and the
// result says what to think of the place.
// A stream that breaks after content ends with one error event, and no text comes twice.
func TestAStreamIsRelayedEventByEvent(t *testing.T) {
	next := make(chan struct{})
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for _, p := range []string{role + content, content, finish, counted + done} {
			send(w, p)
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
	})
	f := edge(t, u.URL, nil)
	res, err := http.Post(f.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if ct := res.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("content type %q", ct)
	}
	for _, want := range []string{role + content, content, finish, done} {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(res.Body, got); err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("got %q, want %q before the next event was made", got, want)
		}
		next <- struct{}{}
	}
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) != 0 {
		t.Errorf("then came %q, %v", rest, err)
	}
	r := f.result(t)
	if r.Outcome != failover.OK || !r.Committed || r.Broken || r.Err != nil {
		t.Errorf("result %+v", r)
	}
	if !r.HasUsage || r.Usage.Prompt != 11 || r.Usage.Cached != 8 || r.Usage.Completion != 3 || r.Events != 2 {
		t.Errorf("usage %+v, %d events", r.Usage, r.Events)
	}
	if r.InterToken <= 0 {
		t.Errorf("mean between tokens %v", r.InterToken)
	}
}

func TestTheUsageEventIsForThoseWhoAsked(t *testing.T) {
	whole := role + content + finish + counted + done
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) { send(w, whole) })
	for keep, want := range map[bool]string{true: whole, false: role + content + finish + done} {
		f := edge(t, u.URL, func(a *Attempt) { a.KeepUsage = keep })
		if _, body, err := f.post(t); body != want || err != nil {
			t.Errorf("asked %v: body %q, %v", keep, body, err)
		}
		if r := f.result(t); !r.HasUsage {
			t.Errorf("asked %v: usage is not known", keep)
		}
	}
}

// TestUsageInOtherPlacesPasses: only what does nothing but count is left out for those who did not ask.
func TestUsageInOtherPlacesPasses(t *testing.T) {
	nothing := `data: {"choices":[{"index":0,"delta":{"content":"tok"}}],"usage":null}` + "\n\n"
	ends := `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":1}}` + "\n\n"
	filters := `data: {"choices":[],"prompt_filter_results":[]}` + "\n\n"
	unlisted := `data: {"choices":null,"usage":{"prompt_tokens":11,"completion_tokens":1}}` + "\n\n"
	for name, c := range map[string]struct {
		parts        []string
		asked, other string
	}{
		"none in each chunk":       {[]string{role, nothing, finish, counted, done}, role + nothing + finish + counted + done, role + nothing + finish + done},
		"in the last of an answer": {[]string{role, content, ends, done}, role + content + ends + done, role + content + ends + done},
		"in each chunk":            {[]string{role, counts(1), finish, counted, done}, role + counts(1) + finish + counted + done, role + counts(1) + finish + done},
		"beside other news":        {[]string{filters, role, content, finish, counted, done}, filters + role + content + finish + counted + done, filters + role + content + finish + done},
		"with no list at all":      {[]string{role, content, finish, unlisted, done}, role + content + finish + unlisted + done, role + content + finish + done},
	} {
		for _, keep := range []bool{true, false} {
			want := c.other
			if keep {
				want = c.asked
			}
			a := try(once(streamed(io.EOF, c.parts...)))
			a.KeepUsage = keep
			w := httptest.NewRecorder()
			r := New(Options{}).Do(t.Context(), w, a)
			if w.Body.String() != want {
				t.Errorf("%s, asked %v: %q, want %q", name, keep, w.Body, want)
			}
			if !r.HasUsage || r.Usage.Prompt != 11 || r.Events != 1 {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
}

func TestAnEmptyAnswerIsAnAnswer(t *testing.T) {
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) { send(w, role, finish, done) })
	f := edge(t, u.URL, nil)
	if _, body, err := f.post(t); body != role+finish+done || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	if r := f.result(t); r.Outcome != failover.OK || r.Broken {
		t.Errorf("result %+v", r)
	}
}

func TestAStreamThatNeverEndsAfterItsLastEventDoesNotHoldTheClient(t *testing.T) {
	u := serve(t, func(w http.ResponseWriter, r *http.Request) { send(w, role, content, finish, done); hang(r) })
	f := edge(t, u.URL, nil)
	if _, body, err := f.post(t); !strings.HasSuffix(body, done) || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	if r := f.result(t); r.Outcome != failover.OK || r.Broken {
		t.Errorf("result %+v", r)
	}
}

func TestTooMuchPreludeCountsAsContent(t *testing.T) {
	comment := ": " + strings.Repeat("x", 1000) + "\n\n"
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) { send(w, strings.Repeat(comment, 80)); cut() })
	f := edge(t, u.URL, nil)
	if code, body, _ := f.post(t); code != 200 || strings.Count(body, comment) != 80 {
		t.Errorf("status %d, %d comments", code, strings.Count(body, comment))
	}
	if r := f.result(t); !r.Committed || !r.Broken {
		t.Errorf("result %+v", r)
	}
}

func TestAWholeAnswerPassesByteForByte(t *testing.T) {
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Anabranch-Region", "forged")
		w.Header().Set("X-Ratelimit-Limit-Requests", "1")
		w.Header().Set("Openai-Version", "2020-10-01")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		jsonBody(w, answer)
	})
	f := edge(t, u.URL, func(a *Attempt) {
		a.Commit = func(h http.Header, _ Place) { h.Set(HeaderCluster, "eu-a") }
	})
	res, err := http.Post(f.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); string(body) != answer || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	for key, want := range map[string]string{
		HeaderRegion: "", HeaderCluster: "eu-a", "X-Ratelimit-Limit-Requests": "", "X-Hop": "",
		"Openai-Version": "2020-10-01", "Content-Length": strconv.Itoa(len(answer)),
	} {
		if got := res.Header.Get(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if r := f.result(t); r.Outcome != failover.OK || r.Usage.Prompt != 11 || r.Usage.Completion != 3 {
		t.Errorf("result %+v", r)
	}
}

func TestAClientsMistakeIsTheModelServersToExplain(t *testing.T) {
	const mistake = `{"error":{"message":"max_tokens is too large"}}`
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, mistake)
	})
	f := edge(t, u.URL, nil)
	if code, body, err := f.post(t); code != 400 || !strings.Contains(body, `"message":"max_tokens is too large"`) || err != nil {
		t.Errorf("%d %q, %v", code, body, err)
	}
	if r := f.result(t); r.Outcome != failover.Ignored || !r.Committed || r.HasUsage {
		t.Errorf("result %+v", r)
	}
}

func TestALargeAnswerIsPassedOnAsItComes(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), (MaxBuffered+3<<20)/16)
	for name, cutAt := range map[string]int{"whole": len(big), "cut": MaxBuffered + 1<<20} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "audio/mpeg")
				w.Header().Set("Content-Length", strconv.Itoa(len(big)))
				_, _ = w.Write(big[:cutAt])
				if cutAt < len(big) {
					cut()
				}
			})
			f := edge(t, u.URL, nil)
			_, body, err := f.post(t)
			r := f.result(t)
			if cutAt == len(big) {
				if err != nil || body != string(big) || r.Broken {
					t.Errorf("%d bytes, %v, broken %v", len(body), err, r.Broken)
				}
				return
			}
			if err == nil || !r.Broken || !r.Committed || r.Outcome != failover.ServerFault {
				t.Errorf("cut: %v, %+v", err, r)
			}
			if strings.Contains(body, "error") {
				t.Error("an event was written into an answer that is no stream")
			}
		})
	}
}

func TestAPeersRefusalIsNoFaultOfThePlace(t *testing.T) {
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(HeaderErrorCode, "no_capacity")
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	f := edge(t, u.URL, func(a *Attempt) { a.Peer = true })
	_, _, _ = f.post(t)
	r := f.result(t)
	if r.Outcome != failover.Ignored || !r.Retryable || r.Err.Code != "no_capacity" || r.Err.RetryAfter != 3*time.Second {
		t.Errorf("result %+v", r)
	}
	// The same header from a place that is no peer means nothing.
	g := edge(t, u.URL, nil)
	_, _, _ = g.post(t)
	if r := g.result(t); r.Err == nil || r.Err.Code != "upstream_error" {
		t.Errorf("result %+v", r)
	}
}

func TestAPeerNamesThePlaceAndEndsItsOwnStream(t *testing.T) {
	theirs := (&Error{Message: "x", Type: TypeServer, Code: "stream_broken", Origin: FromEndpoint}).Event()
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(HeaderRegion, "us-east-1")
		w.Header().Set(HeaderCluster, "us-a")
		w.Header().Set(HeaderEndpoint, "e2")
		w.Header().Set(HeaderAttempts, "2")
		send(w, role, content, string(theirs))
		cut()
	})
	f := edge(t, u.URL, func(a *Attempt) { a.Peer = true })
	_, body, err := f.post(t)
	if want := role + content + string(theirs); body != want || err == nil {
		t.Errorf("body %q, %v; want the peer's own error event and no regular end", body, err)
	}
	r := f.result(t)
	if r.Served != (Place{Region: "us-east-1", Cluster: "us-a", Endpoint: "e2", Attempts: 2}) || !r.Broken {
		t.Errorf("result %+v", r)
	}
}

func TestKeptConnectionsAreUsedAgain(t *testing.T) {
	connections := make(map[string]bool)
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true
		send(w, role, content, finish, done)
	})
	f := edge(t, u.URL, nil)
	for range 5 {
		_, _, _ = f.post(t)
		f.result(t)
	}
	if len(connections) != 1 {
		t.Errorf("%d connections for 5 requests in a row", len(connections))
	}
}
