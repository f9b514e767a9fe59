package inference

import (
	"bytes"
	"strconv"
	"strings"
)

// Kind is what an event of a stream means for a relay.
type Kind uint8

// The kinds. Until one comes that isn't Lifecycle or Role, nothing of the answer has been seen and
// the request may still be sent elsewhere.
const (
	// Lifecycle: the reply is under way (created, ping, comment), with nothing of the answer.
	Lifecycle Kind = iota
	// Role: an answer begins, empty so far.
	Role
	// Content: a piece of the answer (text, reasoning, refusal, tool call, sound).
	Content
	// Finish: an answer is complete; there may have been no content at all.
	Finish
	// Usage: counts tokens and nothing else.
	UsageOnly
	// Done: the stream is complete.
	Done
	// Error: the server gave up.
	Error
)

var kindNames = [...]string{"lifecycle", "role", "content", "finish", "usage", "done", "error"}

// String is the kind's name in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Usage counts tokens. Cached is the part of Prompt that came from a prefix cache.
type Usage struct {
	Prompt     int64 `json:"promptTokens"`
	Cached     int64 `json:"cachedTokens"`
	Completion int64 `json:"completionTokens"`
}

// Merge combines counts that came at different times of one reply: they only grow.
func (u Usage) Merge(v Usage) Usage {
	return Usage{max(u.Prompt, v.Prompt), max(u.Cached, v.Cached), max(u.Completion, v.Completion)}
}

// Frame is what one event of a stream says.
type Frame struct {
	Kind Kind
	// Usage so far, if HasUsage.
	Usage    Usage
	HasUsage bool
	// UsageOnly: the frame is there only to count; a client that didn't ask for it must not see
	// it.
	UsageOnly bool
	// FinishReason: an answer ends with this frame, which may also carry its last content.
	FinishReason bool
	// Plain: it has content, and all of it is text of the first answer, which [Frame.Text] tells,
	// without log probabilities; only for the shapes [Chat] and [Completions].
	Plain bool
	// Malformed: the data is neither JSON nor "[DONE]".
	Malformed bool
	// ID, Created and Model are where the values of the members id, created and model stand in
	// the data, from inclusive, to exclusive; zero if they aren't there.
	ID, Created, Model [2]int

	text span // a string
}

// Text appends to dst the text of the first answer that the frame brings; nothing if it has none.
// The data is that which the frame was made from.
func (f Frame) Text(dst, data []byte) []byte {
	if f.text.to == 0 {
		return dst
	}
	return text(dst, f.text.of(data))
}

// TextAt is where the JSON string of the text that [Frame.Text] tells stands in the data, quotes
// included, from inclusive, to exclusive; zero if there is none.
func (f Frame) TextAt() (from, to int) { return f.text.from, f.text.to }

// Classify tells what an event's data says. It tells the shapes apart by what they hold. Data
// that isn't JSON and isn't "[DONE]" is Content: unknown, so passed on.
func Classify(data []byte) Frame {
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return Frame{Kind: Lifecycle}
	}
	if string(trimmed) == "[DONE]" {
		return Frame{Kind: Done}
	}
	if trimmed[0] != '{' || check(data) != nil {
		return Frame{Kind: Content, Malformed: check(data) != nil}
	}
	var top reply
	for k, v := range members(data, blank(data, 0)) {
		top.note(data, k, v)
	}
	var f Frame
	switch {
	case top.kind.first(data) == '"':
		f = top.typed(data)
	case top.failed.first(data) != 0 && top.failed.first(data) != 'n':
		f.Kind = Error
	case top.choices.first(data) == '[':
		f = top.chat(data)
	case top.object.first(data) == '"' && top.object.is(data, "error"):
		f.Kind = Error
	default:
		f.Kind = Content
	}
	if u, ok := usage(data, top.usage); ok {
		f.Usage, f.HasUsage = f.Usage.Merge(u), true
		if f.Kind == Lifecycle && top.choices.first(data) == '[' {
			f.Kind, f.UsageOnly = UsageOnly, true
		}
	}
	f.ID, f.Created, f.Model = [2]int{top.id.from, top.id.to}, [2]int{top.created.from, top.created.to}, [2]int{top.model.from, top.model.to}
	return f
}

// reply is where the wanted members of a reply or event stand.
type reply struct {
	kind, object, failed, choices, usage span
	response, message, delta             span
	id, created, model                   span
}

func (r *reply) note(b []byte, k, v span) {
	switch string(b[k.from+1 : k.to-1]) {
	case "type":
		r.kind = v
	case "object":
		r.object = v
	case "error":
		r.failed = v
	case "choices":
		r.choices = v
	case "usage":
		r.usage = v
	case "response":
		r.response = v
	case "message":
		r.message = v
	case "delta":
		r.delta = v
	case "id":
		r.id = v
	case "created":
		r.created = v
	case "model":
		r.model = v
	}
}

// chat reads the choices of a chat completion's or completion's chunk.
func (r *reply) chat(b []byte) Frame {
	f := Frame{Kind: Lifecycle}
	other := false // there is content that isn't text of the first answer
	weighed := false
	for at := range elements(b, r.choices.from) {
		if at.first(b) != '{' {
			continue
		}
		f.Kind = max(f.Kind, Role)
		var c choice
		for k, v := range members(b, at.from) {
			c.note(b, k, v)
		}
		if c.words.to != 0 && f.text.to == 0 && !c.further(b) {
			f.text = c.words
		} else if c.words.to != 0 {
			other = true
		}
		other = other || c.other
		weighed = weighed || c.weighed
		f.FinishReason = f.FinishReason || c.finished
	}
	switch {
	case f.text.to != 0 || other:
		f.Kind = Content
		f.Plain = !other && !weighed
	case f.FinishReason:
		f.Kind = Finish
	}
	return f
}

