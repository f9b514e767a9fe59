package inference

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// text appends what the checked string quoted (with quotes) reads as. As in encoding/json, half a
// surrogate pair and bytes that aren't UTF-8 read as U+FFFD.
func text(dst, quoted []byte) []byte {
	s := quoted[1 : len(quoted)-1]
	from := len(dst)
	dst = unescaped(dst, s)
	if utf8.Valid(dst[from:]) {
		return dst
	}
	raw := bytes.Clone(dst[from:])
	dst = dst[:from]
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		dst = utf8.AppendRune(dst, r)
		raw = raw[n:]
	}
	return dst
}

// unescaped appends the inside of a checked string without its escapes. Bytes that aren't UTF-8 stay
// as they are.
func unescaped(dst, s []byte) []byte {
	for {
		n := bytes.IndexByte(s, '\\')
		if n < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:n]...)
		dst, n = unescape(dst, s, n)
		s = s[n:]
	}
}

// shortEscapes are the escapes that stand for another byte than their own.
var shortEscapes = [256]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape appends what the escape at s[i] of a checked string reads as and returns what follows it.
func unescape(dst, s []byte, i int) ([]byte, int) {
	c := s[i+1]
	if c != 'u' {
		if short := shortEscapes[c]; short != 0 {
			c = short
		}
		return append(dst, c), i + 2
	}
	r := hex4(s, i+2)
	i += 6
	if utf16.IsSurrogate(r) {
		low := rune(-1)
		if i+1 < len(s) && s[i] == '\\' && s[i+1] == 'u' {
			low = hex4(s, i+2)
		}
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			i += 6
		}
	}
	return utf8.AppendRune(dst, r), i
}

// hex4 reads four hexadecimal digits at i; -1 if they aren't there.
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
