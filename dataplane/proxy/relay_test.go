package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
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
type upstream struct {
	*httptest.Server
	left chan struct{} // one for each request whose ctx ended before its handler
}

func serve(t *testing.T, h func(http.ResponseWriter, *http.Request)) *upstream {
	t.Helper()
	u := &upstream{left: make(chan struct{}, 64)}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a client's leaving only then
		defer func() {
			if r.Context().Err() != nil {
				u.left <- struct{}{}
			}
		}()
		h(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

func send(w http.ResponseWriter, parts ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range parts {
		_, _ = io.WriteString(w, p)
		w.(http.Flusher).Flush()
	}
}

// cut ends the connection without a regular end.
func cut() { panic(http.ErrAbortHandler) }

// hang waits until the request is given up.
func hang(r *http.Request) { <-r.Context().Done() }

// front is an edge that makes one attempt for each request, as the router does.
type front struct {
	*httptest.Server
	relay   *Relay
	results chan Result
	attempt func(*Attempt)
}

func edge(t *testing.T, target string, attempt func(*Attempt)) *front {
	t.Helper()
	f := &front{relay: New(Options{}), results: make(chan Result, 64), attempt: attempt}
	u, err := url.Parse(target + "/v1/chat/completions")
	if err != nil {
		t.Fatal(err)
	}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		a := &Attempt{URL: u, Body: body, Client: r.Header, FirstByte: 5 * time.Second}
		if f.attempt != nil {
			f.attempt(a)
		}
		result := f.relay.Do(r.Context(), w, a)
		f.results <- result
		switch {
		case result.Broken:
			panic(http.ErrAbortHandler)
		case !result.Committed && result.Err != nil:
			result.Err.Write(w)
		}
	}))
	t.Cleanup(func() {
		f.Close()
		f.relay.Close()
	})
	return f
}

func (f *front) result(t *testing.T) Result {
	t.Helper()
	select {
	case r := <-f.results:
		return r
	case <-time.After(10 * time.Second):
		t.Fatal("the attempt did not end within 10 s")
		return Result{}
	}
}

