package inference

import (
	"bytes"
	"iter"
	"unicode/utf8"
)

// skip returns what follows the checked value that starts at i.
func skip(b []byte, i int) int {
	depth := 0
	for {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\r', '\t':
			i++
			continue
		default: // number or literal
			for i < len(b) && !ends(b[i]) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
}

// skipString looks for a quote with an even number of backslashes before it.
func skipString(b []byte, i int) int {
	for from := i + 1; ; from = i + 1 {
		i = from + bytes.IndexByte(b[from:], '"')
		slash := i
		for slash > from && b[slash-1] == '\\' {
			slash--
		}
		if (i-slash)%2 == 0 {
			return i + 1
		}
	}
}

func ends(c byte) bool {
	switch c {
	case ',', '}', ']', ' ', '\n', '\r', '\t':
		return true
	}
	return false
}

// members walks the checked object that starts at b[at], in order: for each member the spans in b
// of its key (with quotes) and value.
func members(b []byte, at int) iter.Seq2[span, span] {
	return func(yield func(span, span) bool) {
		for i := blank(b, at+1); b[i] != '}'; {
			k := span{i, skipString(b, i)}
			from := blank(b, blank(b, k.to)+1)
			v := span{from, skip(b, from)}
			if !yield(k, v) {
				return
			}
			if i = blank(b, v.to); b[i] == ',' {
				i = blank(b, i+1)
			}
		}
	}
}

// elements walks the checked array that starts at b[at].
func elements(b []byte, at int) iter.Seq[span] {
	return func(yield func(span) bool) {
		for i := blank(b, at+1); b[i] != ']'; {
			v := span{i, skip(b, i)}
			if !yield(v) {
				return
			}
			if i = blank(b, v.to); b[i] == ',' {
				i = blank(b, i+1)
			}
		}
	}
}

// span is a part of a body, from inclusive, to exclusive. The zero span means "not there": no
// value starts at 0 but the body itself.
type span struct{ from, to int }

func (s span) of(b []byte) []byte { return b[s.from:s.to] }

// first is the value's first byte, which tells its type; 0 if it isn't there.
func (s span) first(b []byte) byte {
	if s.to == 0 {
		return 0
	}
	return b[s.from]
}

// is says whether the checked string at s, with quotes, reads as want, which is plain ASCII.
func (s span) is(b []byte, want string) bool {
	raw := b[s.from+1 : s.to-1]
	if len(raw) <= len(want) { // what holds escapes is longer
		return string(raw) == want
	}
	return bytes.IndexByte(raw, '\\') >= 0 && s.text(b) == want
}

// text is what the checked string at s, with quotes, reads as.
func (s span) text(b []byte) string {
	inside := b[s.from+1 : s.to-1]
	if bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return string(inside)
	}
	return string(text(nil, s.of(b)))
}
