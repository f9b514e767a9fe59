package gateway

import (
	"bytes"
	"strconv"
)

// maxTail is how much of the end of an answer is kept to find its usage in.
const maxTail = 4 << 10

// tail keeps the last bytes of an answer. Replies without a stream put the usage last too, so
// that the end is enough.
type tail struct{ kept []byte }

func (t *tail) add(b []byte) {
	if len(b) >= maxTail {
		t.kept = append(t.kept[:0], b[len(b)-maxTail:]...)
		return
	}
	if over := len(t.kept) + len(b) - maxTail; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	t.kept = append(t.kept, b...)
}

func (t *tail) bytes() []byte { return t.kept }

// usageOf finds prompt and cached tokens in the end of an answer; false without a usage.
func usageOf(end []byte) (prompt, cached int, ok bool) {
	prompt, ok = numberAfter(end, `"prompt_tokens":`)
	if !ok {
		return 0, 0, false
	}
	cached, _ = numberAfter(end, `"cached_tokens":`) // servers without the detail leave it out
	return prompt, cached, true
}

// numberAfter reads the number behind the last occurrence of a key.
func numberAfter(b []byte, key string) (int, bool) {
	i := bytes.LastIndex(b, []byte(key))
	if i < 0 {
		return 0, false
	}
	b = bytes.TrimLeft(b[i+len(key):], " ")
	end := 0
	for end < len(b) && b[end] >= '0' && b[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(string(b[:end]))
	return n, err == nil
}
