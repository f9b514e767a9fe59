package inference

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func mustRead(t *testing.T, path, body string, salt uint64) Request {
	t.Helper()
	r, err := Read(path, []byte(body), salt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const long = 5000

func words(seed string, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s%d ", seed, i)
	}
	return b.String()[:n]
}

func TestSamePromptSameBlocks(t *testing.T) {
	system, ask := words("s", long), words("u", long)
	base := fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}]}`, system, ask)
	escaped := `\u0073` + system[1:]
	same := map[string]string{
		"white space": fmt.Sprintf("{ \"model\": \"m\",\n\"messages\": [ { \"role\": \"system\", \"content\": \"%s\" } , {\"role\":\"user\",\"content\":\"%s\"}]}", system, ask),
		"order":       fmt.Sprintf(`{"messages":[{"content":"%s","role":"system"},{"content":"%s","role":"user"}],"model":"m"}`, system, ask),
		"escapes":     fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}]}`, escaped, ask),
		"parts":       fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":[{"type":"text","text":"%s"}]},{"role":"user","content":[{"text":"%s","type":"text"}]}]}`, system, ask),
		"options":     fmt.Sprintf(`{"model":"m","temperature":0.5,"stream":true,"messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}]}`, system, ask),
		"twice":       fmt.Sprintf(`{"model":"m","messages":[{"role":"x","role":"system","content":"%s"},{"role":"user","content":"%s"}]}`, system, ask),
	}
	want := mustRead(t, "/v1/chat/completions", base, 1)
	if len(want.Blocks) != 2*long/BlockBytes {
		t.Fatalf("%d blocks", len(want.Blocks))
	}
	for name, body := range same {
		if got := mustRead(t, "/v1/chat/completions", body, 1); !slices.Equal(got.Blocks, want.Blocks) || got.PromptBytes != want.PromptBytes {
			t.Errorf("%s: %d blocks of %d B, want the same as %d of %d B", name, len(got.Blocks), got.PromptBytes, len(want.Blocks), want.PromptBytes)
		}
	}
}

func TestDifferentPromptsPartWhereTheyDiffer(t *testing.T) {
	body := func(system, ask string) string {
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}]}`, system, ask)
	}
	shared := words("s", 3*BlockBytes)
	a := mustRead(t, "/v1/chat/completions", body(shared, words("a", long)), 1).Blocks
	b := mustRead(t, "/v1/chat/completions", body(shared, words("b", long)), 1).Blocks
	if !slices.Equal(a[:3], b[:3]) {
		t.Error("three blocks of shared text differ")
	}
	for i := 3; i < len(a); i++ {
		if a[i] == b[i] {
			t.Errorf("block %d is the same after the texts parted", i)
		}
	}
}

func TestWhatSeparatesChains(t *testing.T) {
	text := words("t", long)
	base := fmt.Sprintf(`{"model":"m","prompt":"%s"}`, text)
	first := func(path, body string, salt uint64) uint64 { return mustRead(t, path, body, salt).Blocks[0] }
	want := first("/v1/completions", base, 1)
	if first("/v1/completions", base, 2) == want {
		t.Error("another tenant's salt gives the same chain")
	}
	if first("/v1/completions", strings.Replace(base, `"m"`, `"n"`, 1), 1) != want {
		t.Error("another name of the model gives another chain")
	}
	user := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%s"}]}`, text)
	system := strings.Replace(user, `"user"`, `"system"`, 1)
	if first("/v1/chat/completions", user, 1) == first("/v1/chat/completions", system, 1) {
		t.Error("another role gives the same chain")
	}
	tools := `{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],` + user[1:]
	if first("/v1/chat/completions", tools, 1) == first("/v1/chat/completions", user, 1) {
		t.Error("tools stand before the conversation and must part the chains")
	}
	turned := `{"tools":[{"function":{"parameters":{"type":"object"},"name":"f"},"type":"function"}],` + user[1:]
	if first("/v1/chat/completions", tools, 1) != first("/v1/chat/completions", turned, 1) {
		t.Error("the order of a tool's fields must not matter")
	}
}

func TestPromptBytes(t *testing.T) {
	tests := []struct {
		name, path, body string
		want             int
	}{
		{"a string", "/v1/completions", `{"model":"m","prompt":"hello"}`, 5},
		{"escapes count as what they are", "/v1/completions", `{"model":"m","prompt":"\u00e9\n"}`, 3},
		{"strings", "/v1/embeddings", `{"model":"m","input":["ab","cd"]}`, 4},
		{"token numbers", "/v1/completions", `{"model":"m","prompt":[128000,5,17]}`, 12},
		{"lists of token numbers", "/v1/completions", `{"model":"m","prompt":[[1,2],[3]]}`, 12},
		{"a message", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, len("role") + len("user") + len("hi")},
		{"an image counts the same whatever its size", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 9999) + `"}}]}]}`, 8 + opaqueBytes},
		{"Anthropic's system", "/v1/messages", `{"model":"m","system":[{"type":"text","text":"abc"}],"messages":[]}`, 3},
		{"instructions and input", "/v1/responses", `{"model":"m","instructions":"abc","input":"de"}`, 5},
		{"null", "/v1/completions", `{"model":"m","prompt":null}`, 0},
		{"nothing", "/v1/completions", `{"model":"m"}`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := mustRead(t, tt.path, tt.body, 0).PromptBytes; got != tt.want {
				t.Errorf("%d bytes, want %d", got, tt.want)
			}
		})
	}
}

func TestImagesPartChains(t *testing.T) {
	body := func(image string) string {
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"%s"}},{"type":"text","text":"%s"}]}]}`, image, words("t", long))
	}
	a, b := mustRead(t, "/v1/chat/completions", body("x"), 1), mustRead(t, "/v1/chat/completions", body("y"), 1)
	if a.Blocks[0] == b.Blocks[0] {
		t.Error("another image gives the same chain")
	}
}

func TestChainIsBounded(t *testing.T) {
	r := mustRead(t, "/v1/completions", fmt.Sprintf(`{"model":"m","prompt":"%s"}`, strings.Repeat("a", 3<<20)), 1)
	if len(r.Blocks) != MaxBlocks || r.PromptBytes != 3<<20 {
		t.Errorf("%d blocks of %d bytes", len(r.Blocks), r.PromptBytes)
	}
}

// Nesting makes each level read what is within it again; that must stay cheap.
func TestDeepNestingIsCheap(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 900) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 900)
	r := mustRead(t, "/v1/chat/completions", `{"model":"m","tools":[`+deep+`]}`, 1)
	if r.PromptBytes < 1<<20 {
		t.Errorf("%d bytes", r.PromptBytes)
	}
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		body := []byte(fmt.Sprintf(`{"model":"llama","messages":[{"role":"system","content":"You help."},{"role":"user","content":"%s"}],"stream":true}`, words("w", size)))
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read("/v1/chat/completions", body, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
