package inference

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type object = map[string]json.RawMessage

// objectOf is a JSON object; false: the value is something else.
func objectOf(raw json.RawMessage) (m object, ok bool) {
	return m, len(raw) > 0 && raw[0] == '{' && json.Unmarshal(raw, &m) == nil
}

func listOf(raw json.RawMessage) (l []json.RawMessage, ok bool) {
	return l, len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &l) == nil
}

// nothing: absent, null, "", [] or {}.
func nothing(raw json.RawMessage) bool {
	if m, ok := objectOf(raw); ok {
		return len(m) == 0
	}
	if l, ok := listOf(raw); ok {
		return len(l) == 0
	}
	return len(raw) == 0 || raw[0] == 'n' || string(raw) == `""`
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

func slowCount(raw json.RawMessage) int64 {
	var n int64
	if json.Unmarshal(raw, &n) != nil || n < 0 || n > maxTokensLimit {
		return 0
	}
	return n
}

func slowUsage(raw json.RawMessage) (u Usage, ok bool) {
	m, _ := objectOf(raw)
	for _, name := range []string{"prompt_tokens", "input_tokens", "completion_tokens", "output_tokens"} {
		if _, there := m[name]; there {
			ok = true
		}
	}
	// Two spellings in one object: which counts is of no matter, and not compared.
	u.Prompt = slowCount(m["prompt_tokens"]) + slowCount(m["input_tokens"])
	u.Completion = slowCount(m["completion_tokens"]) + slowCount(m["output_tokens"])
	for _, name := range []string{"prompt_tokens_details", "input_tokens_details"} {
		if d, is := objectOf(m[name]); is && d["cached_tokens"] != nil {
			u.Cached = slowCount(d["cached_tokens"])
		}
	}
	if hit, there := m["prompt_cache_hit_tokens"]; there {
		u.Cached = slowCount(hit)
	}
	if m["cache_read_input_tokens"] != nil || m["cache_creation_input_tokens"] != nil {
		u.Cached = slowCount(m["cache_read_input_tokens"])
		u.Prompt += u.Cached + slowCount(m["cache_creation_input_tokens"])
	}
	u.Cached = min(u.Cached, u.Prompt)
	return u, ok
}

// told is what a frame says, without places.
type told struct {
	frame              Frame
	text               string
	id, created, model string
}

func tell(data []byte, f Frame) told {
	at := func(place [2]int) string { return string(data[place[0]:place[1]]) }
	t := told{frame: f, text: string(f.Text(nil, data)), id: at(f.ID), created: at(f.Created), model: at(f.Model)}
	t.frame.ID, t.frame.Created, t.frame.Model, t.frame.text = [2]int{}, [2]int{}, [2]int{}, span{}
	return t
}

// slowClassify reads the same with encoding/json.
func slowClassify(data []byte) (t told) {
	trimmed := strings.Trim(string(data), " \t\r\n")
	var top object
	switch {
	case trimmed == "":
		return t
	case strings.TrimSpace(trimmed) == "[DONE]":
		t.frame.Kind = Done
		return t
	case trimmed[0] != '{' || json.Unmarshal(data, &top) != nil:
		t.frame.Kind, t.frame.Malformed = Content, !json.Valid(data)
		return t
	}
	t.id, t.created, t.model = string(top["id"]), string(top["created"]), string(top["model"])
	f := &t.frame
	choices, listed := listOf(top["choices"])
	listed = listed || string(top["choices"]) == "null"
	switch {
	case isString(top["type"]):
		slowTyped(top, f)
	case len(top["error"]) > 0 && top["error"][0] != 'n':
		f.Kind = Error
	case listed:
		t.text = slowChoices(choices, f)
	case str(top["object"]) == "error":
		f.Kind = Error
	default:
		f.Kind = Content
	}
	if u, ok := slowUsage(top["usage"]); ok {
		f.Usage, f.HasUsage = f.Usage.Merge(u), true
		if f.Kind == Lifecycle && listed {
			f.Kind, f.UsageOnly = UsageOnly, true
		}
	}
	return t
}

func slowTyped(top object, f *Frame) {
	quiet := []string{
		"response.created", "response.in_progress", "response.queued", "response.output_item.added", "response.content_part.added",
		"response.reasoning_part.added", "response.reasoning_summary_part.added", "keepalive", "message_start", "content_block_start", "content_block_stop", "ping",
	}
	switch kind := str(top["type"]); {
	case kind == "error", kind == "response.failed":
		f.Kind = Error
	case kind == "response.completed", kind == "response.incomplete":
		f.Kind, f.FinishReason = Done, true
	case kind == "message_stop":
		f.Kind = Done
	case kind == "message_delta":
		f.Kind, f.FinishReason = Finish, true
	case slices.Contains(quiet, kind), strings.HasSuffix(kind, ".delta") && string(top["delta"]) == `""`:
		f.Kind = Lifecycle
	default:
		f.Kind = Content
	}
	for _, name := range []string{"response", "message"} {
		inner, _ := objectOf(top[name])
		if u, ok := slowUsage(inner["usage"]); ok {
			f.Usage, f.HasUsage = f.Usage.Merge(u), true
		}
	}
}

func slowChoices(choices []json.RawMessage, f *Frame) (text string) {
	some, other, weighed := false, false, false
	for _, raw := range choices {
		c, ok := objectOf(raw)
		if !ok {
			continue
		}
		some = true
		words := ""
		if isString(c["text"]) {
			words = str(c["text"])
		}
		for _, name := range []string{"delta", "message"} {
			d, _ := objectOf(c[name])
			for k, v := range d {
				switch {
				case k == "role" || nothing(v):
				case k == "content" && isString(v):
					words = str(v)
				default:
					other = true
				}
			}
		}
		first := c["index"] == nil || string(c["index"]) == "0"
		switch {
		case words == "":
		case text == "" && first:
			text = words
		default:
			other = true
		}
		weighed = weighed || !nothing(c["logprobs"])
		f.FinishReason = f.FinishReason || isString(c["finish_reason"])
	}
	switch {
	case text != "" || other:
		f.Kind, f.Plain = Content, !other && !weighed
	case f.FinishReason:
		f.Kind = Finish
	case some:
		f.Kind = Role
	}
	return text
}

// agreeable says whether the slow way and the fast must agree: they needn't on two spellings of one
// count, on both kinds of delta in one choice, or beyond our depth.
func agreeable(data []byte) bool {
	s := string(data)
	two := func(a, b string) bool { return strings.Contains(s, a) && strings.Contains(s, b) }
	return !strings.Contains(s, `\u`) && strings.Count(s, "{")+strings.Count(s, "[") < maxDepth &&
		!two("prompt_tokens", "input_tokens") && !two("completion_tokens", "output_tokens") && !two("delta", `"message"`) &&
		!two("prompt_cache_hit_tokens", "cached_tokens")
}

// FuzzClassify compares with encoding/json, whatever a server sends; a reader of events says the same,
// whatever came before; and counts stay sane.
func FuzzClassify(f *testing.F) {
	for _, s := range []string{
		`{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`,
		`{"type":"response.completed","response":{"usage":{"input_tokens":7,"output_tokens":3}}}`,
		`{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":100}}}`,
		`{"error":{}}`, `[DONE]`, `{"object":"error"}`, ` {"choices":[{"text":"a\nb","index":0,"logprobs":{"a":1}},{"index":1,"text":"c"}],"id":"x"} `,
		`{"id":"c","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"x"}}],"choices":[]}`,
		`{"type":"response.output_text.delta","delta":""}`, `{"choices":[{"delta":{"tool_calls":[{}]},"message":null}],"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":4}}}`,
	} {
		f.Add([]byte(s), []byte("a"))
	}
	f.Fuzz(func(t *testing.T, data, other []byte) {
		frame := Classify(data)
		usage, _ := UsageOf(data)
		for _, u := range []Usage{frame.Usage, usage} {
			if u.Cached < 0 || u.Completion < 0 || u.Prompt < u.Cached {
				t.Fatalf("usage %+v", u)
			}
		}
		got := tell(data, frame)
		if agreeable(data) {
			if want := slowClassify(data); got != want {
				t.Fatalf("got  %+v\nwant %+v", got, want)
			}
		}
		// The same around another text.
		e := NewEvents(nil)
		if again := tell(data, e.Classify(data)); again != got {
			t.Fatalf("a reader of events says\n%+v, not\n%+v", again, got)
		}
		if from, to := frame.TextAt(); to > 0 {
			data = slices.Concat(data[:from+1], other, data[to-1:])
		} else {
			data = other
		}
		if got, want := e.Classify(data), Classify(data); got != want {
			t.Fatalf("%s: after one like it\n%+v, alone\n%+v", data, got, want)
		}
	})
}

// drawMembers draws some of the members named, each as draw does.
func drawMembers(t *rapid.T, draw func(*rapid.T, string) any, names ...string) map[string]any {
	m := map[string]any{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 4, rapid.ID).Draw(t, "names") {
		m[name] = draw(t, name)
	}
	return m
}

// drawEvent draws an event's data of names that mean something, mostly where they do, in any order.
func drawEvent(t *rapid.T, name string) any {
	if rapid.IntRange(0, 7).Draw(t, "odd") == 0 {
		return rapid.SampledFrom([]any{
			nil, true, 0, 1, 17, -1, 1e30, 1.5, "", "a", "é\n\"", []any{}, []any{1, "x"}, map[string]any{}, map[string]any{"usage": 1},
		}).Draw(t, "value")
	}
	switch name {
	case "event":
		return drawMembers(t, drawEvent, "type", "choices", "choices", "usage", "usage", "delta", "response", "error", "id", "created", "model", "object")
	case "choices":
		list := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "choices") {
			list = append(list, drawEvent(t, "choice"))
		}
		return list
	case "choice":
		return drawMembers(t, drawEvent, "index", "delta", "text", "finish_reason", "logprobs")
	case "delta":
		return drawMembers(t, drawEvent, "role", "content", "content", "tool_calls", "reasoning_content")
	case "usage":
		return drawMembers(t, drawEvent, "prompt_tokens", "completion_tokens", "prompt_tokens_details")
	case "prompt_tokens_details":
		return drawMembers(t, drawEvent, "cached_tokens", "audio_tokens")
	case "response":
		return drawMembers(t, drawEvent, "usage", "id")
	case "type":
		return rapid.SampledFrom([]string{"error", "message_delta", "response.completed", "x.delta", "ping", "message_stop"}).Draw(t, "type")
	case "object":
		return rapid.SampledFrom([]string{"error", "chat.completion.chunk"}).Draw(t, "object")
	case "prompt_tokens", "completion_tokens", "cached_tokens", "index", "created":
		return rapid.IntRange(0, 99).Draw(t, "number")
	}
	return rapid.SampledFrom([]string{"", "a", "some words", "é\n\"\\", "stop"}).Draw(t, "string")
}

func TestEventsAreClassifiedAsTheSlowWayDoes(t *testing.T) {
	kinds := map[Kind]int{}
	rapid.Check(t, func(rt *rapid.T) {
		e := NewEvents(nil)
		for range 8 {
			data, err := json.Marshal(drawEvent(rt, "event"))
			must(t, err)
			got := tell(data, e.Classify(data))
			kinds[got.frame.Kind]++
			if want := slowClassify(data); agreeable(data) && got != want {
				rt.Fatalf("%s\ngot  %+v\nwant %+v", data, got, want)
			}
		}
	})
	for _, k := range []Kind{Lifecycle, Role, Content, Finish, UsageOnly, Done, Error} {
		if kinds[k] == 0 {
			t.Errorf("no event of kind %s was drawn", k)
		}
	}
}
