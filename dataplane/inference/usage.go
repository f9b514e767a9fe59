package inference

import "strconv"

// UsageOf reads the usage of a reply that isn't streamed. False: it has none, or isn't JSON.
func UsageOf(body []byte) (Usage, bool) {
	w := walk{b: body, i: blank(body, 0)}
	if w.peek() != '{' {
		return Usage{}, false
	}
	var u Usage
	ok := false
	for more := w.enter('}'); more && w.name(); more = w.next('}') {
		if string(w.key) == "usage" {
			u, ok = usage(&w, 1)
		} else {
			w.skip(1)
		}
	}
	if w.i < 0 || blank(body, w.i) != len(body) {
		return Usage{}, false
	}
	return u, ok
}

// IsError says whether a whole answer, whatever its status, is an error: a JSON object with an
// error that isn't null or empty, or of the type or object "error". It reads no further than to the
// member that tells, which stands before the answer itself.
func IsError(body []byte) bool {
	w := walk{b: body, i: blank(body, 0)}
	if w.peek() != '{' {
		return false
	}
	for more := w.enter('}'); more && w.name(); more = w.next('}') {
		key := w.key
		switch string(key) {
		case "choices", "output", "content", "data":
			return false
		}
		v := w.skip(1)
		switch {
		case v.to < 0:
		case string(key) == "error" && !empty(body, v):
			return true
		case (string(key) == "object" || string(key) == "type") && v.first(body) == '"' && v.is(body, "error"):
			return true
		}
	}
	return false
}

// usage reads the usage object at w.i in the spellings of OpenAI, Anthropic and DeepSeek, and goes
// behind it. False: it is none, or counts nothing.
func usage(w *walk, depth int) (u Usage, ok bool) {
	if w.peek() != '{' {
		w.skip(depth)
		return u, false
	}
	var read, created int64
	anthropic := false
	for more := w.enter('}'); more && w.name(); more = w.next('}') {
		switch string(w.key) {
		case "prompt_tokens", "input_tokens":
			u.Prompt, ok = count(w, depth), true
		case "completion_tokens", "output_tokens":
			u.Completion, ok = count(w, depth), true
		case "cache_read_input_tokens":
			read, anthropic = count(w, depth), true
		case "cache_creation_input_tokens":
			created, anthropic = count(w, depth), true
		case "prompt_cache_hit_tokens":
			u.Cached = count(w, depth)
		case "prompt_tokens_details", "input_tokens_details":
			if w.peek() != '{' {
				w.skip(depth + 1)
				continue
			}
			for more := w.enter('}'); more && w.name(); more = w.next('}') {
				if string(w.key) == "cached_tokens" {
					u.Cached = count(w, depth+1)
				} else {
					w.skip(depth + 2)
				}
			}
		default:
			w.skip(depth + 1)
		}
	}
	if anthropic { // there input_tokens leaves out what the cache had or took
		u.Prompt += read + created
		u.Cached = read
	}
	u.Cached = min(u.Cached, u.Prompt)
	return u, ok
}

// count reads a number of tokens and goes behind it; what isn't one, or is out of range, is 0.
func count(w *walk, depth int) int64 {
	from := w.i
	if c := w.peek(); '0' <= c && c <= '9' {
		if end, n := numeral(w.b, from); n >= 0 {
			w.i = end
			return n
		}
	}
	v := w.skip(depth + 1)
	if v.to < 0 {
		return 0
	}
	n, err := strconv.ParseInt(string(v.of(w.b)), 10, 64)
	if err != nil || n < 0 || n > maxTokensLimit {
		return 0
	}
	return n
}
