package modelserver

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func parser(t *testing.T) *endpoint {
	t.Helper()
	s, err := New(twoPods)
	if err != nil {
		t.Fatal(err)
	}
	return s.endpoints[0]
}

func parsed(t *testing.T, a api, body string) generation {
	t.Helper()
	g, err := parser(t).parse(a, []byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return g
}

func TestParseCountsTokens(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`{"model":"llama-3.1-8b","prompt":"1234"}`:                               1,
		`{"model":"llama-3.1-8b","prompt":"12345"}`:                              2,
		`{"model":"llama-3.1-8b","prompt":[1,2,3]}`:                              3,
		`{"model":"llama-3.1-8b","prompt":[128000,128001,999999999,-7]}`:         4,
		`{"model":"llama-3.1-8b","prompt":["` + strings.Repeat("x", 400) + `"]}`: 100,
	} {
		if g := parsed(t, completionAPI, body); g.request.PromptTokens != want {
			t.Errorf("%.60s: %d tokens, want %d", body, g.request.PromptTokens, want)
		}
	}
}

func TestWhiteSpaceAndOrderOfFieldsDoNotMatterToTheCache(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("some long text ", 40)
	a := parsed(t, chatAPI, `{"model":"llama-3.1-8b","messages":[{"role":"user","content":"`+text+`"}]}`)
	b := parsed(t, chatAPI, "{\n \"messages\": [ {\"content\": \""+text+"\", \"role\": \"user\"} ],\n \"temperature\": 1, \"model\": \"llama-3.1-8b\" }")
	if len(a.request.Blocks) < 5 || !slices.Equal(a.request.Blocks, b.request.Blocks) || a.seed != b.seed {
		t.Errorf("%d and %d blocks differ", len(a.request.Blocks), len(b.request.Blocks))
	}
}

func TestConversationGrowsAtItsEnd(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("some long text ", 40)
	first := `{"role":"user","content":"` + text + `"}`
	more := first + `,{"role":"assistant","content":"yes "},{"role":"user","content":"and then?"}`
	a := parsed(t, chatAPI, `{"model":"llama-3.1-8b","messages":[`+first+`]}`)
	b := parsed(t, chatAPI, `{"model":"llama-3.1-8b","messages":[`+more+`]}`)
	shared := 0
	for i := range min(len(a.request.Blocks), len(b.request.Blocks)) {
		if a.request.Blocks[i] == b.request.Blocks[i] {
			shared++
		}
	}
	if shared < len(a.request.Blocks)-1 {
		t.Errorf("%d of %d blocks are shared with the next turn", shared, len(a.request.Blocks))
	}
}

func TestAdapterAndSaltSeparateCaches(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("some long text ", 40)
	blocks := map[uint64]string{}
	for _, c := range [][2]string{{"llama-3.1-8b", ""}, {"support-lora", ""}, {"legal-lora", ""}, {"llama-3.1-8b", "s1"}, {"llama-3.1-8b", "s2"}} {
		g := parsed(t, completionAPI, `{"model":"`+c[0]+`","cache_salt":"`+c[1]+`","prompt":"`+text+`"}`)
		if other, ok := blocks[g.request.Blocks[0]]; ok {
			t.Errorf("%v shares its first block with %s", c, other)
		}
		blocks[g.request.Blocks[0]] = c[0] + c[1]
		if wantAdapter := strings.HasSuffix(c[0], "-lora"); (g.request.Adapter != "") != wantAdapter {
			t.Errorf("%v has adapter %q", c, g.request.Adapter)
		}
	}
}

func TestUsageIsOnlyForStreamsThatAsk(t *testing.T) {
	t.Parallel()
	for more, want := range map[string][2]bool{
		``:                                     {false, false},
		`,"stream":true`:                       {true, false},
		`,"stream":false`:                      {false, false},
		`,"stream":true,"stream_options":null`: {true, false},
		`,"stream":true,"stream_options":{"include_usage":true}`:   {true, true},
		`,"stream":true,"stream_options":{"include_usage":false}`:  {true, false},
		`,"stream":false,"stream_options":{"include_usage":true}`:  {false, false},
		`,"stream":true,"stream_options":{"unknown_option":"yes"}`: {true, false},
	} {
		g := parsed(t, chatAPI, chat("llama-3.1-8b", "hi", more))
		if g.stream != want[0] || g.wantUsage != want[1] {
			t.Errorf("%s: stream %v, usage %v", more, g.stream, g.wantUsage)
		}
	}
	if g := parsed(t, embeddingAPI, `{"model":"llama-3.1-8b","input":"x","stream":true}`); g.stream {
		t.Error("an embedding is streamed")
	}
}

func TestProblemNamesTheParameter(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"model":"nobody","messages":[]}`:                                          "model",
		`{"model":"llama-3.1-8b","messages":[]}`:                                    "messages",
		`{"model":"llama-3.1-8b","messages":[{"role":"user","content":{"a":1}}]}`:   "messages",
		`{"model":"llama-3.1-8b","messages":[{"content":"x"}],"n":0}`:               "n",
		`{"model":"llama-3.1-8b","messages":[{"content":"x"}],"max_tokens":-1}`:     "max_tokens",
		`{"model":"llama-3.1-8b","messages":[{"content":"x"}],"max_tokens":131072}`: "max_tokens",
		`{"model":"llama-3.1-8b","messages":"x"}`:                                   "messages",
	} {
		_, err := parser(t).parse(chatAPI, []byte(body))
		var p *problem
		if !errors.As(err, &p) || p.param != want {
			t.Errorf("%s: %v names %q, want %q", body, err, p.param, want)
		}
	}
}

func TestNaturalLength(t *testing.T) {
	t.Parallel()
	lowest, highest := 1<<30, 0
	for seed := range uint64(10000) {
		n := naturalLength(seed * 2654435761)
		lowest, highest = min(lowest, n), max(highest, n)
	}
	if lowest != 32 || highest != 256 {
		t.Errorf("answers are %d to %d tokens long", lowest, highest)
	}
}
