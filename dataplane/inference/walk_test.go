package inference

import (
	"encoding/json"
	"strings"
	"testing"
)

// walked goes through an object, or through a list as if it were one of values alone.
func walked(s string) (members string, end int) {
	w := walk{b: []byte(s)}
	var out []string
	if w.peek() == '[' {
		for more := w.enter(']'); more; more = w.next(']') {
			if v := w.skip(1); v.to > 0 {
				out = append(out, s[v.from:v.to])
			}
		}
		return strings.Join(out, "|"), w.i
	}
	for more := w.enter('}'); more && w.name(); more = w.next('}') {
		name := string(w.key)
		if v := w.skip(1); v.to > 0 {
			out = append(out, name+"="+s[v.from:v.to])
		}
	}
	return strings.Join(out, "|"), w.i
}

func TestWalk(t *testing.T) {
	for _, tt := range [][2]string{
		{`{}`, ``},
		{`[ ]`, ``},
		{`{"a":1}`, `a=1`},
		{"{ \"a\" :\n1 , \"b\":[2] }", `a=1|b=[2]`},
		{`{"a":null,"b":"}","c":{"d":[{}]},"e":true,"f":false}`, `a=null|b="}"|c={"d":[{}]}|e=true|f=false`},
		{`{"n\u0061me":"x","":0,"a name of more than a word":-1.5e+9}`, `name="x"|=0|a name of more than a word=-1.5e+9`},
		{`[1,"a", {"b":2} ,[3]]`, `1|"a"|{"b":2}|[3]`},
	} {
		s, want := tt[0], tt[1]
		got, end := walked(s)
		if got != want || end != len(s) {
			t.Errorf("%s: %s up to %d, want %s up to %d", s, got, end, want, len(s))
		}
	}
}

func TestWalkSeesWhatIsMalformed(t *testing.T) {
	for _, s := range []string{
		`{`, `[`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{"a":1 "b":2}`, `{a:1}`, `{"a":}`, `{"a":1]`, `[1`, `[1,`,
		`[1,]`, `[,]`, `[1 2]`, `[1}`, `{"a":nul}`, `{"a":null1}`, `{"a":"`, `{"a":"\x"}`, "{\"a\":\"\n\"}", `{"a":01}`, `{"a`, `{"a\`, `{"\u12":1}`,
		`{"abcdefgh`, `{"abcdefghi":`, "{\"abc\x01\":1}", `{"a":[1,2}`, `{"a":{"b":1]}`, `{"a":tru`, `{"a":n`, `{"a":12345678901234567890.}`,
	} {
		if json.Valid([]byte(s)) {
			t.Fatalf("%s is JSON", s)
		}
		if got, end := walked(s); end >= 0 {
			t.Errorf("%s: walked to %d, having seen %s", s, end, got)
		}
		if f := Classify([]byte(s)); !f.Malformed || f.Kind != Content {
			t.Errorf("%s: classified as %+v", s, f)
		}
		if _, ok := UsageOf([]byte(s)); ok {
			t.Errorf("%s: has usage", s)
		}
		if _, err := Read("/v1/completions", []byte(s), 1); err == nil {
			t.Errorf("%s: read", s)
		}
	}
}

// Whatever an inner value is, what is wrong within it is seen by who walks there, and who skips it.
func TestMalformedPartsAreSeenEverywhere(t *testing.T) {
	for _, at := range []string{
		`{"x":%}`, `{"choices":%}`, `{"choices":[%]}`, `{"choices":[{"delta":%}]}`, `{"choices":[{"delta":{"content":%}}]}`, `{"choices":[{"text":%}]}`,
		`{"choices":[{"x":%}]}`, `{"choices":[{"logprobs":%}]}`, `{"choices":[{"finish_reason":%}]}`, `{"choices":[{"index":%}]}`, `{"usage":%}`,
		`{"usage":{"prompt_tokens":%}}`, `{"usage":{"x":%}}`, `{"usage":{"prompt_tokens_details":%}}`, `{"usage":{"prompt_tokens_details":{"cached_tokens":%}}}`,
		`{"usage":{"prompt_tokens_details":{"x":%}}}`, `{"response":%}`, `{"response":{"usage":%}}`, `{"message":{"x":%}}`, `{"error":%}`, `{"type":%}`,
		`{"delta":%}`, `{"id":%}`, `{"created":%}`, `{"model":%}`, `{"object":%}`,
	} {
		for _, bad := range []string{``, `01`, `"`, `"a" "b"`, `{`, `[`, `[1,]`, `{"a"}`, `nul`, "\"\x00\"", `1}`, `]`, `-`} {
			data := strings.Replace(at, "%", bad, 1)
			if f := Classify([]byte(data)); f.Malformed == json.Valid([]byte(data)) {
				t.Errorf("%s: %+v", data, f)
			}
		}
		for _, good := range []string{`null`, `0`, `"a"`, `{}`, `[]`, `[{"a":[1.5]}]`, `{"a":{"b":null}}`, `true`, `-1`, `1e5`} {
			data := strings.Replace(at, "%", good, 1)
			if f := Classify([]byte(data)); f.Malformed {
				t.Errorf("%s: %+v", data, f)
			}
		}
	}
}
