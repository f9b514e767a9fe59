package inference

import "bytes"

// Classify tells what an event's data says. It tells the shapes apart by what they hold. Data
// that isn't JSON and isn't "[DONE]" is Content: unknown, so passed on.
func Classify(data []byte) Frame {
	start := blank(data, 0)
	if start == len(data) {
		return Frame{Kind: Lifecycle}
	}
	if data[start] != '{' {
		if string(bytes.TrimSpace(data)) == "[DONE]" {
			return Frame{Kind: Done}
		}
		return Frame{Kind: Content, Malformed: check(data) != nil}
	}
	var e event
	w := walk{b: data, i: start}
	for more := w.enter('}'); more && w.name(); more = w.next('}') {
		e.member(&w)
	}
	if w.i < 0 || blank(data, w.i) != len(data) {
		return Frame{Kind: Content, Malformed: true}
	}
	var f Frame
	switch {
	case e.kind.first(data) == '"':
		f = e.typed(data)
	case e.failed:
		f.Kind = Error
	case e.listed:
		f = e.chunk.frame()
	case e.object.first(data) == '"' && e.object.is(data, "error"):
		f.Kind = Error
	default:
		f.Kind = Content
	}
	if e.hasUsage {
		f.Usage, f.HasUsage = f.Usage.Merge(e.usage), true
		if f.Kind == Lifecycle && e.listed {
			f.Kind, f.UsageOnly = UsageOnly, true
		}
	}
	f.ID = [2]int{e.id.from, e.id.to}
	f.Created = [2]int{e.created.from, e.created.to}
	f.Model = [2]int{e.model.from, e.model.to}
	return f
}

// event is what the members of an event's data say, of which each is told by the last of its name.
type event struct {
	kind, object, delta span
	id, created, model  span
	failed              bool // there is an error
	listed              bool // choices is a list, which chunk tells, or null
	chunk               chunk
	usage               Usage // of usage
	hasUsage            bool
	response, message   counted // within the members of these names
}

type counted struct {
	usage Usage
	ok    bool
}

func (e *event) member(w *walk) {
	switch string(w.key) {
	case "id":
		e.id = w.skip(1)
	case "object":
		e.object = w.skip(1)
	case "created":
		e.created = w.skip(1)
	case "model":
		e.model = w.skip(1)
	case "choices":
		c := w.peek()
		e.listed = c == '[' || c == 'n' // null is how some servers write an empty list
		e.chunk = chunk{}
		if c == '[' {
			e.chunk.list(w)
			return
		}
		w.skip(1)
	case "usage":
		e.usage, e.hasUsage = usage(w, 1)
	case "type":
		e.kind = w.skip(1)
	case "delta":
		e.delta = w.skip(1)
	case "error":
		e.failed = w.peek() != 'n'
		w.skip(1)
	case "response":
		e.response = within(w)
	case "message":
		e.message = within(w)
	default:
		w.skip(1)
	}
}

// within reads the usage of an event's inner object.
func within(w *walk) (c counted) {
	if w.peek() != '{' {
		w.skip(1)
		return c
	}
	for more := w.enter('}'); more && w.name(); more = w.next('}') {
		if string(w.key) == "usage" {
			c.usage, c.ok = usage(w, 2)
		} else {
			w.skip(2)
		}
	}
	return c
}

// typed reads an event that names its type: those of responses and of messages.
func (e *event) typed(b []byte) Frame {
	name := b[e.kind.from+1 : e.kind.to-1]
	f := Frame{Kind: Lifecycle}
	switch string(name) {
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
		"response.content_part.added", "response.reasoning_part.added", "response.reasoning_summary_part.added", "keepalive",
		"message_start", "content_block_start", "content_block_stop", "ping":
	default:
		// Deltas of the responses API, whatever they are of, what comes complete at once, and
		// types of the future: better passed on at once than held back for good.
		f.Kind = Content
		if bytes.HasSuffix(name, []byte(".delta")) && e.delta.first(b) == '"' && empty(b, e.delta) {
			f.Kind = Lifecycle
		}
	}
	for _, c := range [...]counted{e.response, e.message} {
		if c.ok {
			f.Usage, f.HasUsage = f.Usage.Merge(c.usage), true
		}
	}
	return f
}

// chunk is what the choices of a chat completion's or completion's chunk say.
type chunk struct {
	some     bool // there is one
	text     span // of the first answer
	other    bool // there is content that isn't text of the first answer
	weighed  bool // there are log probabilities
	finished bool
}

func (c *chunk) frame() Frame {
	f := Frame{Kind: Lifecycle, FinishReason: c.finished, text: c.text}
	switch {
	case c.text.to != 0 || c.other:
		f.Kind = Content
		f.Plain = !c.other && !c.weighed
	case c.finished:
		f.Kind = Finish
	case c.some:
		f.Kind = Role
	}
	return f
}

func (c *chunk) list(w *walk) {
	for more := w.enter(']'); more; more = w.next(']') {
		if w.peek() != '{' {
			w.skip(2)
			continue
		}
		var one choice
		for more := w.enter('}'); more && w.name(); more = w.next('}') {
			one.member(w)
		}
		if w.i < 0 {
			return
		}
		c.some = true
		switch text := one.words(); {
		case text.to == 0:
		case c.text.to == 0 && !one.further(w.b):
			c.text = text
		default:
			c.other = true
		}
		c.other = c.other || one.other
		c.weighed = c.weighed || one.weighed
		c.finished = c.finished || one.finished
	}
}

// choice is what one choice of a chunk holds.
type choice struct {
	index         span
	content, text span // strings that aren't empty, of a delta and of a completion
	other         bool // content that isn't text
	weighed       bool // with log probabilities
	finished      bool
}

func (c *choice) member(w *walk) {
	switch string(w.key) {
	case "index":
		c.index = w.skip(3)
	case "delta", "message":
		c.content, c.other = span{}, false
		if w.peek() == '{' {
			c.delta(w)
			return
		}
		w.skip(3)
	case "text":
		c.text = w.skip(3)
		if c.text.to < 0 || c.text.first(w.b) != '"' || empty(w.b, c.text) {
			c.text = span{}
		}
	case "logprobs":
		v := w.skip(3)
		c.weighed = v.to > 0 && !empty(w.b, v)
	case "finish_reason":
		c.finished = w.peek() == '"'
		w.skip(3)
	default:
		w.skip(3)
	}
}

func (c *choice) delta(w *walk) {
	for more := w.enter('}'); more && w.name(); more = w.next('}') {
		key := w.key
		v := w.skip(4)
		switch {
		case v.to < 0 || string(key) == "role" || empty(w.b, v):
		case string(key) == "content" && v.first(w.b) == '"':
			c.content = v
		default:
			c.other = true
		}
	}
}

// words is the text of the choice.
func (c *choice) words() span {
	if c.content.to != 0 {
		return c.content
	}
	return c.text
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
