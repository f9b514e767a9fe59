// Package inference reads what passes through the router without decoding it: from a request the
// few fields that routing needs, and the prompt as a chain of block hashes; from a reply the
// frames of its event stream, what each of them means and the tokens it counts. It knows the
// OpenAI shapes (chat completions, completions, responses, embeddings) and Anthropic messages. It
// knows nothing of tenants or endpoints.
package inference

import (
	"math"
	"strconv"
	"strings"
)

// API is the shape of a request and its reply.
type API uint8

// The shapes. [Other] is any JSON body with a model.
const (
	Other API = iota
	Chat
	Completions
	Responses
	Embeddings
	Messages
)

// APIOf tells the shape from a request's path.
func APIOf(path string) API {
	switch strings.TrimSuffix(path, "/") {
	case "/v1/chat/completions":
		return Chat
	case "/v1/completions":
		return Completions
	case "/v1/responses":
		return Responses
	case "/v1/embeddings":
		return Embeddings
	case "/v1/messages":
		return Messages
	}
	return Other
}

// Request is what routing needs of a request. Positions are byte offsets in the body that it was
// read from.
type Request struct {
	Path string
	API  API
	// Model as the client wrote it; never empty.
	Model string
	// ModelAt is where the model's JSON string stands, quotes included.
	ModelAt [2]int
	// Stream: the client wants an event stream.
	Stream bool
	// IncludeUsage: the client itself asks for usage at the end of the stream.
	IncludeUsage bool
	// HasStreamOptions: the body has a stream_options object.
	HasStreamOptions bool
	// MaxTokens is the largest of max_tokens, max_completion_tokens and max_output_tokens, 0 if
	// none is set: what the output may cost, for reserving.
	MaxTokens int64
	// Choices is how many answers are asked for (n), at least 1.
	Choices int64
	// PromptBytes is the size of the prompt's canonical text, the base of an estimate of its
	// tokens: an image counts as 4 KiB, a token given by number as 4 bytes.
	PromptBytes int
	// CacheKey is prompt_cache_key. Empty: not given.
	CacheKey string
	// Blocks is the hash chain over the prompt: element i stands for the whole text up to and
	// including block i of [BlockBytes] bytes. A last partial block isn't in it, nor is the model,
	// which may have several names.
	Blocks []uint64

	tokensAt        [3]span // the values of the three that bound the answer
	streamOptionsAt span    // its value
	includeUsageAt  span    // its value within
	continuousAt    span    // of continuous_usage_stats there
	salt            uint64
	at              [promptFields]span
}

// Problem is why a body can't be routed; the client's fault.
//
//nolint:errname // inference.Problem says it where it is used
type Problem struct {
	Param   string // the field; empty: the body as a whole
	Message string // for the client
}

// Error reads as "param: message".
func (p *Problem) Error() string {
	if p.Param == "" {
		return p.Message
	}
	return p.Param + ": " + p.Message
}

// maxTokensLimit is beyond any model's context, and small enough to multiply.
const maxTokensLimit = 1 << 31

// Read scans a body. Of a key that is there twice the last counts, as for most JSON readers;
// names are compared exactly. The salt keeps the chains of different tenants apart. The error is
// a [*Problem]. What the model server alone cares about is not judged here.
func Read(path string, body []byte, salt uint64) (Request, error) {
	r := Request{Path: path, API: APIOf(path), Choices: 1}
	if len(body) > maxBody {
		return r, &Problem{Message: "The body is too large."}
	}
	p := newPrompt(body)
	defer p.release()
	var f fields
	if err := f.read(body, &p.tapes); err != nil {
		return r, err
	}
	if err := r.fill(body, &f); err != nil {
		return r, err
	}
	r.at, r.salt = f.prompt, salt
	p.last = salt
	for i := range f.prompt {
		if f.prompt[i].to != 0 {
			p.value(&p.tapes[i], 0)
		}
	}
	r.PromptBytes = p.bytes
	if len(p.blocks) > 0 {
		r.Blocks = append([]uint64(nil), p.blocks...)
	}
	return r, nil
}

// The parts of a prompt, in the order in which chat templates use them.
const (
	toolsField = iota
	systemField
	instructionsField
	messagesField
	inputField
	promptField
	promptFields
)

// fields are where the wanted values stand.
type fields struct {
	model, stream, streamOptions           span
	maxTokens, maxCompletion, maxOutput, n span
	cacheKey                               span
	prompt                                 [promptFields]span
}

