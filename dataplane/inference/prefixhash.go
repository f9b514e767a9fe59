package inference

import (
	"bytes"
	"math/bits"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// PrefixHash is the hash of the first chars characters of a request's text, or of all of it if it
// has less: of the conversation, system text included, or of a prompt; of a body of unknown shape
// its first chars bytes. White space of the JSON, escapes, and the order of fields don't matter to
// text; the salt does. 0: there is no text, or chars is 0. The body is the one that r was read
// from.
func (r Request) PrefixHash(body []byte, chars int) uint64 {
	h := prefixHash{left: chars}
	h.d.ResetWithSeed(r.salt)
	if chars <= 0 {
		return 0
	}
	if r.API == Other {
		_, _ = h.d.Write(body[:min(chars, len(body))]) // a Digest takes everything
		return h.d.Sum64()
	}
	for _, at := range r.at[systemField:] {
		h.value(body, at)
	}
	if h.left == chars {
		return 0
	}
	return h.d.Sum64()
}

// prefixHash takes text until it has enough.
type prefixHash struct {
	d    xxhash.Digest
	left int // characters still wanted
	buf  [utf8.UTFMax]byte
}

// add takes text that ends between characters.
func (h *prefixHash) add(s []byte) {
	n, end := characters(s, h.left)
	h.left -= n
	_, _ = h.d.Write(s[:end])
}

// characters counts those at the beginning of s, at most limit, and says where they end. A character
// is a byte of UTF-8 that isn't the continuation of one.
func characters(s []byte, limit int) (n, end int) {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		x := word(s, i)
		more := 8 - bits.OnesCount64(x>>7&^(x>>6)&ones)
		if n+more > limit {
			break
		}
		n += more
	}
	for ; i < len(s); i++ {
		if s[i]&0xc0 == 0x80 {
			continue
		}
		if n == limit {
			break
		}
		n++
	}
	return n, i
}

// string takes what a checked string reads as.
func (h *prefixHash) string(b []byte, at span) {
	s := b[at.from+1 : at.to-1]
	for h.left > 0 {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			h.add(s)
			return
		}
		h.add(s[:i])
		if h.left > 0 {
			var read []byte
			read, i = unescape(h.buf[:0], s, i)
			h.add(read)
		}
		s = s[i:]
	}
}

// value takes the text in a checked value: strings, those in lists, and what messages and their
// parts hold as content or text. Numbers of a list are tokens; each counts as a character.
func (h *prefixHash) value(b []byte, at span) {
	if h.left <= 0 {
		return
	}
	switch at.first(b) {
	case '"':
		h.string(b, at)
	case '[':
		h.list(b, at.from)
	case '{':
		h.object(b, at.from)
	}
}

// list takes the list at i. It skips no element before it knows whether it is wanted, since one may
// be long.
func (h *prefixHash) list(b []byte, i int) {
	for i = blank(b, i+1); b[i] != ']' && h.left > 0; {
		if b[i] == '{' {
			i = h.object(b, i)
		} else {
			e := span{i, skip(b, i)}
			if b[i] == '-' || '0' <= b[i] && b[i] <= '9' {
				_, _ = h.d.Write(e.of(b))
				_, _ = h.d.Write(tokenEnd)
				h.left--
			} else {
				h.value(b, e)
			}
			i = e.to
		}
		if i = blank(b, i); b[i] == ',' {
			i = blank(b, i+1)
		}
	}
}

// object takes the object at i and returns what follows it.
func (h *prefixHash) object(b []byte, i int) int {
	var content, words span
	for k, v := range members(b, i) {
		switch {
		case k.is(b, "content"):
			content = v
		case k.is(b, "text"):
			words = v
		}
		i = v.to - 1
	}
	if words.first(b) == '"' {
		h.value(b, words)
	}
	h.value(b, content)
	return blank(b, i+1) + 1
}

// tokenEnd parts tokens given by number.
var tokenEnd = []byte{markValue}
