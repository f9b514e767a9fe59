package modelserver

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStreamHasTheShapeOfVLLM(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	chunks := f.stream("/v1/chat/completions", chat("llama-3.1-8b", "hi", `,"stream":true,"max_tokens":5,"stream_options":{"include_usage":true}`))
	var shape []string
	for _, c := range chunks {
		if c.Object != "chat.completion.chunk" || c.Model != "llama-3.1-8b" || !strings.HasPrefix(c.ID, "chatcmpl-") {
			t.Errorf("chunk %+v", c)
		}
		switch {
		case len(c.Choices) == 0 && c.Usage != nil:
			shape = append(shape, "usage")
		case c.Choices[0].FinishReason != nil:
			shape = append(shape, *c.Choices[0].FinishReason)
		case c.Choices[0].Delta.Role != "":
			shape = append(shape, c.Choices[0].Delta.Role)
		default:
			shape = append(shape, "content")
		}
	}
	want := []string{"assistant", "content", "content", "content", "content", "content", "length", "usage"}
	if !slices.Equal(shape, want) {
		t.Errorf("chunks are %v, want %v", shape, want)
	}
	u := chunks[len(chunks)-1].Usage
	if u == nil || u.CompletionTokens != 5 || u.TotalTokens != u.PromptTokens+5 || u.Details == nil {
		t.Errorf("usage %+v", u)
	}
	// Without the option there is no usage.
	for _, c := range f.stream("/v1/chat/completions", chat("llama-3.1-8b", "hi", `,"stream":true,"max_tokens":5`)) {
		if c.Usage != nil || len(c.Choices) == 0 {
			t.Errorf("chunk %+v", c)
		}
	}
}

func TestStreamAndWholeSayTheSame(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	text, n := content(f.stream("/v1/chat/completions", chat("llama-3.1-8b", "tell me more", `,"stream":true`)))
	var reply struct {
		Object  string
		Choices []struct {
			Message      message
			FinishReason string `json:"finish_reason"`
		}
		Usage usage
	}
	status, body := f.post("/v1/chat/completions", chat("llama-3.1-8b", "tell me more", ""))
	if err := json.Unmarshal([]byte(body), &reply); err != nil || status != 200 {
		t.Fatalf("status %d: %v", status, err)
	}
	if reply.Object != "chat.completion" || reply.Choices[0].FinishReason != "stop" || reply.Choices[0].Message.Role != "assistant" {
		t.Errorf("reply %s", body)
	}
	if got := reply.Choices[0].Message.Content; got != text || reply.Usage.CompletionTokens != n {
		t.Errorf("whole: %d tokens %q; stream: %d tokens %q", reply.Usage.CompletionTokens, got, n, text)
	}
	if _, m := content(f.stream("/v1/chat/completions", chat("llama-3.1-8b", "another question", `,"stream":true`))); m < 32 || m > 256 {
		t.Errorf("%d tokens by nature", m)
	}
}

func TestCompletions(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	text, n := content(f.stream("/v1/completions", `{"model":"llama-3.1-8b","prompt":"once","stream":true,"max_tokens":7}`))
	if n != 7 {
		t.Errorf("%d tokens, want 7", n)
	}
	for _, prompt := range []string{`"once"`, `["once"]`} {
		_, body := f.post("/v1/completions", `{"model":"llama-3.1-8b","max_tokens":7,"prompt":`+prompt+`}`)
		var reply struct {
			Object  string
			Choices []struct{ Text string }
			Usage   usage
		}
		if err := json.Unmarshal([]byte(body), &reply); err != nil {
			t.Fatal(err)
		}
		if reply.Object != "text_completion" || reply.Choices[0].Text != text || reply.Usage.PromptTokens != 1 {
			t.Errorf("prompt %s: %s", prompt, body)
		}
	}
	_, body := f.post("/v1/completions", `{"model":"llama-3.1-8b","max_tokens":1,"prompt":[1,22,333,4444,128000]}`)
	if !strings.Contains(body, `"prompt_tokens":5`) {
		t.Errorf("five tokens: %s", body)
	}
}

