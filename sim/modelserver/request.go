package modelserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"anabranch/api/fleet"
	"anabranch/sim"
)

// wireRequest is the part of a request's body that the server heeds, of all its paths.
type wireRequest struct {
	Model               string          `json:"model"`
	Messages            []wireMessage   `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	Input               json.RawMessage `json:"input"`
	Dimensions          int             `json:"dimensions"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	N                   *int            `json:"n"`
	CacheSalt           string          `json:"cache_salt"`
	Stream              bool            `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type wireMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type wirePart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// api is one of the paths that generate.
type api uint8

const (
	chatAPI api = iota
	completionAPI
	embeddingAPI
)

// generation is a checked request, ready for an engine.
type generation struct {
	api       api
	model     string // as the client wrote it: base or adapter
	runner    *runner
	seed      uint64
	text      string // the prompt
	request   sim.Request
	stream    bool
	wantUsage bool
	vector    int // dimensions of an embedding
}

// problem is an answer in the 400s.
type problem struct {
	status  int
	kind    string
	param   string
	message string
}

func (p *problem) Error() string { return p.message }

func badRequest(param, format string, args ...any) *problem {
	return &problem{status: 400, kind: "BadRequestError", param: param, message: fmt.Sprintf(format, args...)}
}

// parse reads a body for one of the paths. The error is a *problem.
func (e *endpoint) parse(a api, body []byte) (generation, error) {
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return generation{}, badRequest(wrong.Field, "%s can't be a JSON %s.", wrong.Field, wrong.Value)
		}
		return generation{}, badRequest("", "The body is not valid JSON: %v", err)
	}
	run, adapter := e.lookup(w.Model)
	if run == nil {
		return generation{model: w.Model}, &problem{
			status: 404, kind: "NotFoundError", param: "model",
			message: fmt.Sprintf("The model `%s` does not exist.", w.Model),
		}
	}
	g := generation{api: a, model: w.Model, runner: run, stream: w.Stream && a != embeddingAPI}
	if g.stream && w.StreamOptions != nil {
		g.wantUsage = w.StreamOptions.IncludeUsage
	}
	text, err := w.text(a)
	if err != nil {
		return g, err
	}
	if w.N != nil && *w.N != 1 {
		return g, badRequest("n", "this server answers with one choice, n is %d", *w.N)
	}
	g.seed, g.text = seedOf(w.Model, text), text
	g.request = sim.Request{
		PromptTokens: max(1, sim.CountTokens(len(text))),
		Blocks:       sim.Chain(text, chainSalt(run.model.Name, adapter, w.CacheSalt)),
		Adapter:      adapter,
	}
	if a == embeddingAPI {
		return g, w.embed(&g)
	}
	return g, w.limits(&g)
}

// chainSalt keeps apart what must not share blocks. Models don't even share their names.
func chainSalt(model fleet.ModelID, adapter, salt string) uint64 {
	return seedOf(string(model)+"\x00"+adapter, salt)
}

// limits sets how much may be and will be said.
func (w *wireRequest) limits(g *generation) error {
	limit := w.MaxTokens
	if g.api == chatAPI && w.MaxCompletionTokens != nil {
		limit = w.MaxCompletionTokens
	}
	room := g.runner.maxLen - g.request.PromptTokens
	if room < 1 {
		return g.tooLong(0)
	}
	g.request.MaxTokens = room
	if limit != nil {
		if *limit < 1 {
			return badRequest("max_tokens", "max_tokens must be at least 1, got %d.", *limit)
		}
		if *limit > room {
			return g.tooLong(*limit)
		}
		g.request.MaxTokens = *limit
	}
	g.request.OutputTokens = max(naturalLength(g.seed), w.MinTokens)
	if w.IgnoreEOS {
		// One more than allowed, so that the cap is what ends it.
		g.request.OutputTokens = g.request.MaxTokens + 1
	}
	return nil
}

func (g *generation) tooLong(output int) error {
	return badRequest("max_tokens",
		"This model's maximum context length is %d tokens. However, you requested %d tokens (%d in the prompt, %d in the completion).",
		g.runner.maxLen, g.request.PromptTokens+output, g.request.PromptTokens, output)
}

func (w *wireRequest) embed(g *generation) error {
	const most = 4096
	g.vector = 256
	if w.Dimensions != 0 {
		g.vector = w.Dimensions
	}
	if g.vector < 1 || g.vector > most {
		return badRequest("dimensions", "dimensions must be 1 to %d, got %d", most, w.Dimensions)
	}
	if g.request.PromptTokens >= g.runner.maxLen {
		return g.tooLong(0)
	}
	g.request.OutputTokens, g.request.MaxTokens = 1, 1
	return nil
}

// text is the prompt as the tokenizer sees it, with a chat template for messages.
func (w *wireRequest) text(a api) (string, error) {
	switch a {
	case completionAPI:
		return promptText("prompt", w.Prompt)
	case embeddingAPI:
		return promptText("input", w.Input)
	}
	if len(w.Messages) == 0 {
		return "", badRequest("messages", "messages must hold at least one message")
	}
	var b strings.Builder
	for i, m := range w.Messages {
		content, err := m.text()
		if err != nil {
			return "", badRequest("messages", "messages[%d].content: %v", i, err)
		}
		b.WriteString("<|" + m.Role + "|>\n")
		b.WriteString(content)
		b.WriteString("\n")
	}
	b.WriteString("<|assistant|>\n")
	return b.String(), nil
}

// text is the content of a message: a string, nothing, or parts of which the texts count.
func (m wireMessage) text() (string, error) {
	if len(m.Content) == 0 || string(m.Content) == "null" {
		return "", nil
	}
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s, nil
	}
	var parts []wirePart
	if json.Unmarshal(m.Content, &parts) != nil {
		return "", errors.New("is neither a string nor a list of parts")
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		} else {
			b.WriteString("<|" + p.Type + "|>")
		}
	}
	return b.String(), nil
}

// promptText is a prompt: a string, a list of one string, or a list of token numbers.
func promptText(param string, raw json.RawMessage) (string, error) {
	var s string
	if json.Unmarshal(raw, &s) == nil && s != "" {
		return s, nil
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil && len(list) == 1 {
		return list[0], nil
	}
	var tokens []int
	if json.Unmarshal(raw, &tokens) != nil || len(tokens) == 0 {
		return "", badRequest(param, "%s must be a string, a list of one string, or a list of tokens", param)
	}
	var b strings.Builder
	for _, t := range tokens {
		// Four bytes each, so that tokens count as they are.
		b.WriteString((strconv.FormatInt(int64(t), 36) + "    ")[:sim.BytesPerToken])
	}
	return b.String(), nil
}
