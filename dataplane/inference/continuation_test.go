package inference

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"
)

func TestContinuation(t *testing.T) {
	tests := []struct {
		name, body, text string
		spent            int64
		want             string
	}{
		{
			"a chat", `{"model":"m","messages":[{"role":"user","content":"Tell me."}],"stream":true}`, "Once upon", 2,
			`{"add_generation_prompt":false,"continue_final_message":true,"model":"m","messages":[{"role":"user","content":"Tell me."},{"role":"assistant","content":"Once upon"}],"stream":true}`,
		},
		{
			"text that needs escapes", `{"model":"m","messages":[{"role":"user","content":""}]}`, "a\"\\\n\u2028é😀<b>", 5,
			`{"add_generation_prompt":false,"continue_final_message":true,"model":"m","messages":[{"role":"user","content":""},{"role":"assistant","content":"a\"\\\n\u2028é😀<b>"}]}`,
		},
		{
			"limits go down", `{"model":"m","max_tokens":100,"max_completion_tokens":60,"min_tokens":5,"messages":[{"role":"tool","content":"x"} ] }`, "a", 40,
			`{"add_generation_prompt":false,"continue_final_message":true,"model":"m","max_tokens":60,"max_completion_tokens":20,"min_tokens":0,"messages":[{"role":"tool","content":"x"},{"role":"assistant","content":"a"}]}`,
		},
		{
			"flags as they are by themselves", `{"add_generation_prompt":true,"continue_final_message":false,"model":"m","messages":[{"role":"user"}]}`, "a", 1,
			`{"add_generation_prompt":false,"continue_final_message":true,"model":"m","messages":[{"role":"user"},{"role":"assistant","content":"a"}]}`,
		},
		{
			"nothing asked for in so many words",
			`{"model":"m","messages":[{"role":"user"}],"tools":[],"response_format":{"type":"text"},"n":1,"best_of":1,"echo":false,"guided_json":null}`, "a", 1,
			`{"add_generation_prompt":false,"continue_final_message":true,"model":"m","messages":[{"role":"user"},{"role":"assistant","content":"a"}],"tools":[],"response_format":{"type":"text"},"n":1,"best_of":1,"echo":false,"guided_json":null}`,
		},
		{
			"flags that are null", `{"continue_final_message":null,"model":"m","messages":[{"role":"user"}],"max_tokens":null}`, "a", 1,
			`{"add_generation_prompt":false,"continue_final_message":true,"model":"m","messages":[{"role":"user"},{"role":"assistant","content":"a"}],"max_tokens":null}`,
		},
		{
			"white space at the end is left out", `{"model":"m","messages":[{"role":"user"}]}`, "a b\n\n ", 1,
			`{"add_generation_prompt":false,"continue_final_message":true,"model":"m","messages":[{"role":"user"},{"role":"assistant","content":"a b"}]}`,
		},
		{
			"of two the last counts", `{"model":"m","tools":[1],"tools":null,"messages":[],"max_tokens":1,"max_tokens":9,"messages":[{"role":"user"}]}`, "a", 4,
			`{"add_generation_prompt":false,"continue_final_message":true,"model":"m","tools":null,"messages":[{"role":"user"},{"role":"assistant","content":"a"}],"max_tokens":5}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := mustRead(t, "/v1/chat/completions", tt.body, 0)
			got, ok := r.Continuation([]byte(tt.body), tt.text, tt.spent)
			if !ok {
				t.Fatal("refused")
			}
			if g, w := decoded(t, got), decoded(t, []byte(tt.want)); !reflect.DeepEqual(g, w) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if again, err := Read(r.Path, got, 0); err != nil || again.Model != r.Model || again.Stream != r.Stream {
				t.Errorf("reads as %+v, %v", again, err)
			}
		})
	}
}

func decoded(t testing.TB, b []byte) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return m
}

func TestContinuationOfARewrittenBody(t *testing.T) {
	body := []byte(`{"model":"alias","messages":[{"role":"user","content":"hi"}],"stream":true}`)
	r := mustRead(t, "/v1/chat/completions", string(body), 0)
	got, ok := r.Continuation(r.Rewrite(body, "a/longer/name", true, 0), "a", 1)
	want := `{"continue_final_message":true,"add_generation_prompt":false,"stream_options":{"include_usage":true},"model":"a/longer/name",` +
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"a"}],"stream":true}`
	if !ok || string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestContinuationRefuses(t *testing.T) {
	with := func(member string) string {
		return `{"model":"m","messages":[{"role":"user","content":"hi"}],` + member + `}`
	}
	tests := []struct{ name, path, body, text string }{
		{"another shape", "/v1/completions", `{"model":"m","prompt":"hi"}`, "a"},
		{"Anthropic's shape", "/v1/messages", with(`"max_tokens":9`), "a"},
		{"no text", "/v1/chat/completions", with(`"x":1`), ""},
		{"white space alone", "/v1/chat/completions", with(`"x":1`), " \n"},
		{"several answers", "/v1/chat/completions", with(`"n":2`), "a"},
		{"the best of several", "/v1/chat/completions", with(`"best_of":2`), "a"},
		{"beams", "/v1/chat/completions", with(`"use_beam_search":true`), "a"},
		{"tools", "/v1/chat/completions", with(`"tools":[{}]`), "a"},
		{"functions", "/v1/chat/completions", with(`"functions":[{}]`), "a"},
		{"JSON wanted", "/v1/chat/completions", with(`"response_format":{"type":"json_object"}`), "a"},
		{"a format of no type", "/v1/chat/completions", with(`"response_format":{}`), "a"},
		{"a grammar", "/v1/chat/completions", with(`"guided_regex":"a*"`), "a"},
		{"structured output", "/v1/chat/completions", with(`"structured_outputs":{"choice":["a"]}`), "a"},
		{"an echo", "/v1/chat/completions", with(`"echo":true`), "a"},
		{"a continuation already", "/v1/chat/completions", with(`"continue_final_message":true`), "a"},
		{"no generation prompt", "/v1/chat/completions", with(`"add_generation_prompt":false`), "a"},
		{"the limit reached", "/v1/chat/completions", with(`"max_tokens":7`), "a"},
		{"the assistant spoke last", "/v1/chat/completions", `{"model":"m","messages":[{"role":"assistant","content":"I"}]}`, "a"},
		{"no messages", "/v1/chat/completions", `{"model":"m","messages":[]}`, "a"},
		{"messages that are none", "/v1/chat/completions", `{"model":"m","messages":["hi"]}`, "a"},
		{"messages missing", "/v1/chat/completions", `{"model":"m"}`, "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := mustRead(t, tt.path, tt.body, 0)
			if got, ok := r.Continuation([]byte(tt.body), tt.text, 7); ok || got != nil {
				t.Errorf("continued: %s", got)
			}
		})
	}
	r := mustRead(t, "/v1/chat/completions", with(`"x":1`), 0)
	for _, body := range []string{``, `[]`, `{"messages":[{"role":"user"}]`} {
		if got, ok := r.Continuation([]byte(body), "a", 1); ok {
			t.Errorf("a body of %q is continued: %s", body, got)
		}
	}
	if _, ok := r.Continuation([]byte(with(`"x":1`)), "a", -1); ok {
		t.Error("less than nothing was spent")
	}
}

func TestTail(t *testing.T) {
	for text, want := range map[string]string{"": "", "a": "", "a ": " ", "a\n\t\r\n ": "\n\t\r\n ", " \n": " \n", " a": "", "a\u00a0": ""} {
		if got := Tail(text); got != want {
			t.Errorf("tail of %q is %q, want %q", text, got, want)
		}
	}
}

// FuzzContinuation: what comes out is JSON that differs from the request in what it says it does.
func FuzzContinuation(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":50}`), "Hello\n", int64(3))
	f.Add([]byte(`{"max_completion_tokens":50,"model":"m","messages":[ {"role":"a"},{"role":"system"}],"continue_final_message":false}`), "\xff\"\\", int64(0))
	f.Add([]byte(`{"messages":[1],"model":"m","add_generation_prompt":true,"messages":[{"role":"user","role":"x"}],"min_tokens":1e1}`), "é", int64(9))
	f.Fuzz(func(t *testing.T, body []byte, text string, spent int64) {
		r, err := Read("/v1/chat/completions", body, 0)
		if err != nil || len(text) > 1<<16 {
			return
		}
		got, ok := r.Continuation(body, text, spent)
		if !ok {
			return
		}
		before, after := decoded(t, body), decoded(t, got)
		messages, _ := before["messages"].([]any)
		said := text[:len(text)-len(Tail(text))]
		if !utf8.ValidString(said) {
			said = string(bytes.ToValidUTF8([]byte(said), []byte("?")))
		}
		list, _ := after["messages"].([]any)
		if len(list) != len(messages)+1 || len(messages) > 0 && !reflect.DeepEqual(list[:len(messages)], messages) {
			t.Fatalf("messages %v became %v", messages, list)
		}
		last, _ := list[len(messages)].(map[string]any)
		if content, _ := last["content"].(string); last["role"] != "assistant" || utf8.ValidString(text) && content != said {
			t.Fatalf("the last message is %v, want %q", last, said)
		}
		for _, name := range []string{"max_tokens", "max_completion_tokens", "min_tokens"} {
			n, there := before[name].(float64)
			left, still := after[name].(float64)
			if there != still || there && left != max(n-float64(spent), 0) {
				t.Fatalf("%s of %v became %v with %d spent", name, before[name], after[name], spent)
			}
		}
		if after["continue_final_message"] != true || after["add_generation_prompt"] != false {
			t.Fatalf("flags of %s", got)
		}
		for _, name := range []string{"messages", "max_tokens", "max_completion_tokens", "min_tokens", "continue_final_message", "add_generation_prompt"} {
			delete(before, name)
			delete(after, name)
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%v became %v", before, after)
		}
	})
}