// choice is what one choice of a chunk holds.
type choice struct {
	index    span
	words    span // text that isn't empty
	other    bool // content that isn't text
	weighed  bool // with log probabilities
	finished bool
}

func (c *choice) note(b []byte, k, v span) {
	switch string(b[k.from+1 : k.to-1]) {
	case "index":
		c.index = v
	case "delta", "message":
		if v.first(b) != '{' {
			return
		}
		for k, v := range members(b, v.from) {
			switch {
			case k.is(b, "role") || empty(b, v):
			case k.is(b, "content") && v.first(b) == '"':
				c.words = v
			default:
				c.other = true
			}
		}
	case "text":
		if v.first(b) == '"' && !empty(b, v) {
			c.words = v
		}
	case "logprobs":
		c.weighed = c.weighed || !empty(b, v)
	case "finish_reason":
		c.finished = c.finished || v.first(b) == '"'
	}
}

// further: the choice isn't the first of several.
func (c *choice) further(b []byte) bool { return c.index.to != 0 && string(c.index.of(b)) != "0" }

// empty: nothing, null, "", [] or {}.
func empty(b []byte, v span) bool {
	switch v.first(b) {
	case 0, 'n':
		return true
	case '"':
		return v.to-v.from == 2
	case '[', '{':
		next := b[blank(b, v.from+1)]
		return next == ']' || next == '}'
	}
	return false
}

// typed reads an event that names its type: those of responses and of messages.
func (r *reply) typed(b []byte) Frame {
	name := string(b[r.kind.from+1 : r.kind.to-1])
	f := Frame{Kind: Lifecycle}
	switch name {
	case "error", "response.failed":
		f.Kind = Error
	case "response.completed", "response.incomplete":
		f.Kind, f.FinishReason = Done, true
	case "message_stop":
		f.Kind = Done
	case "message_delta":
		f.Kind, f.FinishReason = Finish, true
	case "content_block_delta":
		f.Kind = Content
	case "response.created", "response.in_progress", "response.queued", "response.output_item.added",
		"response.content_part.added", "response.reasoning_summary_part.added",
		"message_start", "content_block_start", "content_block_stop", "ping":
	default:
		// Deltas of the responses API, whatever they are of, what comes complete at once, and
		// types of the future: better passed on at once than held back for good.
		f.Kind = Content
		if strings.HasSuffix(name, ".delta") && r.delta.first(b) == '"' && empty(b, r.delta) {
			f.Kind = Lifecycle
		}
	}
	for _, inner := range []span{r.response, r.message} {
		if inner.first(b) != '{' {
			continue
		}
		for k, v := range members(b, inner.from) {
			if !k.is(b, "usage") {
				continue
			}
			if u, ok := usage(b, v); ok {
				f.Usage, f.HasUsage = f.Usage.Merge(u), true
			}
		}
	}
	return f
}

// IsError says whether a whole answer, whatever its status, is an error: a JSON object with an
// error that isn't null, or of the type or object "error". It stops at what tells.
func IsError(body []byte) bool {
	i := blank(body, 0)
	if i == len(body) || body[i] != '{' || check(body) != nil {
		return false
	}
	for k, v := range members(body, i) {
		switch string(body[k.from+1 : k.to-1]) {
		case "error":
			if !empty(body, v) {
				return true
			}
		case "object", "type":
			if v.first(body) == '"' && v.is(body, "error") {
				return true
			}
		case "choices", "output", "content", "data":
			return false
		}
	}
	return false
}

// UsageOf reads the usage of a reply that isn't streamed. False: it has none, or isn't JSON.
func UsageOf(body []byte) (Usage, bool) {
	if check(body) != nil {
		return Usage{}, false
	}
	start := blank(body, 0)
	if body[start] != '{' {
		return Usage{}, false
	}
	var at span
	for k, v := range members(body, start) {
		if k.is(body, "usage") {
			at = v
		}
	}
	return usage(body, at)
}

// usage reads a usage object in either spelling.
func usage(b []byte, at span) (u Usage, ok bool) {
	if at.first(b) != '{' {
		return u, false
	}
	var read, created int64
	anthropic := false
	for k, v := range members(b, at.from) {
		switch string(b[k.from+1 : k.to-1]) {
		case "prompt_tokens", "input_tokens":
			u.Prompt, ok = count(b, v), true
		case "completion_tokens", "output_tokens":
			u.Completion, ok = count(b, v), true
		case "cache_read_input_tokens":
			read, anthropic = count(b, v), true
		case "cache_creation_input_tokens":
			created, anthropic = count(b, v), true
		case "prompt_tokens_details", "input_tokens_details":
			if v.first(b) != '{' {
				continue
			}
			for k, v := range members(b, v.from) {
				if k.is(b, "cached_tokens") {
					u.Cached = count(b, v)
				}
			}
		}
	}
	if anthropic { // there input_tokens leaves out what the cache had or took
		u.Prompt += read + created
		u.Cached = read
	}
	u.Cached = min(u.Cached, u.Prompt)
	return u, ok
}

// count reads a number of tokens; what isn't one, or is out of range, is 0.
func count(b []byte, v span) int64 {
	n, err := strconv.ParseInt(string(v.of(b)), 10, 64)
	if err != nil || n < 0 || n > maxTokensLimit {
		return 0
	}
	return n
}
