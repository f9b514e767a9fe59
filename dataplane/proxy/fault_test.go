package proxy

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"anabranch/failover"
)

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
			var target string
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
			f := edge(t, u.URL, func(a *Attempt) {
				if c.code == "stream_idle" {
					a.Stall = 100 * time.Millisecond
				}
			})
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

// A peer whose table does not have the model can't say that the path is unknown.
func TestAPeerWithoutTheModelIsNoTargetOfOurs(t *testing.T) {
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(HeaderErrorCode, "model_not_found")
		w.WriteHeader(http.StatusNotFound)
	})
	f := edge(t, u.URL, func(a *Attempt) { a.Peer = true })
	if status, body, err := f.post(t); status != 503 || err != nil {
		t.Errorf("%d %q, %v", status, body, err)
	}
	if r := f.result(t); !r.Retryable || r.Outcome != failover.Ignored || r.Err.Code != "no_legal_target" {
		t.Errorf("%+v", r)
	}
}
