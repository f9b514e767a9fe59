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
	// including block i of [BlockBytes] bytes. A last partial block isn't in it.
	Blocks []uint64

	streamOptionsAt span // its value
	includeUsageAt  span // its value within
	seed            uint64
	at              promptFields
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
	if err := check(body); err != nil {
		return r, &Problem{Message: "The body " + err.Error() + "."}
	}
	start := blank(body, 0)
	if body[start] != '{' {
		return r, &Problem{Message: "The body must be a JSON object."}
	}
	var f fields
	for k, v := range members(body, start) {
		f.note(body, k, v)
	}
	if err := r.fill(body, &f); err != nil {
		return r, err
	}
	r.at, r.seed = f.promptFields, seed(salt, r.Model)
	p := &prompt{last: r.seed}
	for _, at := range [...]span{f.tools, f.system, f.instructions, f.messages, f.input, f.prompt} {
		p.value(body, at)
	}
	r.Blocks, r.PromptBytes = p.chain, p.bytes
	return r, nil
}

// fields are where the wanted values stand.
type fields struct {
	model, stream, streamOptions           span
	maxTokens, maxCompletion, maxOutput, n span
	cacheKey                               span
	promptFields
}

// promptFields are where the parts of a prompt stand, in the order in which chat templates use
// them.
type promptFields struct {
	tools, system, instructions, messages, input, prompt span
}

func (f *fields) note(b []byte, k, v span) {
	name := b[k.from+1 : k.to-1]
	for _, c := range name {
		if c == '\\' {
			name = text(nil, k.of(b))
			break
		}
	}
	switch string(name) {
	case "model":
		f.model = v
	case "stream":
		f.stream = v
	case "stream_options":
		f.streamOptions = v
	case "max_tokens":
		f.maxTokens = v
	case "max_completion_tokens":
		f.maxCompletion = v
	case "max_output_tokens":
		f.maxOutput = v
	case "n":
		f.n = v
	case "prompt_cache_key":
		f.cacheKey = v
	case "tools":
		f.tools = v
	case "system":
		f.system = v
	case "instructions":
		f.instructions = v
	case "messages":
		f.messages = v
	case "input":
		f.input = v
	case "prompt":
		f.prompt = v
	}
}

func (r *Request) fill(b []byte, f *fields) (err error) {
	if f.model.first(b) != '"' {
		return &Problem{Param: "model", Message: "The model is missing or not a string."}
	}
	r.Model = string(text(nil, f.model.of(b)))
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
	n, err := integer(b, f.n, "n")
	if err != nil {
		return err
	}
	r.Choices = max(1, n)
	if f.cacheKey.first(b) == '"' {
		r.CacheKey = string(text(nil, f.cacheKey.of(b)))
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
		if k.is(b, "include_usage") {
			r.includeUsageAt = v
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
	v, err := strconv.ParseFloat(string(at.of(b)), 64)
	if err != nil || v < 0 || v > maxTokensLimit || v != math.Trunc(v) {
		return 0, &Problem{Param: param, Message: "The value is not a whole number from 0 to 2147483648."}
	}
	return int64(v), nil
}