func TestCachedTokensAreReported(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	long := strings.Repeat("the same beginning, again and again. ", 100)
	cached := func(body string) int {
		_, answer := f.post("/v1/chat/completions", body)
		var reply struct{ Usage usage }
		if err := json.Unmarshal([]byte(answer), &reply); err != nil || reply.Usage.Details == nil {
			t.Fatalf("%v in %s", err, answer)
		}
		return reply.Usage.Details.CachedTokens
	}
	if n := cached(chat("llama-3.1-8b", long, `,"max_tokens":1`)); n != 0 {
		t.Errorf("first time: %d cached", n)
	}
	if n := cached(chat("llama-3.1-8b", long+"and another end", `,"max_tokens":1`)); n < 800 {
		t.Errorf("second time: %d cached", n)
	}
	if n := cached(chat("support-lora", long, `,"max_tokens":1`)); n != 0 {
		t.Errorf("an adapter shares %d tokens with its base", n)
	}
	if n := cached(chat("llama-3.1-8b", long, `,"max_tokens":1,"cache_salt":"x"`)); n != 0 {
		t.Errorf("another salt shares %d tokens", n)
	}
}

func TestOutputLimits(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	for more, want := range map[string]int{
		`,"max_tokens":3`:                             3,
		`,"max_completion_tokens":4`:                  4,
		`,"max_tokens":9,"max_completion_tokens":4`:   4,
		`,"max_tokens":400,"ignore_eos":true`:         400,
		`,"min_tokens":300,"max_completion_tokens":9`: 9,
		`,"min_tokens":300`:                           300,
	} {
		chunks := f.stream("/v1/chat/completions", chat("llama-3.1-8b", "how long?", `,"stream":true`+more))
		if _, n := content(chunks); n != want {
			t.Errorf("%s: %d tokens, want %d", more, n, want)
		}
	}
}

func TestMistakesAreAnsweredAsVLLMDoes(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	for name, c := range map[string]struct {
		path, body string
		status     int
		kind, text string
	}{
		"unknown model": {"/v1/chat/completions", chat("gpt-2", "hi", ""), 404, "NotFoundError", "The model `gpt-2` does not exist."},
		"no model":      {"/v1/completions", `{"prompt":"x"}`, 404, "NotFoundError", "does not exist"},
		"not JSON":      {"/v1/chat/completions", `{"model":`, 400, "BadRequestError", "unexpected end"},
		"no messages":   {"/v1/chat/completions", `{"model":"llama-3.1-8b"}`, 400, "BadRequestError", "at least one message"},
		"bad content":   {"/v1/chat/completions", `{"model":"llama-3.1-8b","messages":[{"role":"user","content":7}]}`, 400, "BadRequestError", "messages[0].content"},
		"two choices":   {"/v1/chat/completions", chat("llama-3.1-8b", "hi", `,"n":2`), 400, "BadRequestError", "one choice"},
		"no tokens":     {"/v1/chat/completions", chat("llama-3.1-8b", "hi", `,"max_tokens":0`), 400, "BadRequestError", "at least 1"},
		"too many":      {"/v1/chat/completions", chat("llama-3.1-8b", "hi", `,"max_tokens":200000`), 400, "BadRequestError", "maximum context length is 131072"},
		"long prompt":   {"/v1/completions", `{"model":"llama-3.1-8b","prompt":"` + strings.Repeat("x", 600000) + `"}`, 400, "BadRequestError", "maximum context length"},
		"two prompts":   {"/v1/completions", `{"model":"llama-3.1-8b","prompt":["a","b"]}`, 400, "BadRequestError", "a list of one string"},
		"no prompt":     {"/v1/completions", `{"model":"llama-3.1-8b"}`, 400, "BadRequestError", "must be a string"},
		"vector size":   {"/v1/embeddings", `{"model":"llama-3.1-8b","input":"x","dimensions":9999}`, 400, "BadRequestError", "dimensions"},
	} {
		status, body := f.post(c.path, c.body)
		var reply struct {
			Error struct {
				Message, Type string
				Code          int
			}
		}
		if err := json.Unmarshal([]byte(body), &reply); err != nil {
			t.Errorf("%s: %v in %s", name, err, body)
			continue
		}
		if e := reply.Error; status != c.status || e.Code != c.status || e.Type != c.kind || !strings.Contains(e.Message, c.text) {
			t.Errorf("%s: %d %+v", name, status, e)
		}
	}
	eventually(t, "all are counted as rejected", func() bool {
		st := f.status("a")
		return st.Received == 12 && st.Rejected == 12 && st.InFlight == 0
	})
}

