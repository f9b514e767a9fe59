package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"anabranch/dataplane/inference"
	"anabranch/failover"
)

// What an answer says that is too large to be held, and what is told of one that does not say it.
func TestTheUsageOfALargeAnswerIsRead(t *testing.T) {
	const size = MaxBuffered + 1<<20
	text := strings.Repeat("0123456789abcdef", size/16)
	const usage = `"usage":{"prompt_tokens":11,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}`
	for name, tt := range map[string]struct {
		kind, encoding, body string
		want                 inference.Usage
		counted              bool
		text                 int64
		broken               bool
	}{
		"at its end":              {kind: "application/json", body: `{"choices":[{"text":"` + text + `"}],` + usage + `}`, want: inference.Usage{Prompt: 11, Cached: 8, Completion: 3}, counted: true, text: size},
		"at its beginning":        {kind: "application/json; charset=utf-8", body: `{` + usage + `,"choices":[{"text":"` + text + `"}]}`, want: inference.Usage{Prompt: 11, Cached: 8, Completion: 3}, counted: true, text: size},
		"none":                    {kind: "application/json", body: `{"choices":[{"text":"` + text + `"}]}`, text: size},
		"in the text":             {kind: "application/json", body: `{"choices":[{"text":"` + text + `","x":{` + usage + `}}]}`, text: size},
		"ended in the middle":     {kind: "application/json", body: `{` + usage + `,"choices":[{"text":"` + text, text: size, broken: true},
		"plain text":              {kind: "text/plain", body: text, text: size},
		"sound":                   {kind: "audio/mpeg", body: text},
		"what can't be looked at": {kind: "application/json", encoding: "br", body: text, text: size},
	} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				if tt.encoding != "" {
					w.Header().Set("Content-Encoding", tt.encoding)
				}
				_, _ = w.Write([]byte(tt.body)) // in chunks
			})
			f := edge(t, u.URL, nil)
			_, body, err := f.post(t)
			r := f.result(t)
			if !strings.HasPrefix(tt.body, body) || (len(body) < len(tt.body) || err != nil) != tt.broken {
				t.Errorf("%d bytes of %d, %v", len(body), len(tt.body), err)
			}
			want := failover.OK
			if tt.broken {
				want = failover.ServerFault
			}
			if r.Outcome != want || r.Broken != tt.broken {
				t.Errorf("%v, broken %v", r.Outcome, r.Broken)
			}
			if r.Usage != tt.want || r.HasUsage != tt.counted || r.Text != tt.text {
				t.Errorf("%+v, told %v, %d bytes of text; want %d", r.Usage, r.HasUsage, r.Text, tt.text)
			}
		})
	}
}

// A cut answer has the text that the client got.
func TestTheTextOfALargeAnswerThatIsCutIsCounted(t *testing.T) {
	const came = MaxBuffered + 1<<20
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(2*MaxBuffered))
		_, _ = w.Write([]byte(`{"choices":[{"text":"` + strings.Repeat("x", came)))
		cut()
	})
	f := edge(t, u.URL, nil)
	_, _, err := f.post(t)
	if r := f.result(t); err == nil || !r.Broken || r.HasUsage || r.Text != came {
		t.Errorf("%v, broken %v, %d bytes of text, want %d", err, r.Broken, r.Text, came)
	}
}

func TestTheTextOfAnAnswerWithoutUsageIsCounted(t *testing.T) {
	for body, want := range map[string]int64{
		`{"choices":[{"message":{"content":"hello you"},"finish_reason":"stop"}]}`:      9 + 4,
		`{"choices":[{"message":{"content":"hello"}}],"usage":{"completion_tokens":1}}`: 0, // it is not needed
	} {
		u := serve(t, func(w http.ResponseWriter, _ *http.Request) { jsonBody(w, body) })
		f := edge(t, u.URL, nil)
		_, _, _ = f.post(t)
		if r := f.result(t); r.Text != want || r.Events != 1 {
			t.Errorf("%s: %d bytes of text, %d events", body, r.Text, r.Events)
		}
	}
}
