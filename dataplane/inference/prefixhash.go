package inference

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// PrefixHash is the hash of the first chars characters of a request's text, or of all of it if it
// has less: of the conversation, system text included, or of a prompt; of a body of unknown shape
// its first chars bytes. White space of the JSON, escapes, and the order of fields don't matter to
// text; model and salt do. The body is the one that r was read from.
func (r Request) PrefixHash(body []byte, chars int) uint64 {
	h := prefixHash{left: chars}
	h.d.ResetWithSeed(r.seed)
	if r.API == Other {
		_, _ = h.d.Write(body[:max(0, min(chars, len(body)))]) // a Digest takes everything
		return h.d.Sum64()
	}
	for _, at := range r.at[systemField:] {
		h.value(body, at)
	}
	return h.d.Sum64()
}

// prefixHash takes text until it has enough.
type prefixHash struct {
	d    xxhash.Digest
	left int // characters still wanted
	buf  []byte
}

func (h *prefixHash) add(s []byte) {
	if n := utf8.RuneCount(s); n <= h.left {
		h.left -= n
	} else {
		i := 0
		for ; h.left > 0; h.left-- {
			_, size := utf8.DecodeRune(s[i:])
			i += size
		}
		s = s[:i]
	}
	_, _ = h.d.Write(s)
}

// value takes the text in a checked value: strings, those in lists, and what messages and their
// parts hold as content or text. Numbers of a list are tokens; each counts as a character.
func (h *prefixHash) value(b []byte, at span) {
	if h.left <= 0 {
		return
	}
	switch at.first(b) {
	case '"':
		h.buf = text(h.buf[:0], at.of(b))
		h.add(h.buf)
	case '[':
		for e := range elements(b, at.from) {
			if h.left <= 0 {
				return
			}
			if first := e.first(b); first == '-' || '0' <= first && first <= '9' {
				_, _ = h.d.Write(binary.LittleEndian.AppendUint64(nil, xxhash.Sum64(e.of(b))))
				h.left--
				continue
			}
			h.value(b, e)
		}
	case '{':
		var content, words span
		for k, v := range members(b, at.from) {
			switch {
			case k.is(b, "content"):
				content = v
			case k.is(b, "text"):
				words = v
			}
		}
		if words.first(b) == '"' {
			h.value(b, words)
		}
		h.value(b, content)
	}
}
