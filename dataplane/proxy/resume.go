package proxy

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"anabranch/dataplane/inference"
	"anabranch/failover"
)

// resumed makes the events of a place that continues an answer into those that the first place
// would have sent.
type resumed struct {
	before *Partial
	// tail is the white space at the end of what the client has, as far as it may still come a
	// second time: places are asked to continue the text without it.
	tail string
	text []byte // of the newest event, without what the client has
}

func resume(p *Partial) *resumed { return &resumed{before: p, tail: inference.Tail(p.Text)} }

// edit replaces the bytes [from, to) of an event's data.
type edit struct {
	from, to int
	by       string
}

// reworded is the event as the client gets it. Nil: it gets nothing of it.
func (r *resumed) reworded(x *exchange, event inference.Event, f inference.Frame) []byte {
	r.text = r.text[:0]
	if event.Raw == nil {
		return nil // left out already
	}
	switch f.Kind {
	case inference.Role:
		return nil
	case inference.Done:
		return event.Raw
	case inference.Lifecycle:
		if event.Data == nil {
			return event.Raw // a comment
		}
	case inference.Content, inference.Finish, inference.UsageOnly, inference.Error:
	}
	edits := r.names(f)
	if f.Kind == inference.Content && f.Plain {
		r.text = f.Text(r.text, event.Data)
		if n := r.repeated(); n > 0 {
			r.text = r.text[n:]
			if len(r.text) == 0 && !f.FinishReason && !f.HasUsage {
				return nil
			}
			from, to := f.TextAt()
			edits = append(edits, edit{from, to, string(quoted(r.text))})
		}
	}
	data := splice(event.Data, edits)
	if f.HasUsage {
		data = recounted(data, r.before.total(&x.result))
	}
	return framed(event.Name, data)
}

// names puts the first part's names in the place of the frame's own.
func (r *resumed) names(f inference.Frame) []edit {
	var edits []edit
	for _, name := range [...]struct {
		at [2]int
		by string
	}{{f.ID, r.before.ID}, {f.Created, r.before.Created}, {f.Model, r.before.Model}} {
		if name.at[1] > 0 && name.by != "" {
			edits = append(edits, edit{name.at[0], name.at[1], name.by})
		}
	}
	return edits
}

// repeated is how many bytes of the text the client has already.
func (r *resumed) repeated() int {
	n := 0
	for n < len(r.text) && n < len(r.tail) && r.text[n] == r.tail[n] {
		n++
	}
	if r.tail = r.tail[n:]; n < len(r.text) {
		r.tail = "" // something else has come
	}
	return n
}

// splice makes the edits, which don't overlap.
func splice(data []byte, edits []edit) []byte {
	out, at := make([]byte, 0, len(data)+64), 0
	for len(edits) > 0 {
		next := 0
		for i := range edits {
			if edits[i].from < edits[next].from {
				next = i
			}
		}
		e := edits[next]
		out = append(append(out, data[at:e.from]...), e.by...)
		at = e.to
		edits[next] = edits[len(edits)-1]
		edits = edits[:len(edits)-1]
	}
	return append(out, data[at:]...)
}

// recounted puts u in the place of what a chunk counts. What can't be read stays as it is.
func recounted(data []byte, u inference.Usage) []byte {
	var chunk struct {
		Usage json.RawMessage `json:"usage"`
	}
	var counts map[string]json.RawMessage
	if json.Unmarshal(data, &chunk) != nil || json.Unmarshal(chunk.Usage, &counts) != nil || counts == nil {
		return data
	}
	set := func(in map[string]json.RawMessage, name string, n int64) {
		if in[name] != nil {
			in[name] = strconv.AppendInt(nil, n, 10)
		}
	}
	set(counts, "prompt_tokens", u.Prompt)
	set(counts, "completion_tokens", u.Completion)
	set(counts, "total_tokens", u.Prompt+u.Completion)
	var details map[string]json.RawMessage
	if json.Unmarshal(counts["prompt_tokens_details"], &details) == nil && details != nil {
		set(details, "cached_tokens", u.Cached)
		counts["prompt_tokens_details"] = encode(details)
	}
	at := bytes.LastIndex(data, chunk.Usage)
	return splice(data, []edit{{at, at + len(chunk.Usage), string(encode(counts))}})
}

// quoted is text as a JSON string.
func quoted(text []byte) []byte { return encode(string(text)) }

// framed is data as an event.
func framed(name string, data []byte) []byte {
	out := make([]byte, 0, len(data)+len(name)+16)
	if name != "" {
		out = append(append(append(out, "event: "...), name...), '\n')
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		out = append(append(append(out, "data: "...), line...), '\n')
	}
	return append(out, '\n')
}

// settle makes the result of an attempt that was to continue an answer one of that answer. What went
// wrong before it had content leaves the answer as it was.
func (x *exchange) settle() {
	r, before := &x.result, x.a.Resume
	if before == nil || r.Lost {
		return
	}
	r.before, r.own = before.Tokens, r.Usage
	total := before.total(r)
	if r.HasUsage = r.HasUsage || before.hasUsage; r.HasUsage {
		r.Usage = total
	}
	r.Events += before.Tokens
	if x.begun {
		return
	}
	retryable := r.Retryable
	r.Committed, r.Broken, r.Retryable = true, true, false
	switch {
	case r.ClientGone:
	case retryable && x.a.Keep:
		r.Interrupted, r.Partial = true, before
	default:
		if r.Err == nil {
			r.Err = x.fault("stream_broken", "the place broke off in the middle of the answer")
		}
		x.result = x.relay.BreakOff(x.w, x.result)
	}
}

// unresumed judges an answer to an attempt that was to continue one, where it is no stream.
func (x *exchange) unresumed(status int) {
	r := &x.result
	r.Outcome, r.Retryable = failover.Ignored, true
	r.Err = x.fault("upstream_mismatch", "the place does not continue answers")
	if status < 300 {
		x.malformed()
	}
}

// isStream reports whether a header announces an event stream.
func isStream(contentType string) bool { return strings.HasPrefix(contentType, "text/event-stream") }
