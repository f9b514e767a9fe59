package inference

import (
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	tests := []struct {
		name, data string
		want       Frame
	}{
		{"done", `[DONE]`, Frame{Kind: Done}},
		{"nothing", ``, Frame{Kind: Lifecycle}},
		{"what isn't JSON", `hello`, Frame{Kind: Content, Malformed: true}},
		{"half JSON", `{"choices":[`, Frame{Kind: Content, Malformed: true}},
		{"JSON that is no object", `"hello"`, Frame{Kind: Content}},

		{"chat: role", `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`, Frame{Kind: Role}},
		{"chat: role alone", `{"choices":[{"delta":{"role":"assistant"}}]}`, Frame{Kind: Role}},
		{"chat: content", `{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}],"usage":null}`, Frame{Kind: Content}},
		{"chat: content of the second choice", `{"choices":[{"index":0,"delta":{}},{"index":1,"delta":{"content":"Hi"}}]}`, Frame{Kind: Content}},
		{"chat: reasoning", `{"choices":[{"delta":{"reasoning_content":"hm"}}]}`, Frame{Kind: Content}},
		{"chat: tool call", `{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}`, Frame{Kind: Content}},
		{"chat: no tool calls", `{"choices":[{"delta":{"tool_calls":[],"content":null}}]}`, Frame{Kind: Role}},
		{"chat: finish", `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, Frame{Kind: Finish, FinishReason: true}},
		{"chat: last content and finish", `{"choices":[{"delta":{"content":"."},"finish_reason":"length"}]}`, Frame{Kind: Content, FinishReason: true}},
		{
			"chat: usage", `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":8}}}`,
			Frame{Kind: UsageOnly, UsageOnly: true, HasUsage: true, Usage: Usage{10, 8, 5}},
		},
		{
			"chat: usage with each chunk", `{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":null}}`,
			Frame{Kind: Content, HasUsage: true, Usage: Usage{10, 0, 1}},
		},
		{"chat: no choices, no usage", `{"choices":[],"prompt_filter_results":[]}`, Frame{Kind: Lifecycle}},
		{"chat: error", `{"error":{"message":"out of memory","code":500}}`, Frame{Kind: Error}},
		{"chat: error by object", `{"object":"error","message":"x"}`, Frame{Kind: Error}},
		{"chat: no error", `{"error":null,"choices":[{"delta":{"content":"a"}}]}`, Frame{Kind: Content}},

		{"completion: text", `{"object":"text_completion","choices":[{"text":"a","finish_reason":null}]}`, Frame{Kind: Content}},
		{"completion: empty", `{"choices":[{"text":"","finish_reason":null}]}`, Frame{Kind: Role}},
		{"completion: finish", `{"choices":[{"text":"","finish_reason":"stop"}]}`, Frame{Kind: Finish, FinishReason: true}},

		{"response: created", `{"type":"response.created","response":{"id":"r","usage":null}}`, Frame{Kind: Lifecycle}},
		{"response: item", `{"type":"response.output_item.added","item":{"type":"message"}}`, Frame{Kind: Lifecycle}},
		{"response: text", `{"type":"response.output_text.delta","delta":"Hi"}`, Frame{Kind: Content}},
		{"response: empty text", `{"type":"response.output_text.delta","delta":""}`, Frame{Kind: Lifecycle}},
		{"response: arguments", `{"type":"response.function_call_arguments.delta","delta":"{"}`, Frame{Kind: Content}},
		{"response: unknown", `{"type":"response.hologram.delta","delta":{"x":1}}`, Frame{Kind: Content}},
		{
			"response: completed", `{"type":"response.completed","response":{"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":4},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":1}}}}`,
			Frame{Kind: Done, FinishReason: true, HasUsage: true, Usage: Usage{7, 4, 3}},
		},
		{"response: incomplete", `{"type":"response.incomplete","response":{}}`, Frame{Kind: Done, FinishReason: true}},
		{"response: failed", `{"type":"response.failed","response":{"error":{"code":"x"}}}`, Frame{Kind: Error}},

		{
			"message: start", `{"type":"message_start","message":{"role":"assistant","usage":{"input_tokens":3,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,"output_tokens":1}}}`,
			Frame{Kind: Lifecycle, HasUsage: true, Usage: Usage{123, 100, 1}},
		},
		{"message: ping", `{"type": "ping"}`, Frame{Kind: Lifecycle}},
		{"response: keep-alive", `{"type":"keepalive","sequence_number":466}`, Frame{Kind: Lifecycle}},
		{"response: reasoning begins", `{"type":"response.reasoning_part.added","part":{"type":"reasoning_text","text":""}}`, Frame{Kind: Lifecycle}},
		{"message: block", `{"type":"content_block_start","content_block":{"type":"text","text":""}}`, Frame{Kind: Lifecycle}},
		{"message: text", `{"type":"content_block_delta","delta":{"type":"text_delta","text":"Hi"}}`, Frame{Kind: Content}},
		{
			"message: delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}`,
			Frame{Kind: Finish, FinishReason: true, HasUsage: true, Usage: Usage{0, 0, 15}},
		},
		{"message: stop", `{"type":"message_stop"}`, Frame{Kind: Done}},
		{"message: error", `{"type":"error","error":{"type":"overloaded_error"}}`, Frame{Kind: Error}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Classify([]byte(tt.data))
			got.Plain, got.ID, got.Created, got.Model, got.text = false, [2]int{}, [2]int{}, [2]int{}, span{}
			if got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestTextStandsWhereTheFrameSays(t *testing.T) {
	for data, want := range map[string]struct {
		text  string
		plain bool
	}{
		`{"choices":[{"delta":{"content":"a\nb"}}]}`:                          {`"a\nb"`, true},
		` {"choices":[{"text":"a","logprobs":null}]}`:                         {`"a"`, true},
		`{"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{}]}}]}`: {`"a"`, false},
		`{"choices":[{"delta":{"role":"assistant"}}]}`:                        {"", false},
	} {
		f := Classify([]byte(data))
		if from, to := f.TextAt(); data[from:to] != want.text || f.Plain != want.plain {
			t.Errorf("%s: %q, plain %v", data, data[from:to], f.Plain)
		}
	}
}

func TestUsageOf(t *testing.T) {
	tests := []struct {
		name, body string
		want       Usage
		ok         bool
	}{
		{"OpenAI", `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":12,"prompt_tokens_details":{"audio_tokens":1,"cached_tokens":4}}}`, Usage{9, 4, 12}, true},
		{"responses", `{"object":"response","usage":{"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":3}}}`, Usage{9, 3, 2}, true},
		{"Anthropic", `{"type":"message","usage":{"input_tokens":5,"cache_read_input_tokens":10,"output_tokens":2}}`, Usage{15, 10, 2}, true},
		{"DeepSeek", `{"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_cache_hit_tokens":6,"prompt_cache_miss_tokens":3}}`, Usage{9, 6, 2}, true},
		{"numbers in full", `{"usage":{"prompt_tokens":12345678,"completion_tokens":2147483648}}`, Usage{12345678, 0, 2147483648}, true},
		{"cut short", `{"usage":{"prompt_tokens":9}`, Usage{}, false},
		{"and more", `{"usage":{"prompt_tokens":9}}}`, Usage{}, false},
		{"embeddings", `{"data":[],"usage":{"prompt_tokens":8,"total_tokens":8}}`, Usage{8, 0, 0}, true},
		{"none", `{"choices":[]}`, Usage{}, false},
		{"null", `{"usage":null}`, Usage{}, false},
		{"empty", `{"usage":{}}`, Usage{}, false},
		{"nested elsewhere", `{"x":{"usage":{"prompt_tokens":8}}}`, Usage{}, false},
		{"last wins", `{"usage":{"prompt_tokens":1},"usage":{"prompt_tokens":2}}`, Usage{2, 0, 0}, true},
		{"absurd numbers", `{"usage":{"prompt_tokens":-5,"completion_tokens":1e99}}`, Usage{}, true},
		{"more cached than there was", `{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":50}}}`, Usage{5, 5, 0}, true},
		{"a list", `[{"usage":{"prompt_tokens":1}}]`, Usage{}, false},
		{"not JSON", `<html>`, Usage{}, false},
		{"nothing", ``, Usage{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := UsageOf([]byte(tt.body)); got != tt.want || ok != tt.ok {
				t.Errorf("got %+v, %v; want %+v, %v", got, ok, tt.want, tt.ok)
			}
			for size := 1; size <= len(tt.body)+1; size++ {
				if got, ok := tallied([]byte(tt.body), size).Usage(); got != tt.want || ok != tt.ok {
					t.Fatalf("in pieces of %d: got %+v, %v; want %+v, %v", size, got, ok, tt.want, tt.ok)
				}
			}
		})
	}
}

func TestIsError(t *testing.T) {
	tests := []struct {
		name, body string
		want       bool
	}{
		{"an error", `{"error":{"message":"out of memory","type":"server_error"}}`, true},
		{"an error as text", ` { "error" : "out of memory" } `, true},
		{"vLLM's of old", `{"object":"error","message":"x","code":400}`, true},
		{"Anthropic's", `{"type":"error","error":{"type":"overloaded_error"}}`, true},
		{"a response that failed", `{"id":"r","object":"response","status":"failed","error":{"code":"x"},"output":[]}`, true},
		{"an answer", `{"id":"c","object":"chat.completion","choices":[{"message":{"content":"error"}}]}`, false},
		{"a response", `{"id":"r","object":"response","error":null,"output":[],"text":{}}`, false},
		{"an empty error", `{"error":{},"id":"x"}`, false},
		{"what comes after the answer", `{"choices":[],"error":{"message":"x"}}`, false},
		{"embeddings", `{"object":"list","data":[{"embedding":[1.5]}]}`, false},
		{"a message", `{"type":"message","content":[]}`, false},
		{"an error deeper down", `{"x":{"error":{"message":"x"}}}`, false},
		{"a list", `[{"error":1}]`, false},
		{"half of an error", `{"error":{"message":"x"`, false},
		{"no JSON", `error`, false},
		{"nothing", ``, false},
		{"no members", `{}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := IsError([]byte(tt.body)); got != tt.want {
				t.Errorf("%s is an error: %v", tt.body, got)
			}
		})
	}
}

func TestUsageMerge(t *testing.T) {
	start, end := Usage{123, 100, 1}, Usage{0, 0, 15}
	if got := start.Merge(end); got != (Usage{123, 100, 15}) {
		t.Errorf("merged to %+v", got)
	}
}

// A reply of each shape, told as the kinds of its events.
func TestStreamsAsTold(t *testing.T) {
	tests := []struct{ name, stream, want string }{
		{
			"chat",
			"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n" +
				"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n" +
				"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
				"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n" +
				"data: [DONE]\n\n",
			"role content finish usage done",
		},
		{
			"messages",
			"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n" +
				"event: ping\ndata: {\"type\":\"ping\"}\n\n" +
				"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"Hi\"}}\n\n" +
				"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
			"lifecycle lifecycle content done",
		},
		{
			"a gateway that keeps the line busy",
			": PROCESSING\n\ndata: {\"error\":{\"message\":\"gone\"}}\n\n",
			"lifecycle error",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var kinds []string
			for e := NewEvents(strings.NewReader(tt.stream)); ; {
				ev, err := e.Next()
				if err != nil {
					break
				}
				kinds = append(kinds, Classify(ev.Data).Kind.String())
			}
			if got := strings.Join(kinds, " "); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
	if got := Kind(99).String(); got != "kind 99" {
		t.Errorf("unknown kind is %q", got)
	}
}

func BenchmarkClassify(b *testing.B) {
	for name, data := range map[string]string{
		"chat":       `{"id":"chatcmpl-3f9c2a7d51b84e0c9b7f","object":"chat.completion.chunk","created":1764400000,"model":"llama-3.1-8b","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"system_fingerprint":"fp_44709d6fcb"}`,
		"completion": `{"id":"cmpl-3f9c2a7d51b84e0c9b7f","object":"text_completion","created":1764400000,"model":"llama-3.1-8b","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null}]}`,
		"usage":      `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764400000,"model":"llama-3.1-8b","choices":[],"usage":{"prompt_tokens":21,"total_tokens":23,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":16}}}`,
		"message":    `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`,
		"response":   `{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hi"}`,
	} {
		b.Run(name, func(b *testing.B) {
			d := []byte(data)
			b.SetBytes(int64(len(d)))
			b.ReportAllocs()
			for b.Loop() {
				if Classify(d).Kind == Error {
					b.Fatal("an error")
				}
			}
		})
	}
}