// post returns the status, the body as far as it came, and whether it ended regularly.
func (f *front) post(t *testing.T) (int, string, error) {
	t.Helper()
	res, err := http.Post(f.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// refusing is an address that refuses connections.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// raw is a place that speaks bytes: it reads a request's header, writes, and closes.
func raw(t *testing.T, bytes string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			_, _ = io.WriteString(c, bytes)
			if bytes == "" {
				_ = c.(*net.TCPConn).SetLinger(0) // a reset
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return "http://" + l.Addr().String()
}

// What each fault of a place comes to before content: nothing has reached the client, and the
// result says what to think of the place.
func TestFaultsBeforeContentAreRetryable(t *testing.T) {
	type want struct {
		outcome failover.Outcome
		code    string
		exempt  bool
	}
	cases := map[string]struct {
		at      func(*testing.T) string
		handler func(http.ResponseWriter, *http.Request)
		want    want
	}{
		"dead": {at: refusing, want: want{failover.ConnectFailure, "connect_failed", true}},
		"reset before the header": {
			at:   func(t *testing.T) string { return raw(t, "") },
			want: want{failover.ServerFault, "upstream_reset", true},
		},
		"closed before the header": {
			handler: func(http.ResponseWriter, *http.Request) { cut() },
			want:    want{failover.ServerFault, "upstream_reset", true},
		},
		"503":         {handler: status(503), want: want{failover.ServerFault, "upstream_error", false}},
		"500":         {handler: status(500), want: want{failover.ServerFault, "upstream_error", false}},
		"429":         {handler: status(429), want: want{failover.Ignored, "endpoint_busy", false}},
		"401":         {handler: status(401), want: want{failover.ServerFault, "upstream_denied", false}},
		"404":         {handler: status(404), want: want{failover.Ignored, "upstream_mismatch", false}},
		"a redirect":  {handler: status(307), want: want{failover.Ignored, "upstream_mismatch", false}},
		"no header":   {handler: func(_ http.ResponseWriter, r *http.Request) { hang(r) }, want: want{failover.Silence, "first_byte_timeout", false}},
		"then silent": {handler: func(w http.ResponseWriter, r *http.Request) { send(w); w.(http.Flusher).Flush(); hang(r) }, want: want{failover.Silence, "first_byte_timeout", false}},
		"only a role": {handler: func(w http.ResponseWriter, r *http.Request) { send(w, role); hang(r) }, want: want{failover.Silence, "first_byte_timeout", false}},
		"only keep-alive comments": {
			handler: func(w http.ResponseWriter, r *http.Request) { send(w, ": wait\n\n", ": wait\n\n"); hang(r) },
			want:    want{failover.Silence, "first_byte_timeout", false},
		},
		"a role, then cut":    {handler: func(w http.ResponseWriter, _ *http.Request) { send(w, role); cut() }, want: want{failover.ServerFault, "upstream_truncated", false}},
		"a role, then an end": {handler: func(w http.ResponseWriter, _ *http.Request) { send(w, role) }, want: want{failover.ServerFault, "upstream_truncated", false}},
		"a role and an error": {handler: func(w http.ResponseWriter, _ *http.Request) {
			send(w, role, `data: {"error":{"message":"x"}}`+"\n\n", done)
		}, want: want{failover.ServerFault, "upstream_error", false}},
		"half an event": {handler: func(w http.ResponseWriter, _ *http.Request) { send(w, role, content[:30]); cut() }, want: want{failover.ServerFault, "upstream_truncated", false}},
		"JSON cut by its size": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "400")
			jsonBody(w, answer[:20])
			w.(http.Flusher).Flush()
			cut()
		}, want: want{failover.ServerFault, "upstream_truncated", false}},
		"JSON cut in chunks": {handler: func(w http.ResponseWriter, _ *http.Request) {
			jsonBody(w, answer[:20])
			w.(http.Flusher).Flush()
			cut()
		}, want: want{failover.ServerFault, "upstream_truncated", false}},
		"JSON cut and ended": {handler: func(w http.ResponseWriter, _ *http.Request) { jsonBody(w, answer[:20]) }, want: want{failover.ServerFault, "upstream_truncated", false}},
		"JSON cut by closing": {
			at: func(t *testing.T) string {
				// It ends with a brace, and still is not whole.
				return raw(t, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"+`{"choices":[{"message":{}}`)
			},
			want: want{failover.ServerFault, "upstream_truncated", false},
		},
		"no HTTP": {at: func(t *testing.T) string { return raw(t, "SSH-2.0-x\r\n") }, want: want{failover.ServerFault, "upstream_reset", true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var u *upstream
			target := ""
			if c.at != nil {
				target = c.at(t)
			} else {
				u = serve(t, c.handler)
				target = u.URL
			}
			f := edge(t, target, func(a *Attempt) {
				if c.want.outcome == failover.Silence {
					a.FirstByte = 50 * time.Millisecond
				}
			})
			code, body, err := f.post(t)
			r := f.result(t)
			if r.Committed || r.Broken || !r.Retryable || r.ClientGone {
				t.Errorf("result %+v, want retryable and nothing sent", r)
			}
			if r.Outcome != c.want.outcome || r.Exempt != c.want.exempt {
				t.Errorf("outcome %v, exempt %v; want %+v", r.Outcome, r.Exempt, c.want)
			}
			if r.Err == nil || r.Err.Code != c.want.code {
				t.Errorf("error %v, want code %s", r.Err, c.want.code)
			}
			if err != nil || code < 429 || !strings.Contains(body, `"origin"`) {
				t.Errorf("the client got %d %q, %v", code, body, err)
			}
			if c.want.outcome == failover.Silence {
				select {
				case <-u.left:
				case <-time.After(10 * time.Second):
					t.Error("the place was not told that its answer is not wanted any more")
				}
			}
		})
	}
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
}

func jsonBody(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

// A stream that breaks after content ends with one error event, and no text comes twice.
func TestFaultsAfterContentEndWithAnErrorEvent(t *testing.T) {
	start := role + content + content
	cases := map[string]struct {
		handler func(http.ResponseWriter, *http.Request)
		code    string
		text    string // what came before the error event
	}{
		"cut":                    {func(w http.ResponseWriter, _ *http.Request) { send(w, start); cut() }, "stream_broken", start},
		"cut within an event":    {func(w http.ResponseWriter, _ *http.Request) { send(w, start, content[:25]); cut() }, "stream_broken", start},
		"cut after a finish":     {func(w http.ResponseWriter, _ *http.Request) { send(w, start, finish); cut() }, "stream_broken", start + finish},
		"ended without its last": {func(w http.ResponseWriter, _ *http.Request) { send(w, start) }, "stream_broken", start},
		"silent":                 {func(w http.ResponseWriter, r *http.Request) { send(w, start); hang(r) }, "stream_idle", start},
		"an error of the place": {func(w http.ResponseWriter, _ *http.Request) {
			send(w, start, `data: {"error":{"message":"secret"}}`+"\n\n", done)
		}, "stream_broken", start},
		"an event beyond measure": {func(w http.ResponseWriter, _ *http.Request) { send(w, start, "data: "+strings.Repeat("x", 2<<20)) }, "stream_broken", start},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			u := serve(t, c.handler)
			f := edge(t, u.URL, func(a *Attempt) { a.Idle = 100 * time.Millisecond })
			code, body, err := f.post(t)
			if code != 200 {
				t.Errorf("status %d", code)
			}
			if err == nil {
				t.Error("the stream ended regularly: the client takes it for whole")
			}
			rest, ok := strings.CutPrefix(body, c.text)
			if !ok {
				t.Fatalf("body %q, want it to begin with %q", body, c.text)
			}
			event, ok := strings.CutPrefix(rest, "data: ")
			if !ok || !strings.HasSuffix(event, "\n\n") || strings.Count(event, "\n") != 2 {
				t.Fatalf("after the text came %q, want one event", rest)
			}
			var shape struct {
				Error map[string]any `json:"error"`
			}
			if err := json.Unmarshal([]byte(event), &shape); err != nil {
				t.Fatalf("event %q: %v", event, err)
			}
			for _, field := range []string{"message", "type", "code", "param", "origin"} {
				if _, ok := shape.Error[field]; !ok {
					t.Errorf("event %q has no %s", event, field)
				}
			}
			if strings.Contains(body, "[DONE]") || strings.Contains(body, "secret") {
				t.Errorf("body %q", body)
			}
			r := f.result(t)
			if !r.Committed || !r.Broken || r.Retryable || r.Outcome != failover.ServerFault || r.Err.Code != c.code {
				t.Errorf("result %+v, want broken with %s", r, c.code)
			}
			if r.Events != 2 || r.FirstByte <= 0 {
				t.Errorf("%d events, first after %v", r.Events, r.FirstByte)
			}
		})
	}
}

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
	mistake := `{"error":{"message":"max_tokens is too large"}}`
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		_, _ = io.WriteString(w, mistake)
	})
	f := edge(t, u.URL, nil)
	if code, body, err := f.post(t); code != 400 || body != mistake || err != nil {
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

func TestALeavingClientIsToldToThePlaceAtOnce(t *testing.T) {
	for name, handler := range map[string]func(http.ResponseWriter, *http.Request){
		"during prefill": func(_ http.ResponseWriter, r *http.Request) { hang(r) },
		"mid-stream":     func(w http.ResponseWriter, r *http.Request) { send(w, role, content); hang(r) },
	} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{}, 1)
			u := serve(t, func(w http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				handler(w, r)
			})
			f := edge(t, u.URL, func(a *Attempt) { a.FirstByte, a.Idle = time.Minute, time.Minute })
			ctx, leave := context.WithCancel(context.Background())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL+"/v1/chat/completions", strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			answered := make(chan error, 1)
			go func() {
				res, err := http.DefaultClient.Do(req)
				if err == nil {
					_, err = io.ReadAll(res.Body)
					res.Body.Close()
				}
				answered <- err
			}()
			<-arrived
			leave()
			if err := <-answered; !errors.Is(err, context.Canceled) {
				t.Errorf("the client: %v", err)
			}
			select {
			case <-u.left:
			case <-time.After(10 * time.Second):
				t.Fatal("the place goes on generating")
			}
			r := f.result(t)
			if r.Outcome != failover.Ignored || !r.ClientGone || r.Retryable {
				t.Errorf("result %+v, want a client that left", r)
			}
		})
	}
}

