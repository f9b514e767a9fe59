package dataplane

import (
	"net/http"
	"strings"
	"testing"
)

// TestALargeAnswerIsChargedByItsUsage: what is too large to be held says at its end what it used.
func TestALargeAnswerIsChargedByItsUsage(t *testing.T) {
	w, s := one(t)
	s.does(func(rw http.ResponseWriter, r *http.Request) { replying(200, longAnswer)(nil, rw, r) })
	if r := w.ask(us, "globex", askWhole); r.body != longAnswer {
		t.Fatalf("%d, %d bytes", r.status, len(r.body))
	}
	w.idle()
	stop := w.run()
	if got := w.settled(stop, "q-tokens"); got != 14 {
		t.Errorf("charged %d tokens, want 11 and 3", got)
	}
}

// An answer that does not say what it used is charged by its text, and for no more than was asked for.
func TestAnAnswerWithoutUsageIsChargedByItsText(t *testing.T) {
	text := `{"choices":[{"message":{"content":"` + strings.Repeat("word ", 800) + `"}}]}`
	const rest = `"model":"llama","messages":[{"role":"user","content":"hello"}]}`
	for name, tt := range map[string]struct {
		path, ask string
		output    int64
	}{
		"a quarter of its bytes":   {"chat/completions", `{` + rest, 1000},
		"more is allowed":          {"chat/completions", `{"max_tokens":5000,` + rest, 1000},
		"less is allowed":          {"chat/completions", `{"max_tokens":50,` + rest, 50},
		"less, for each of two":    {"chat/completions", `{"max_tokens":50,"n":2,` + rest, 100},
		"an API that sends images": {"images/generations", `{` + rest, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := one(t)
			s.does(func(rw http.ResponseWriter, r *http.Request) { replying(200, text)(nil, rw, r) })
			r := w.get(http.MethodPost, w.routers[us].front.URL+"/v1/"+tt.path, "acme", tt.ask)
			if r.body != text {
				t.Fatalf("%d %q", r.status, r.body)
			}
			if got := w.record(us, r).Usage; got.Completion != tt.output {
				t.Errorf("%d tokens, want %d", got.Completion, tt.output)
			}
		})
	}
}
