package modelserver

import (
	"flag"
	"net/http"
	"os"
	"regexp"
	"testing"
)

var update = flag.Bool("update", false, "write the answers as they are now into testdata")

// created differs from run to run.
var created = regexp.MustCompile(`"created":\d+`)

// The answers to the letter, so that a change of their shape is seen and meant.
func TestAnswersToTheLetter(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	const hi = `"messages":[{"role":"user","content":"hi"}],"max_tokens":3`
	for name, c := range map[string]struct{ method, path, body string }{
		"chat":              {"POST", "/v1/chat/completions", `{"model":"llama-3.1-8b",` + hi + `}`},
		"chat_stream":       {"POST", "/v1/chat/completions", `{"model":"legal-lora",` + hi + `,"stream":true}`},
		"chat_stream_usage": {"POST", "/v1/chat/completions", `{"model":"llama-3.1-8b",` + hi + `,"stream":true,"stream_options":{"include_usage":true}}`},
		"completion":        {"POST", "/v1/completions", `{"model":"llama-3.1-8b","prompt":"once upon","max_tokens":3}`},
		"completion_stream": {"POST", "/v1/completions", `{"model":"llama-3.1-8b","prompt":"once upon","max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`},
		"embedding":         {"POST", "/v1/embeddings", `{"model":"llama-3.1-8b","input":"x","dimensions":3}`},
		"models":            {"GET", "/v1/models", ""},
		"unknown_model":     {"POST", "/v1/chat/completions", `{"model":"nobody",` + hi + `}`},
		"bad_parameter":     {"POST", "/v1/completions", `{"model":"llama-3.1-8b","prompt":"x","max_tokens":0}`},
	} {
		var got string
		if c.method == http.MethodGet {
			_, got = f.get(f.url("a", c.path))
		} else {
			_, got = f.post(c.path, c.body, "x-request-id", "r-"+name)
		}
		got = created.ReplaceAllString(got, `"created":0`)
		file := "testdata/" + name + ".golden"
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}
