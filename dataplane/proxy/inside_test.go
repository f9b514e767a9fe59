package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"anabranch/failover"
)

// verdict is what a relay makes of an answer before content.
type verdict struct {
	outcome   failover.Outcome
	status    int // that the client gets, or that Err has
	code      string
	retryable bool
}

const (
	fault   = failover.ServerFault
	ignored = failover.Ignored
)

func judge(t *testing.T, a *Attempt) (verdict, Result, *httptest.ResponseRecorder) {
	t.Helper()
	w := httptest.NewRecorder()
	r := New(Options{}).Do(t.Context(), w, a)
	v := verdict{outcome: r.Outcome, retryable: r.Retryable}
	switch {
	case r.Committed:
		v.status = w.Code
	case r.Err != nil:
		v.status, v.code = r.Err.Status, r.Err.Code
	}
	if r.Committed == r.Retryable {
		t.Errorf("%+v", r)
	}
	return v, r, w
}

func TestAnErrorUnderSuccessIsWhatItSays(t *testing.T) {
	for body, want := range map[string]verdict{
		`{"error":{"message":"CUDA out of memory","type":"InternalServerError","param":null,"code":500}}`: {fault, 502, "upstream_error", true},
		`{"error":{"message":"engine died"}}`:                                                                               {fault, 502, "upstream_error", true},
		`{"error":"engine died"}`:                                                                                           {fault, 502, "upstream_error", true},
		`{"object":"error","message":"m","type":"InternalServerError","code":500}`:                                          {fault, 502, "upstream_error", true},
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`:                                       {ignored, 429, "endpoint_busy", true},
		`{"error":{"message":"m","code":"rate_limit_exceeded"}}`:                                                            {ignored, 429, "endpoint_busy", true},
		`{"error":{"message":"no such model","type":"NotFoundError","code":404}}`:                                           {ignored, 502, "upstream_mismatch", true},
		`{"error":{"message":"max_tokens is too large","type":"BadRequestError","param":null,"code":400}}`:                  {ignored, 400, "", false},
		`{"object":"error","message":"too long","type":"BadRequestError","code":400}`:                                       {ignored, 400, "", false},
		`{"error":{"message":"m","type":"invalid_request_error","code":null}}`:                                              {ignored, 400, "", false},
		`{"id":"resp_1","object":"response","status":"failed","error":{"code":"server_error","message":"m"},"output":[]}`:   {fault, 502, "upstream_error", true},
		`{"id":"resp_1","object":"response","status":"completed","error":null,"output":[{"type":"message"}]}`:               {failover.OK, 200, "", false},
		`{"choices":[{"message":{"content":"the word \"error\": {} is not one"}}],"usage":{"prompt_tokens":1}}`:             {failover.OK, 200, "", false},
		`{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"arguments":"{\"error\":{\"code\":500}}"}}]}}]}`: {failover.OK, 200, "", false},
		`{"error":{"message":"m","code":99999}}`:                                                                            {fault, 502, "upstream_error", true},
		`{"error":{"message":{"not":"text"},"code":{}}}`:                                                                    {fault, 502, "upstream_error", true},
	} {
		got, r, w := judge(t, try(once(plain(200, nil, body))))
		if got != want {
			t.Errorf("%s\ngot  %+v\nwant %+v", body, got, want)
		}
		if want.status == 400 && (r.Status != 400 || r.Err != nil || !strings.Contains(w.Body.String(), `"origin":"endpoint"`)) {
			t.Errorf("%s became %q, %+v", body, w.Body, r)
		}
		if want.outcome == failover.OK {
			continue
		}
		// The same as the first event of a stream.
		if !want.retryable {
			want.code = "400"
		}
		place := httptest.NewRecorder()
		r = New(Options{}).Do(t.Context(), place, try(once(streamed(io.EOF, role, "data: "+body+"\n\n", done))))
		if r.Err == nil {
			t.Errorf("stream with %s: %+v, %q", body, r, place.Body)
			continue
		}
		if got := (verdict{r.Outcome, r.Err.Status, r.Err.Code, r.Retryable}); got != want || r.Committed {
			t.Errorf("stream with %s\ngot  %+v\nwant %+v", body, got, want)
		}
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	header := func(kv ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(kv); i += 2 {
			h.Set(kv[i], kv[i+1])
		}
		return h
	}
	compressed := streamed(io.EOF, role, content, done)
	compressed.Header.Set("Content-Encoding", "gzip")
	for name, c := range map[string]struct {
		answer *http.Response
		want   verdict
	}{
		"empty":                       {plain(200, nil, ""), verdict{fault, 502, "upstream_truncated", true}},
		"white space":                 {plain(200, nil, " \r\n"), verdict{fault, 502, "upstream_truncated", true}},
		"half of the JSON":            {plain(200, nil, answer[:30]), verdict{fault, 502, "upstream_truncated", true}},
		"JSON cut behind a brace":     {plain(200, nil, `{"choices":[{"message":{}}`), verdict{fault, 502, "upstream_truncated", true}},
		"a status that is none":       {plain(42, nil, answer), verdict{fault, 502, "upstream_malformed", true}},
		"a page":                      {plain(200, header("Content-Type", "text/html; charset=utf-8"), "<html>"), verdict{fault, 502, "upstream_malformed", true}},
		"a stream that is compressed": {compressed, verdict{fault, 502, "upstream_malformed", true}},
		"a stream that is a page":     {streamed(io.EOF, "<html>\n", "<body>\n\n"), verdict{fault, 502, "upstream_malformed", true}},
		"events that are no JSON":     {streamed(io.EOF, role, "data: hello\n\n"), verdict{fault, 502, "upstream_malformed", true}},
		"events with half of it":      {streamed(io.EOF, `data: {"choices":[{"delta":{"con`+"\n\n"), verdict{fault, 502, "upstream_malformed", true}},
		"a stream of nothing":         {streamed(io.EOF), verdict{fault, 502, "upstream_truncated", true}},
		"compressed JSON":             {plain(200, header("Content-Encoding", "gzip"), "\x1f\x8b\x08"), verdict{failover.OK, 200, "", false}},
		"sound":                       {plain(200, header("Content-Type", "audio/mpeg"), "ID3"), verdict{failover.OK, 200, "", false}},
		"nothing on purpose":          {plain(204, nil, ""), verdict{failover.OK, 204, "", false}},
	} {
		if got, r, _ := judge(t, try(once(c.answer))); got != c.want {
			t.Errorf("%s: got %+v, want %+v: %+v", name, got, c.want, r)
		}
	}
}

func TestEventsOfTheStandardAreNoGarbage(t *testing.T) {
	prelude := "\xef\xbb\xbf: ping\n\nevent: open\nid: 7\nretry: 100\n\n:\r\n\r\nid\r\r"
	_, r, w := judge(t, try(once(streamed(io.EOF, prelude, content, ": keep alive\n\n", done))))
	if r.Outcome != failover.OK || w.Body.String() != prelude+content+": keep alive\n\n"+done {
		t.Errorf("%+v, %q", r, w.Body)
	}
}

func TestGarbageAfterContentBreaksTheStream(t *testing.T) {
	for _, garbage := range []string{"<html>\n\n", "data: {\"choices\":[\n\n", "data: oops\n\n"} {
		w := httptest.NewRecorder()
		r := New(Options{}).Do(t.Context(), w, try(once(streamed(io.EOF, role, content, garbage, content, done))))
		if !r.Broken || r.Outcome != fault || w.Body.String() != role+content+string(r.Err.Event()) {
			t.Errorf("%q: %+v, %q", garbage, r, w.Body)
		}
	}
}

func TestNoRoomIsNoFault(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		retryAfter string
		reason     string
		want       verdict
		message    string
	}{
		"503":                        {503, "", "", verdict{fault, 502, "upstream_error", true}, "the place answered with a server error"},
		"503 that says when":         {503, "3", "", verdict{ignored, 503, "upstream_error", true}, "the place has no room"},
		"429":                        {429, "3", "", verdict{ignored, 429, "endpoint_busy", true}, "the place is busy"},
		"a gateway that is full":     {429, "3", "rejected-saturated", verdict{ignored, 429, "endpoint_busy", true}, "the place is busy (rejected-saturated)"},
		"a gateway without pods":     {503, "", "rejected-no-endpoints", verdict{fault, 502, "upstream_error", true}, "the place answered with a server error (rejected-no-endpoints)"},
		"a reason that is no word":   {429, "3", `x" <script>`, verdict{ignored, 429, "endpoint_busy", true}, "the place is busy"},
		"a reason beyond all bounds": {429, "3", strings.Repeat("x", 65), verdict{ignored, 429, "endpoint_busy", true}, "the place is busy"},
	} {
		h := http.Header{}
		if c.retryAfter != "" {
			h.Set("Retry-After", c.retryAfter)
		}
		if c.reason != "" {
			h.Set("x-llm-d-request-dropped-reason", c.reason)
		}
		got, r, _ := judge(t, try(once(plain(c.status, h, "no"))))
		if got != c.want || r.Err.Message != c.message || r.Status != c.status || (r.Err.RetryAfter == 3*time.Second) != (c.retryAfter != "") {
			t.Errorf("%s: %+v, %v after %v; want %+v, %s", name, got, r.Err, r.Err.RetryAfter, c.want, c.message)
		}
	}
}

// What a peer's flow control has turned away no other router tries: the answer is the client's.
func TestWhatAPeerShedIsPassedOn(t *testing.T) {
	const body = `{"error":{"message":"The fleet is full.","type":"server_error","code":"overloaded","param":null,"origin":"router"}}`
	h := http.Header{"Retry-After": {"7"}, HeaderErrorCode: {CodeShed}}
	for _, status := range []int{429, 503} {
		a := try(once(plain(status, h, body)))
		a.Peer = true
		got, r, w := judge(t, a)
		if got != (verdict{ignored, status, "", false}) || w.Body.String() != body || w.Header().Get("Retry-After") != "7" || w.Header().Get(HeaderErrorCode) != "" {
			t.Errorf("%d: %+v, %q with %v", status, got, w.Body, w.Header())
		}
		if !r.Committed || r.Broken || r.Err != nil {
			t.Errorf("%+v", r)
		}
		// A place that is no peer can't say so.
		if got, _, _ := judge(t, try(once(plain(status, h, body)))); !got.retryable {
			t.Errorf("%d of a place: %+v", status, got)
		}
	}
}

func FuzzInside(f *testing.F) {
	for _, seed := range []string{`{"error":{"code":400,"message":"m"}}`, `{"error":"x"}`, `{"code":"429"}`, `{"response":{"error":{"code":"server_error"}}}`, `[]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if e := inside(body); e.status != 0 && (e.status < 400 || e.status > 599) {
			t.Errorf("%q: status %d", body, e.status)
		}
	})
}
