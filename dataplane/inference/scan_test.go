package inference

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

var documents = []string{
	`{}`, `[]`, `null`, `true`, `false`, `0`, `-0`, `1.5e-3`, `""`, `"a"`, ` { "a" : [ 1 , 2 , { } ] } `,
	`{"a":{"b":[[],[{}],""]},"c":"\u00e9\ud83d\ude00\\\"\/\b\f\n\r\t"}`, `"\ud83d"`, `"\ude00\ud83d"`, `"\ud83dx"`, "\"\xff\xfe\"",
	`{"a":1,"a":2}`, `{"\u0061":1}`, `[1,[2,[3]],"]"]`, "{\"a\"\t:\r\n1}", `"\u0000"`, `1E+10`, `123456789012345678901234567890`,
	// What isn't JSON.
	``, ` `, `{`, `}`, `[`, `]`, `{]`, `[}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `[1,]`, `[,1]`, `{,"a":1}`, `{a:1}`, `{1:1}`, `01`, `-`, `1.`,
	`.5`, `1e`, `1e+`, `+1`, `tru`, `truex`, `nul`, `"`, `"a`, `"\`, `"\u12"`, `"\u12g4"`, `"\x"`, "\"\n\"", "\"\x00\"", `{} {}`, `[1 2]`,
	`{"a":1 "b":2}`, `'a'`, `NaN`, `Infinity`, "\xef\xbb\xbf{}", `"a""b"`, `{"a":1}}`,
}

func TestCheckAgreesWithEncodingJSON(t *testing.T) {
	for _, doc := range documents {
		if got, want := check([]byte(doc)) == nil, json.Valid([]byte(doc)); got != want {
			t.Errorf("check(%q) accepts = %v, encoding/json %v", doc, got, want)
		}
	}
}

func TestCheckBoundsDepth(t *testing.T) {
	nest := func(n int) []byte { return []byte(strings.Repeat(`[{"a":`, n/2) + "1" + strings.Repeat("}]", n/2)) }
	if err := check(nest(maxDepth)); err != nil {
		t.Errorf("%d levels: %v", maxDepth, err)
	}
	if err := check(nest(maxDepth + 2)); !errors.Is(err, errDepth) {
		t.Errorf("%d levels: %v, want errDepth", maxDepth+2, err)
	}
	if err := check([]byte(strings.Repeat("[", 1<<20))); !errors.Is(err, errDepth) {
		t.Errorf("a million brackets: %v", err)
	}
}

func TestTextAgreesWithEncodingJSON(t *testing.T) {
	for _, quoted := range []string{
		`""`, `"plain"`, `"é 😀"`, `"\u00e9\uD83D\uDE00"`, `"\"\\\/\b\f\n\r\t"`, `"\ud83d"`, `"\ud83d\ud83d\ude00"`, `"\ude00"`, `"\ud83dx"`,
		`"\ud83d\n"`, "\"\xff\"", "\"a\xe2\x82\"", `"\u0000"`,
	} {
		var want string
		if err := json.Unmarshal([]byte(quoted), &want); err != nil {
			t.Fatal(err)
		}
		if got := string(text(nil, []byte(quoted))); got != want {
			t.Errorf("text(%s) = %q, encoding/json %q", quoted, got, want)
		}
	}
}

func TestIsSeesThroughEscapes(t *testing.T) {
	tests := []struct {
		quoted, want string
		is           bool
	}{
		{`"text"`, "text", true},
		{`"te\u0078t"`, "text", true},
		{`"\u0074\u0065\u0078\u0074"`, "text", true},
		{`"texts"`, "text", false},
		{`"tex"`, "text", false},
		{`"\u0074ex"`, "text", false},
		{`""`, "text", false},
	}
	for _, tt := range tests {
		if got := (span{0, len(tt.quoted)}).is([]byte(tt.quoted), tt.want); got != tt.is {
			t.Errorf("%s is %q: %v", tt.quoted, tt.want, got)
		}
	}
}

func TestWalkingFindsEveryMember(t *testing.T) {
	b := []byte(` { "a" : 1 , "b" : { "x" : "}" } , "c" : [ 1 , "]" , [ ] ] , "d" : "\"" , "e" : -1.5e3 } `)
	var got []string
	for k, v := range members(b, blank(b, 0)) {
		got = append(got, string(k.of(b))+"="+string(v.of(b)))
	}
	want := `"a"=1|"b"={ "x" : "}" }|"c"=[ 1 , "]" , [ ] ]|"d"="\""|"e"=-1.5e3`
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("members\n%s, want\n%s", s, want)
	}
	b = []byte(`[1,"]",[2,3],{"a":[4]},null]`)
	got = nil
	for e := range elements(b, 0) {
		got = append(got, string(e.of(b)))
	}
	if s := strings.Join(got, "|"); s != `1|"]"|[2,3]|{"a":[4]}|null` {
		t.Errorf("elements %s", s)
	}
}

// FuzzCheck compares check, members and text with encoding/json.
func FuzzCheck(f *testing.F) {
	for _, doc := range documents {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := check(b)
		if errors.Is(err, errDepth) {
			return // a bound of our own
		}
		if (err == nil) != json.Valid(b) {
			t.Fatalf("check = %v, encoding/json valid = %v", err, json.Valid(b))
		}
		if err != nil {
			return
		}
		at := blank(b, 0)
		if b[at] != '{' {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for k, v := range members(b, at) {
			got[string(text(nil, k.of(b)))] = string(v.of(b))
		}
		if len(got) != len(want) {
			t.Fatalf("%d members, encoding/json %d", len(got), len(want))
		}
		for k, v := range want {
			if got[k] != string(v) {
				t.Fatalf("member %q = %s, encoding/json %s", k, got[k], v)
			}
		}
	})
}
