package inference

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Every byte at every place of a word, between bytes that are near what is looked for.
func TestWordsAreReadLikeBytes(t *testing.T) {
	for _, around := range []byte{' ', '!', '#', '[', ']', 'a', '0', '9', 0x0e, 0x7f, 0x80, 0xa2, 0xff} {
		for c := range 256 {
			for at := range 17 {
				b := []byte(strings.Repeat(string([]byte{around}), 17))
				b[at] = byte(c)
				if got, want := plain(b, 0), slowPlain(b); got != want {
					t.Fatalf("%q is plain up to %d, want %d", b, got, want)
				}
				if got, want := lineEnd(b, 0), slowLineEnd(b); got != want {
					t.Fatalf("a line of %q ends at %d, want %d", b, got, want)
				}
				if n, end := characters(b, 5); n != min(5, starts(b)) || starts(b[:end]) != n || end < len(b) && starts(b[end:end+1]) == 0 {
					t.Fatalf("%q: %d characters up to %d", b, n, end)
				}
			}
		}
	}
}

func slowPlain(b []byte) int {
	for i, c := range b {
		if c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return len(b)
}

func slowLineEnd(b []byte) int {
	for i, c := range b {
		if c == '\n' || c == '\r' {
			return i
		}
	}
	return len(b)
}

// starts counts the bytes that begin a character.
func starts(b []byte) (n int) {
	for _, c := range b {
		if utf8.RuneStart(c) {
			n++
		}
	}
	return n
}

func TestPlainRunsOfAnyLength(t *testing.T) {
	for n := range 300 {
		for _, stop := range []string{`"`, `\`, "\n", "\x00", ""} {
			b := []byte(strings.Repeat("é ", n)[:n] + stop + "\"more")
			if stop == "" {
				b = b[:n]
			}
			for from := 0; from <= n; from += 7 {
				if got := plain(b, from); got != n {
					t.Fatalf("from %d of %d before %q: %d", from, n, stop, got)
				}
			}
		}
	}
}

func TestNumerals(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.OneOf(
			rapid.StringMatching(`-?[0-9]{1,20}`),
			rapid.StringMatching(`[0-9]{1,9}[,\]} .eE:x]?[0-9+-]{0,9}`),
			rapid.StringMatching(`-?(0|[1-9][0-9]{0,12})(\.[0-9]{0,9})?([eE][+-]?[0-9]{0,3})?`),
		).Draw(rt, "number")
		s += rapid.SampledFrom([]string{"", ",", " ,1", "]                ", "}", "x"}).Draw(rt, "after")
		// The longest part that is a number, found by trying.
		end, value := -1, int64(-1)
		for n := 1; n <= len(s); n++ {
			if strings.ContainsRune("-0123456789", rune(s[0])) && json.Valid([]byte(s[:n])) && s[n-1] != ' ' {
				end = n
			}
		}
		got, gotValue := numeral([]byte(s), 0)
		if end > 0 {
			if n, err := strconv.ParseUint(s[:end], 10, 64); err == nil && end <= 7 {
				value = int64(n)
			}
			// What begins like a longer number is none.
			if rest := s[end:]; rest != "" && strings.ContainsRune(".eE", rune(rest[0])) {
				end, value = -1, -1
			}
		}
		if got != end || gotValue != value {
			rt.Fatalf("%q: %d up to %d, want %d up to %d", s, gotValue, got, value, end)
		}
	})
}