// read checks the whole body, and notes the parts of the prompt on the tapes.
func (f *fields) read(body []byte, tapes *[promptFields]tape) error {
	w := walk{b: body, i: blank(body, 0)}
	if w.i == len(body) || body[w.i] != '{' {
		if err := check(body); err != nil {
			return &Problem{Message: "The body " + err.Error() + "."}
		}
		return &Problem{Message: "The body must be a JSON object."}
	}
	for more := w.enter('}'); more && w.name(); more = w.next('}') {
		f.member(&w, tapes)
	}
	if w.i >= 0 && blank(body, w.i) != len(body) {
		w.i = badSyntax
	}
	if err := problemAt(w.i); err != nil {
		return &Problem{Message: "The body " + err.Error() + "."}
	}
	return nil
}

func (f *fields) member(w *walk, tapes *[promptFields]tape) {
	var at *span
	part := -1
	switch string(w.key) {
	case "model":
		at = &f.model
	case "stream":
		at = &f.stream
	case "stream_options":
		at = &f.streamOptions
	case "max_tokens":
		at = &f.maxTokens
	case "max_completion_tokens":
		at = &f.maxCompletion
	case "max_output_tokens":
		at = &f.maxOutput
	case "n":
		at = &f.n
	case "prompt_cache_key":
		at = &f.cacheKey
	case "tools":
		part = toolsField
	case "system":
		part = systemField
	case "instructions":
		part = instructionsField
	case "messages":
		part = messagesField
	case "input":
		part = inputField
	case "prompt":
		part = promptField
	default:
		w.skip(1)
		return
	}
	if at != nil {
		*at = w.skip(1)
		return
	}
	t := &tapes[part]
	t.reset()
	from := w.i
	w.i = scan(w.b, from, 1, t)
	f.prompt[part] = span{from, w.i}
	t.end(from, w.i)
}

func (r *Request) fill(b []byte, f *fields) (err error) {
	if f.model.first(b) != '"' {
		return &Problem{Param: "model", Message: "The model is missing or not a string."}
	}
	r.Model = f.model.text(b)
	r.ModelAt = [2]int{f.model.from, f.model.to}
	if r.Model == "" {
		return &Problem{Param: "model", Message: "The model is empty."}
	}
	if r.Stream, err = boolean(b, f.stream, "stream"); err != nil {
		return err
	}
	if err := r.fillStreamOptions(b, f.streamOptions); err != nil {
		return err
	}
	for _, t := range []struct {
		name string
		at   span
	}{
		{"max_tokens", f.maxTokens}, {"max_completion_tokens", f.maxCompletion}, {"max_output_tokens", f.maxOutput},
	} {
		n, err := integer(b, t.at, t.name)
		if err != nil {
			return err
		}
		r.MaxTokens = max(r.MaxTokens, n)
	}
	r.tokensAt = [3]span{f.maxTokens, f.maxCompletion, f.maxOutput}
	n, err := integer(b, f.n, "n")
	if err != nil {
		return err
	}
	r.Choices = max(1, n)
	if f.cacheKey.first(b) == '"' {
		r.CacheKey = f.cacheKey.text(b)
	}
	return nil
}

func (r *Request) fillStreamOptions(b []byte, at span) (err error) {
	switch at.first(b) {
	case 0, 'n':
		r.streamOptionsAt = at
		return nil
	case '{':
	default:
		return &Problem{Param: "stream_options", Message: "The stream options are not an object."}
	}
	r.HasStreamOptions, r.streamOptionsAt = true, at
	for k, v := range members(b, at.from) {
		switch {
		case k.is(b, "include_usage"):
			r.includeUsageAt = v
		case k.is(b, "continuous_usage_stats"):
			r.continuousAt = v
		}
	}
	r.IncludeUsage, err = boolean(b, r.includeUsageAt, "stream_options.include_usage")
	return err
}

// boolean reads true, false, null or nothing.
func boolean(b []byte, at span, param string) (bool, error) {
	switch at.first(b) {
	case 't':
		return true, nil
	case 0, 'f', 'n':
		return false, nil
	}
	return false, &Problem{Param: param, Message: "The value is neither true nor false."}
}

// integer reads a whole number from 0 to maxTokensLimit, null or nothing; 1e3 and 10.0 are whole.
func integer(b []byte, at span, param string) (int64, error) {
	switch at.first(b) {
	case 0, 'n':
		return 0, nil
	case '"', '{', '[', 't', 'f':
		return 0, &Problem{Param: param, Message: "The value is not a number."}
	}
	if end, v := numeral(b, at.from); end == at.to && v >= 0 {
		return v, nil
	}
	v, err := strconv.ParseFloat(string(at.of(b)), 64)
	if err != nil || v < 0 || v > maxTokensLimit || v != math.Trunc(v) {
		return 0, &Problem{Param: param, Message: "The value is not a whole number from 0 to 2147483648."}
	}
	return int64(v), nil
}
