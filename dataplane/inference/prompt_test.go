package inference

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
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

// Each value is read once, however deep it lies.
func TestDeepNesting(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 900) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 900)
	r := mustRead(t, "/v1/chat/completions", `{"model":"m","tools":[`+deep+`]}`, 1)
	if r.PromptBytes < 1<<20 {
		t.Errorf("%d bytes", r.PromptBytes)
	}
}

// However an image is written down, it is the same image.
func TestImagesAreCanonical(t *testing.T) {
	data := strings.Repeat("iVBORw0KGgo/+A", 10_000)
	text := words("t", long)
	body := func(image string) Request {
		return mustRead(t, "/v1/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":[%s,{"type":"text","text":"%s"}]}]}`, image, text), 1)
	}
	want := body(`{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `","detail":"low"}}`)
	for name, image := range map[string]string{
		"order":       `{"image_url":{"detail":"low","url":"data:image/png;base64,` + data + `"},"type":"image_url"}`,
		"white space": `{ "type" : "image_url" , "image_url" : { "url" : "data:image/png;base64,` + data + `" , "detail" : "low" } }`,
		"escapes":     `{"type":"image_\u0075rl","image_url":{"url":"data:image\/png;base64,` + strings.ReplaceAll(data, "/", `\/`) + `","detail":"low"}}`,
	} {
		if got := body(image); !slices.Equal(got.Blocks, want.Blocks) || got.PromptBytes != want.PromptBytes {
			t.Errorf("%s: another chain, or %d bytes in place of %d", name, got.PromptBytes, want.PromptBytes)
		}
	}
	for name, other := range map[string]string{
		"first bytes": "B" + data[1:], "last bytes": data[:len(data)-1] + "B", "length": data + "iVBO", "detail": data + `","detail":"low","more":"`,
	} {
		if got := body(`{"type":"image_url","image_url":{"url":"data:image/png;base64,` + other + `"}}`); got.Blocks[0] == want.Blocks[0] {
			t.Errorf("another image by its %s gives the same chain", name)
		}
	}
}

func TestPartsOfEachAPI(t *testing.T) {
	const image, text = 8 + opaqueBytes, 8 + len("words") // 8: role and user
	tests := []struct {
		name, path, part string
		want             int
	}{
		{"text", "/v1/chat/completions", `{"type":"text","text":"words"}`, text},
		{"an image", "/v1/chat/completions", `{"type":"image_url","image_url":{"url":"https://x/y.png"}}`, image},
		{"sound", "/v1/chat/completions", `{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`, image},
		{"video, as in vLLM", "/v1/chat/completions", `{"type":"video_url","video_url":{"url":"https://x/y.mp4"}}`, image},
		{"embeddings of an image, as in vLLM", "/v1/chat/completions", `{"type":"image_embeds","image_embeds":"AAAA"}`, image},
		{"a file", "/v1/chat/completions", `{"type":"file","file":{"file_data":"AAAA"}}`, image},
		{"text of a response", "/v1/responses", `{"type":"input_text","text":"words"}`, text},
		{"an image of a response", "/v1/responses", `{"type":"input_image","image_url":"data:x"}`, image},
		{"a file of a response", "/v1/responses", `{"type":"input_file","file_data":"AAAA"}`, image},
		{"an image of Anthropic's", "/v1/messages", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`, image},
		{"a document of Anthropic's", "/v1/messages", `{"type":"document","source":{"type":"base64","data":"AAAA"}}`, image},
		{"a document that is text", "/v1/messages", `{"type":"document","source":{"type":"text","data":"words"}}`, text + len("type"+"document"+"source"+"type"+"text"+"data")},
		{"a tool's result", "/v1/messages", `{"type":"tool_result","content":[{"type":"text","text":"words"}]}`, text + len("type"+"tool_result")},
		{"a tool's picture", "/v1/messages", `{"type":"tool_result","content":[{"type":"image","source":{}}]}`, image + len("type"+"tool_result")},
		{"text that is none", "/v1/messages", `{"type":"text","text":7}`, 8 + len("type"+"text"+"text"+"7")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			field := "messages"
			if tt.path == "/v1/responses" {
				field = "input"
			}
			r := mustRead(t, tt.path, fmt.Sprintf(`{"model":"m","%s":[{"role":"user","content":[%s]}]}`, field, tt.part), 1)
			if r.PromptBytes != tt.want {
				t.Errorf("%d bytes, want %d", r.PromptBytes, tt.want)
			}
		})
	}
}

// tokens is a list of n token numbers, joined by sep.
func tokens(n int, sep string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(sep)
		}
		fmt.Fprint(&b, (i*7919)%128_256)
	}
	return "[" + b.String() + "]"
}

func TestTokensGivenByNumber(t *testing.T) {
	body := func(prompt string) Request {
		return mustRead(t, "/v1/completions", `{"model":"m","prompt":`+prompt+`}`, 1)
	}
	dense, loose := body(tokens(1000, ",")), body(tokens(1000, " ,\n\t"))
	if !slices.Equal(dense.Blocks, loose.Blocks) || len(dense.Blocks) != 1000*tokenBytes/BlockBytes {
		t.Errorf("%d blocks, %d with white space; want %d", len(dense.Blocks), len(loose.Blocks), 1000*tokenBytes/BlockBytes)
	}
	if dense.PromptBytes != 1000*tokenBytes {
		t.Errorf("%d bytes for 1000 tokens", dense.PromptBytes)
	}
	longer := body(tokens(1200, ","))
	if !slices.Equal(longer.Blocks[:3], dense.Blocks) {
		t.Error("more tokens change the blocks before them")
	}
	for name, prompt := range map[string]string{
		"odd numbers": strings.Replace(tokens(1000, ","), ",", ",1e3,-5,2.5,12345678,", 1), "a list in a list": "[" + tokens(1000, ",") + "]",
		"words between": strings.Replace(tokens(1000, ","), ",", `,"x",`, 1),
	} {
		if got := body(prompt); len(got.Blocks) < 3 || got.Blocks[0] == dense.Blocks[0] {
			t.Errorf("%s: %d blocks, or the same", name, len(got.Blocks))
		}
	}
}

func TestChainsDoNotDependOnPieces(t *testing.T) {
	text := []byte(words("w", 3*BlockBytes+100))
	var whole chain
	whole.write(text)
	rapid.Check(t, func(rt *rapid.T) {
		var c chain
		for rest := text; len(rest) > 0; {
			n := min(rapid.SampledFrom([]int{1, 4, 5, 1000, 1019, 1020, 1021, 1023, 1024, 1025, 2048, 3000}).Draw(rt, "n"), len(rest))
			switch n {
			case 1:
				c.writeByte(rest[0])
			case 4:
				c.writeWord(binary.LittleEndian.Uint32(rest))
			default:
				c.write(rest[:n])
			}
			rest = rest[n:]
		}
		if !slices.Equal(c.blocks, whole.blocks) || c.n != whole.n || string(c.block[:c.n]) != string(whole.block[:c.n]) {
			rt.Fatalf("%d blocks and %d bytes, want %d and %d", len(c.blocks), c.n, len(whole.blocks), whole.n)
		}
	})
}