func TestPartsOfAMessageCount(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	count := func(content string) string {
		_, body := f.post("/v1/chat/completions", `{"model":"llama-3.1-8b","max_tokens":1,"messages":[{"role":"user","content":`+content+`}]}`)
		_, after, _ := strings.Cut(body, `"prompt_tokens":`)
		n, _, _ := strings.Cut(after, ",")
		return n
	}
	whole := count(`"one two three"`)
	if parts := count(`[{"type":"text","text":"one two"},{"type":"text","text":" three"}]`); parts != whole {
		t.Errorf("%s tokens in parts, %s in one", parts, whole)
	}
	if image := count(`[{"type":"text","text":"one two three"},{"type":"image_url"}]`); image == whole {
		t.Error("an image counts nothing")
	}
	if count("null") == whole {
		t.Error("an empty message counts like a full one")
	}
}

func TestEmbeddings(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	vector := func(input string) []float64 {
		_, body := f.post("/v1/embeddings", `{"model":"llama-3.1-8b","dimensions":16,"input":"`+input+`"}`)
		var reply struct {
			Data  []struct{ Embedding []float64 }
			Usage usage
		}
		if err := json.Unmarshal([]byte(body), &reply); err != nil || len(reply.Data) != 1 {
			t.Fatalf("%v in %s", err, body)
		}
		if reply.Usage.CompletionTokens != 0 || reply.Usage.PromptTokens < 1 {
			t.Errorf("usage %+v", reply.Usage)
		}
		return reply.Data[0].Embedding
	}
	a, b := vector("one thing"), vector("another")
	var norm float64
	for _, x := range a {
		norm += x * x
	}
	if len(a) != 16 || math.Abs(norm-1) > 1e-9 {
		t.Errorf("%d dimensions of norm %v", len(a), norm)
	}
	if !slices.Equal(a, vector("one thing")) || slices.Equal(a, b) {
		t.Error("a vector does not depend on its input alone")
	}
}

func TestModelsListAdaptersWithTheirBase(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	_, body := f.get(f.url("a", "/v1/models"))
	var reply struct {
		Data []struct {
			ID     string
			Parent *string
		}
	}
	if err := json.Unmarshal([]byte(body), &reply); err != nil {
		t.Fatal(err)
	}
	parents := map[string]string{}
	for _, m := range reply.Data {
		parents[m.ID] = ""
		if m.Parent != nil {
			parents[m.ID] = *m.Parent
		}
	}
	if len(parents) != 3 || parents["llama-3.1-8b"] != "" || parents["legal-lora"] != "llama-3.1-8b" {
		t.Errorf("models %v", parents)
	}
}

func TestTokensComeOneByOne(t *testing.T) {
	t.Parallel()
	opts := twoPods
	opts.TimeScale = 1
	f := start(t, opts)
	chunks := f.stream("/v1/chat/completions", chat("llama-3.1-8b", "slowly", `,"stream":true,"max_tokens":30`))
	first, last := chunks[1].at, chunks[len(chunks)-1].at
	// 29 steps of 7.7 ms are 223 ms; a busy machine may be late, never early by much.
	if d := last.Sub(first); d < 150*time.Millisecond || d > 10*time.Second {
		t.Errorf("30 tokens in %v", d)
	}
	if gap := chunks[15].at.Sub(first); gap < 50*time.Millisecond {
		t.Errorf("half of the tokens came within %v: they were held back and sent together", gap)
	}
}

func TestStartUp(t *testing.T) {
	t.Parallel()
	opts := twoPods
	opts.StartUp = 20 * time.Second // 400 ms
	f := start(t, opts)
	if f.status("a").Ready {
		t.Error("ready at once")
	}
	for _, path := range []string{"/health", "/metrics", "/v1/models"} {
		if status, _ := f.get(f.url("a", path)); status != 503 && !f.status("a").Ready {
			t.Errorf("%s answers %d while it starts up", path, status)
		}
	}
	eventually(t, "healthy", func() bool {
		status, _ := f.get(f.url("a", "/health"))
		return status == 200
	})
	if !f.status("a").Ready {
		t.Error("healthy, but not ready")
	}
}