func TestTheRequestsOwnDeadlineBlamesNobody(t *testing.T) {
	u := serve(t, func(_ http.ResponseWriter, r *http.Request) { hang(r) })
	relay := New(Options{})
	defer relay.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	target, err := url.Parse(u.URL + "/v1/chat/completions")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r := relay.Do(ctx, w, &Attempt{URL: target, FirstByte: time.Minute})
	if r.Outcome != failover.Ignored || r.Retryable || r.ClientGone || r.Err == nil || r.Err.Code != "deadline_exceeded" {
		t.Errorf("result %+v", r)
	}
}

func TestAnAbandonedAttemptCanBeTriedElsewhere(t *testing.T) {
	arrived := make(chan struct{}, 1)
	u := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		hang(r)
	})
	attempts := make(chan *Attempt, 1)
	f := edge(t, u.URL, func(a *Attempt) { attempts <- a })
	go func() {
		<-arrived
		a := <-attempts
		a.Abandon()
		a.Abandon()
	}()
	if code, _, _ := f.post(t); code != http.StatusGatewayTimeout {
		t.Errorf("status %d", code)
	}
	r := f.result(t)
	if r.Outcome != failover.Silence || !r.Retryable || !r.Exempt || r.Committed || r.ClientGone {
		t.Errorf("result %+v", r)
	}
	<-u.left
}

