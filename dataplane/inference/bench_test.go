package inference

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// chat is a body of a chat of about so many bytes: a system text, turns of a kilobyte or so, and text
// with an escape every 80 bytes, as source code and lists have.
func chat(size int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"llama-3.1-8b","messages":[{"role":"system","content":"You are a helpful assistant."}`)
	turn := min(max(size-200, 50), 8000)
	for i := 0; b.Len() < size-100; i++ {
		text := words(fmt.Sprintf("w%d-", i), min(turn, max(size-100-b.Len(), 20)))
		fmt.Fprintf(&b, `,{"role":"%s","content":"`, []string{"user", "assistant"}[i%2])
		for len(text) > 80 {
			b.WriteString(text[:78] + `\n`)
			text = text[80:]
		}
		b.WriteString(text + `"}`)
	}
	b.WriteString(`],"stream":true,"stream_options":{"include_usage":true},"max_tokens":512,"temperature":0.7}`)
	return []byte(b.String())
}

// fieldsOfChat is what encoding/json reads the same fields into.
type fieldsOfChat struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens      int64  `json:"max_tokens"`
	N              int64  `json:"n"`
	PromptCacheKey string `json:"prompt_cache_key"`
	Messages       []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
}

// The scanner, with its check of the whole body and the prompt's hash chain, beside encoding/json,
// which makes no hashes.
func BenchmarkRead(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"0.5KB", 500}, {"20KB", 20_000}, {"1MB", 1_000_000}} {
		body := chat(size.bytes)
		b.Run("size="+size.name+"/by=scanner", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if r, err := Read("/v1/chat/completions", body, 1); err != nil || !r.Stream {
					b.Fatal(r, err)
				}
			}
		})
		b.Run("size="+size.name+"/by=encoding-json", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				var f fieldsOfChat
				if err := json.Unmarshal(body, &f); err != nil || !f.Stream {
					b.Fatal(f, err)
				}
			}
		})
	}
}

// Bodies of other kinds, each of which has a way of its own through the scanner.
func BenchmarkReadShapes(b *testing.B) {
	tool := `{"type":"function","function":{"name":"weather%d","description":"Tells the weather of a place.","parameters":{"type":"object","properties":` +
		`{"place":{"type":"string","description":"A place."},"days":{"type":"integer","minimum":1,"maximum":14}},"required":["place"]}}}`
	var tools []string
	for i := range 50 {
		tools = append(tools, fmt.Sprintf(tool, i))
	}
	message := `"messages":[{"role":"user","content":"How is it in Cork?"}]`
	for _, shape := range []struct{ name, path, body string }{
		{"tools", "/v1/chat/completions", `{"model":"m","tools":[` + strings.Join(tools, ",") + `],` + message + `}`},
		{"tokens=8k", "/v1/completions", `{"model":"m","prompt":` + tokens(8000, ",") + `}`},
		{"image=10MiB", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
			strings.Repeat("iVBORw0KGgoAAAANSUhEUg", 10<<20/22) + `"}},{"type":"text","text":"What is it?"}]}]}`},
	} {
		body := []byte(shape.body)
		b.Run(shape.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read(shape.path, body, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The chain of long prompts, at four bytes a token.
func BenchmarkChain(b *testing.B) {
	for name, tokens := range map[string]int{"8k": 8_000, "100k": 100_000} {
		body := []byte(fmt.Sprintf(`{"model":"m","prompt":"%s"}`, words("w", 4*tokens)))
		b.Run("tokens="+name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if r, err := Read("/v1/completions", body, 1); err != nil || len(r.Blocks) < tokens/300 {
					b.Fatal(len(r.Blocks), err)
				}
			}
		})
	}
}

// A whole answer: is it an error, and what did it use?
func BenchmarkWholeAnswer(b *testing.B) {
	text := words("w", 4000)
	body := []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1764400000,"model":"llama-3.1-8b","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		text + `"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":21,"total_tokens":1021,"completion_tokens":1000}}`)
	b.Run("IsError", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if IsError(body) {
				b.Fatal("an error")
			}
		}
	})
	b.Run("UsageOf", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if u, ok := UsageOf(body); !ok || u.Completion != 1000 {
				b.Fatal(u)
			}
		}
	})
}
