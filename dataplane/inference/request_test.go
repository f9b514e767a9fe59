package inference

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestReadFields(t *testing.T) {
	tests := []struct {
		name, path, body string
		want             Request
	}{
		{
			name: "a plain chat", path: "/v1/chat/completions",
			body: `{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
			want: Request{API: Chat, Model: "m", Choices: 1},
		},
		{
			name: "fields in any order, with white space", path: "/v1/chat/completions",
			body: " {\n \"messages\" : [ ] , \"stream\" : true,\t\"stream_options\" : { \"include_usage\" : true } , \"model\" : \"m\" }\r\n",
			want: Request{API: Chat, Model: "m", Stream: true, IncludeUsage: true, HasStreamOptions: true, Choices: 1},
		},
		{
			name: "the last of two counts", path: "/v1/completions",
			body: `{"model":"first","stream":true,"model":"last","stream":false}`,
			want: Request{API: Completions, Model: "last", Choices: 1},
		},
		{
			name: "escapes in names and values", path: "/v1/completions",
			body: `{"\u006dodel":"m\u0041\n","prompt_cache_key":"k\"","user":7}`,
			want: Request{API: Completions, Model: "mA\n", CacheKey: `k"`, Choices: 1},
		},
		{
			name: "fields within other values don't count", path: "/v1/completions",
			body: `{"model":"m","metadata":{"model":"x","stream":true,"max_tokens":9},"stop":["\"model\":\"y\""]}`,
			want: Request{API: Completions, Model: "m", Choices: 1},
		},
		{
			name: "names are compared exactly", path: "/v1/completions",
			body: `{"model":"m","Model":"x","STREAM":true}`,
			want: Request{API: Completions, Model: "m", Choices: 1},
		},
		{
			name: "the largest limit counts", path: "/v1/responses",
			body: `{"model":"m","max_tokens":10,"max_completion_tokens":1e3,"max_output_tokens":20.0,"n":4}`,
			want: Request{API: Responses, Model: "m", MaxTokens: 1000, Choices: 4},
		},
		{
			name: "null is the same as nothing", path: "/v1/messages",
			body: `{"model":"m","stream":null,"stream_options":null,"max_tokens":null,"n":null,"user":null,"prompt_cache_key":null}`,
			want: Request{API: Messages, Model: "m", Choices: 1},
		},
		{
			name: "what the server judges is left to it", path: "/v1/anything",
			body: `{"model":"m","temperature":"hot","messages":7,"user":5}`,
			want: Request{API: Other, Model: "m", Choices: 1},
		},
		{
			name: "embeddings", path: "/v1/embeddings/",
			body: `{"model":"m","input":["a","b"]}`,
			want: Request{API: Embeddings, Model: "m", Choices: 1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Read(tt.path, []byte(tt.body), 1)
			if err != nil {
				t.Fatal(err)
			}
			if quoted := tt.body[got.ModelAt[0]:got.ModelAt[1]]; string(text(nil, []byte(quoted))) != tt.want.Model {
				t.Errorf("ModelAt covers %s", quoted)
			}
			tt.want.Path = tt.path
			got.ModelAt, got.streamOptionsAt, got.includeUsageAt = [2]int{}, span{}, span{}
			got.PromptBytes, got.Blocks = 0, nil
			if want := tt.want; got.Path != want.Path || got.API != want.API || got.Model != want.Model || got.Stream != want.Stream ||
				got.IncludeUsage != want.IncludeUsage || got.HasStreamOptions != want.HasStreamOptions || got.MaxTokens != want.MaxTokens ||
				got.Choices != want.Choices || got.CacheKey != want.CacheKey {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	tests := []struct{ name, body, param string }{
		{"nothing", ``, ""},
		{"half a body", `{"model":"m"`, ""},
		{"two bodies", `{"model":"m"}{}`, ""},
		{"a list", `[{"model":"m"}]`, ""},
		{"a string", `"model"`, ""},
		{"too deep", `{"model":"m","x":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + "}", ""},
		{"no model", `{"messages":[]}`, "model"},
		{"a model that isn't a string", `{"model":7}`, "model"},
		{"no model at last", `{"model":"m","model":null}`, "model"},
		{"an empty model", `{"model":""}`, "model"},
		{"a stream that isn't yes or no", `{"model":"m","stream":"true"}`, "stream"},
		{"stream options that aren't an object", `{"model":"m","stream_options":[]}`, "stream_options"},
		{"a usage option that isn't yes or no", `{"model":"m","stream_options":{"include_usage":1}}`, "stream_options.include_usage"},
		{"a negative limit", `{"model":"m","max_tokens":-1}`, "max_tokens"},
		{"half a token", `{"model":"m","max_completion_tokens":0.5}`, "max_completion_tokens"},
		{"a limit in words", `{"model":"m","max_output_tokens":"many"}`, "max_output_tokens"},
		{"a limit beyond measure", `{"model":"m","max_tokens":1e300}`, "max_tokens"},
		{"a limit beyond float64", `{"model":"m","max_tokens":1e999}`, "max_tokens"},
		{"choices that aren't a number", `{"model":"m","n":true}`, "n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read("/v1/chat/completions", []byte(tt.body), 0)
			var p *Problem
			if !errors.As(err, &p) {
				t.Fatalf("error = %v, want a *Problem", err)
			}
			if p.Param != tt.param || p.Message == "" {
				t.Errorf("problem with %q: %s; want with %q", p.Param, p.Message, tt.param)
			}
		})
	}
}

// reference reads the same fields with encoding/json.
type reference struct {
	Model         *string
	Stream        *bool
	StreamOptions map[string]json.RawMessage
	MaxTokens     int64
	Choices       int64
}

func referenceRead(body []byte) (r reference, ok bool) {
	var m map[string]json.RawMessage
	if json.Unmarshal(body, &m) != nil || m == nil {
		return r, false
	}
	whole := func(name string) (int64, bool) {
		var v *float64
		raw, there := m[name]
		if !there {
			return 0, true
		}
		if json.Unmarshal(raw, &v) != nil {
			return 0, false
		}
		if v == nil {
			return 0, true
		}
		if *v < 0 || *v > maxTokensLimit || *v != math.Trunc(*v) {
			return 0, false
		}
		return int64(*v), true
	}
	if json.Unmarshal(m["model"], &r.Model) != nil || r.Model == nil || *r.Model == "" {
		return r, false
	}
	if raw, there := m["stream"]; there && json.Unmarshal(raw, &r.Stream) != nil {
		return r, false
	}
	if raw, there := m["stream_options"]; there {
		if json.Unmarshal(raw, &r.StreamOptions) != nil {
			return r, false
		}
		var usage *bool
		if raw, there := r.StreamOptions["include_usage"]; there && json.Unmarshal(raw, &usage) != nil {
			return r, false
		}
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
		n, ok := whole(name)
		if !ok {
			return r, false
		}
		r.MaxTokens = max(r.MaxTokens, n)
	}
	n, ok := whole("n")
	r.Choices = max(n, 1)
	return r, ok
}

// FuzzRead compares Read with encoding/json, and checks what Rewrite makes of the body.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":false}}`,
		`{"stream_options":{},"stream":true,"model":"m"}`,
		`{"stream_options":null,"stream":true,"model":"m","n":2,"max_tokens":5}`,
		`{"model":"a","model":"b","stream_options":{"include_usage":true},"stream_options":{ "x":1 },"stream":true}`,
		`{"model":"m","prompt":["a",[1,2,3],{"type":"text","text":"x"}],"tools":[{"type":"function","function":{"b":1,"a":2}}]}`,
		`{"model":"m","messages":[{"content":[{"type":"image_url","image_url":{"url":"data:x"}},{"text":"t","type":"text"}],"role":"user"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := Read("/v1/chat/completions", body, 7)
		if check(body) != nil && err == nil {
			t.Fatal("read what isn't JSON")
		}
		if errors.Is(check(body), errDepth) {
			return
		}
		want, ok := referenceRead(body)
		if ok != (err == nil) {
			t.Fatalf("Read = %v, encoding/json ok = %v", err, ok)
		}
		if err != nil {
			return
		}
		if got.Model != *want.Model || got.Stream != (want.Stream != nil && *want.Stream) || got.MaxTokens != want.MaxTokens ||
			got.Choices != want.Choices || got.HasStreamOptions != (want.StreamOptions != nil) {
			t.Fatalf("got %+v, encoding/json %+v", got, want)
		}
		again, err := Read("/v1/chat/completions", body, 7)
		if err != nil || !slices.Equal(again.Blocks, got.Blocks) {
			t.Fatal("reading twice differs")
		}
		rewritten := got.Rewrite(body, "other/model", true, 0)
		after, err := Read("/v1/chat/completions", rewritten, 7)
		if err != nil {
			t.Fatalf("rewritten to %s: %v", rewritten, err)
		}
		if after.Model != "other/model" || after.Stream != got.Stream || after.Stream && !after.IncludeUsage || after.MaxTokens != got.MaxTokens ||
			after.PromptBytes != got.PromptBytes {
			t.Fatalf("rewritten to %s", rewritten)
		}
	})
}
