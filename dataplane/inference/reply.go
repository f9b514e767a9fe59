package inference

import "strconv"

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