func TestContentCantBeAbandoned(t *testing.T) {
	more := make(chan struct{})
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		send(w, role, content)
		<-more
		send(w, finish, done)
	})
	var a *Attempt
	f := edge(t, u.URL, func(made *Attempt) {
		a = made
		a.Commit = func(http.Header, Place) {
			a.Abandon()
			close(more)
		}
	})
	if _, body, err := f.post(t); body != role+content+finish+done || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	if r := f.result(t); r.Outcome != failover.OK || r.Broken {
		t.Errorf("result %+v", r)
	}
	a.Abandon() // it is over
}

func TestAPeersRefusalIsNoFaultOfThePlace(t *testing.T) {
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(HeaderErrorCode, "no_capacity")
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(503)
	})
	f := edge(t, u.URL, func(a *Attempt) { a.Peer = true })
	f.post(t)
	r := f.result(t)
	if r.Outcome != failover.Ignored || !r.Retryable || r.Err.Code != "no_capacity" || r.Err.RetryAfter != 3*time.Second {
		t.Errorf("result %+v", r)
	}
	// The same header from a place that is no peer means nothing.
	g := edge(t, u.URL, nil)
	g.post(t)
	if r := g.result(t); r.Outcome != failover.ServerFault {
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
	if r.Served != (Place{"us-east-1", "us-a", "e2", 2}) || !r.Broken {
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
		f.post(t)
		f.result(t)
	}
	if len(connections) != 1 {
		t.Errorf("%d connections for 5 requests in a row", len(connections))
	}
}

func TestHeadersOnTheWayToAPlace(t *testing.T) {
	client := http.Header{}
	for key, value := range map[string]string{
		"Authorization": "Bearer secret", "X-Api-Key": "secret", "Cookie": "secret", "Accept-Encoding": "gzip",
		"Connection": "close, X-Mine", "X-Mine": "1", "Te": "trailers", "Transfer-Encoding": "chunked",
		"X-Anabranch-Tenant": "other", "X-Anabranch-Hop": "1", "X-Anabranch-Priority": "100",
		HeaderFairness: "other", HeaderObjective: "top", "X-Llm-D-Slo-Ttft-Ms": "1", "X-Gateway-Model-Name": "x",
		"Content-Type": "application/json", "Traceparent": "00-1-2-01", "User-Agent": "openai-go",
	} {
		client.Set(key, value)
	}
	before := fmt.Sprint(client)
	got := Outgoing(client, []Field{{HeaderFairness, "acme"}, {"X-Request-Id", "r-1"}, {"Authorization", ""}})
	want := http.Header{
		"Content-Type": {"application/json"}, "Traceparent": {"00-1-2-01"}, "User-Agent": {"openai-go"},
		HeaderFairness: {"acme"}, "X-Request-Id": {"r-1"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if fmt.Sprint(client) != before {
		t.Error("the client's header was changed")
	}
}

func TestErrorsHaveTheShapeOfOpenAI(t *testing.T) {
	w := httptest.NewRecorder()
	(&Error{Status: 429, Message: "too many", Type: TypeRateLimit, Code: "rate_limit_exceeded", Param: "", Origin: FromQuota, RetryAfter: 1200 * time.Millisecond}).Write(w)
	if w.Code != 429 || w.Header().Get("Retry-After") != "2" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	want := `{"error":{"message":"too many","type":"rate_limit_exceeded","code":"rate_limit_exceeded","param":null,"origin":"quota"}}`
	if w.Body.String() != want {
		t.Errorf("body %s\nwant %s", w.Body, want)
	}
	with := &Error{Message: "x", Type: TypeInvalidRequest, Code: "model_not_found", Param: "model", Origin: FromRouter}
	if !strings.Contains(string(with.JSON()), `"param":"model"`) {
		t.Errorf("body %s", with.JSON())
	}
}
