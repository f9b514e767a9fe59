package inference

import (
	"strings"
	"testing"
)

func TestAReaderKnowsChunksThatDifferInTheirText(t *testing.T) {
	const head, tail = `{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"`, `"},"finish_reason":null}]}`
	like := func(text string) string { return head + text + tail }
	tests := []struct {
		name, first, second string
		known               bool
	}{
		{"another text", like("Hello"), like(" you"), true},
		{"the same text", like("Hello"), like("Hello"), true},
		{"a longer text", like("a"), like(strings.Repeat("long ", 500)), true},
		{"a text with escapes", like("a"), like(`\"},{\n\u00e9\ud83d\ude00`), true},
		{"after a text with escapes", like(`\n`), like("a"), true},
		{"no text", like("a"), like(""), false},
		{"after no text", like(""), like("a"), false},
		{"a text that ends in a backslash", like("a"), head + `\` + tail, false},
		{"a text with a line feed", like("a"), head + "\n" + tail, false},
		{"an escape that is none", like("a"), head + `\x` + tail, false},
		{"more behind the text", like("a"), head + `a"},"finish_reason":null},{"index":1,"delta":{"content":"b` + tail, false},
		{"an end", like("a"), strings.Replace(like("b"), "null", `"stop"`, 1), false},
		{"another index", like("a"), strings.Replace(like("b"), `"index":0`, `"index":1`, 1), false},
		{"another id", like("a"), strings.Replace(like("b"), `"c"`, `"d"`, 1), false},
		{"a white space", like("a"), strings.Replace(like("b"), ":", ": ", 1), false},
		{"cut short", like("a"), like("b")[:len(like("b"))-1], false},
		{"cut within the head", like("a"), head[:20], false},
		{"nothing", like("a"), "", false},
		{"an end by itself", like("a"), "[DONE]", false},
		{"names behind the text", `{"choices":[{"text":"a"}],"id":"x"}`, `{"choices":[{"text":"bcd"}],"id":"x"}`, false},
		{"a completion", `{"id":"x","choices":[{"text":"a"}]}`, `{"id":"x","choices":[{"text":"b\\"}]}`, true},
		{"one too long to be remembered", like(strings.Repeat("x", longestLikeness)), like("a"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := NewEvents(nil)
			for _, data := range []string{tt.first, tt.second, tt.second, tt.first} {
				if got, want := e.Classify([]byte(data)), Classify([]byte(data)); got != want {
					t.Errorf("%s:\ngot  %+v\nwant %+v", data, got, want)
				}
			}
			e = NewEvents(nil)
			e.Classify([]byte(tt.first))
			if _, known := e.like.frame([]byte(tt.second)); known != tt.known {
				t.Errorf("known: %v, want %v", known, tt.known)
			}
			e.Reset(nil)
			if _, known := e.like.frame([]byte(tt.second)); known {
				t.Error("known to a reader of another stream")
			}
		})
	}
}

// The text that a frame tells is that of its own data, whatever was remembered.
func TestTextOfChunksThatAreAlike(t *testing.T) {
	e := NewEvents(nil)
	var said []byte
	for _, text := range []string{"One", `, \"two\"`, "", ` and\nthree`, " \\u00e9", "."} {
		data := []byte(`{"id":"c","choices":[{"delta":{"content":"` + text + `"}}]}`)
		said = e.Classify(data).Text(said, data)
	}
	if want := "One, \"two\" and\nthree é."; string(said) != want {
		t.Errorf("said %q, want %q", said, want)
	}
}
