package inference

import (
	"errors"
	"iter"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep a body may nest. Real requests nest about ten deep; tool schemas some
// tens.
const maxDepth = 1000

var (
	errSyntax = errors.New("is not valid JSON")
	errDepth  = errors.New("nests deeper than 1,000 levels")
)

// check says whether b is one JSON value and nothing else, by the grammar of RFC 8259 and as
// encoding/json sees it (bytes that aren't UTF-8 are accepted inside strings). It doesn't
// recurse. What passed check may be walked with members, elements and text, which trust it.
func check(b []byte) error {
	// stack has one bit per open container, 1 for an object.
	var stack [(maxDepth + 63) / 64]uint64
	depth := 0
	inObject := func() bool { return stack[(depth-1)/64]>>((depth-1)%64)&1 == 1 }
	i := blank(b, 0)
	for {
		// A value starts at i.
		if i >= len(b) {
			return errSyntax
		}
		switch c := b[i]; c {
		case '{', '[':
			if depth == maxDepth {
				return errDepth
			}
			bit := uint64(1) << (depth % 64)
			stack[depth/64] &^= bit
			if c == '{' {
				stack[depth/64] |= bit
			}
			depth++
			i = blank(b, i+1)
			if i < len(b) && b[i] == c+2 { // '}' and ']' come two after their openers
				depth--
				i++
				break
			}
			if c == '{' {
				if i = key(b, i); i < 0 {
					return errSyntax
				}
			}
			continue
		case '"':
			i = checkString(b, i)
		case 't':
			i = literal(b, i, "true")
		case 'f':
			i = literal(b, i, "false")
		case 'n':
			i = literal(b, i, "null")
		default:
			i = checkNumber(b, i)
		}
		if i < 0 {
			return errSyntax
		}
		// A value has ended before i: close what it closes.
		for {
			i = blank(b, i)
			if depth == 0 {
				if i != len(b) {
					return errSyntax
				}
				return nil
			}
			if i >= len(b) {
				return errSyntax
			}
			object := inObject()
			if b[i] == ',' {
				i = blank(b, i+1)
				if object {
					if i = key(b, i); i < 0 {
						return errSyntax
					}
				}
				break
			}
			if object && b[i] != '}' || !object && b[i] != ']' {
				return errSyntax
			}
			depth--
			i++
		}
	}
}

// key checks `"…" :` at i and returns where the member's value starts, or -1.
func key(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	if i = checkString(b, i); i < 0 {
		return -1
	}
	i = blank(b, i)
	if i >= len(b) || b[i] != ':' {
		return -1
	}
	return blank(b, i+1)
}

func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

func literal(b []byte, i int, want string) int {
	if len(b)-i < len(want) || string(b[i:i+len(want)]) != want {
		return -1
	}
	return i + len(want)
}

// checkString checks the string that opens at i and returns what follows it, or -1.
func checkString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			i++
			if i >= len(b) {
				return -1
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if hex4(b, i+1) < 0 {
					return -1
				}
				i += 4
			default:
				return -1
			}
		}
	}
	return -1
}

func checkNumber(b []byte, i int) int {
	digits := func() bool {
		from := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			i++
		}
		return i > from
	}
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return -1
		}
	}
	return i
}

func hex4(b []byte, i int) rune {
	if len(b)-i < 4 {
		return -1
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

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

func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
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
	if len(raw) == len(want) {
		return string(raw) == want
	}
	if len(raw) < len(want) {
		return false
	}
	for _, c := range raw { // longer: equal only if it holds escapes
		if c == '\\' {
			return string(text(nil, s.of(b))) == want
		}
	}
	return false
}

// text is what the checked string at s, with quotes, reads as.
func (s span) text(b []byte) string { return string(text(nil, s.of(b))) }

// text appends what the checked string quoted (with quotes) reads as. As in encoding/json, half a
// surrogate pair and bytes that aren't UTF-8 read as U+FFFD.
func text(dst, quoted []byte) []byte {
	s := quoted[1 : len(quoted)-1]
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '\\':
			i++
			switch s[i] {
			case 'b':
				dst = append(dst, '\b')
			case 'f':
				dst = append(dst, '\f')
			case 'n':
				dst = append(dst, '\n')
			case 'r':
				dst = append(dst, '\r')
			case 't':
				dst = append(dst, '\t')
			case 'u':
				r := hex4(s, i+1)
				i += 4
				if utf16.IsSurrogate(r) {
					low := rune(-1)
					if i+2 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
						low = hex4(s, i+3)
					}
					if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
						i += 6
					}
				}
				dst = utf8.AppendRune(dst, r)
			default: // " \ /
				dst = append(dst, s[i])
			}
			i++
		case c < utf8.RuneSelf:
			from := i
			for i < len(s) && s[i] < utf8.RuneSelf && s[i] != '\\' {
				i++
			}
			dst = append(dst, s[from:i]...)
		default:
			r, n := utf8.DecodeRune(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst
}
