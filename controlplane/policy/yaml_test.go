package policy

import (
	"strings"
	"testing"
)

func TestYAMLScalars(t *testing.T) {
	tests := []struct{ yaml, want string }{
		{"x", `"x"`},
		{"'1'", `"1"`},
		{"yes", `"yes"`}, // only true and false are booleans
		{"on", `"on"`},
		{"true", `true`},
		{"False", `false`},
		{"~", `null`},
		{"", `null`},
		{"1", `1`},
		{"-0", `-0`},
		{"+7", `7`},
		{"0x1F", `31`},
		{"0o17", `15`},
		{"1_000", `1000`},
		{"1e3", `1e3`},
		{"1.50", `1.50`},
		{".5", `0.5`},
		{"5.", `5`},
		{"9223372036854775808", `9223372036854775808`},
		{".inf", `+Inf`},
		{"-.inf", `-Inf`},
		{".nan", `NaN`},
		{"2026-11-29", `"2026-11-29"`},
		{"|\n  a\n  b\n", `"a\nb\n"`},
		{">\n  a\n  b\n", `"a b\n"`},
		{`"\u00e9\t"`, `"é\t"`},
		{"[1, {a: b}]", `[1,{"a":"b"}]`},
		{"!!str 12", `"12"`},
	}
	for _, tt := range tests {
		n, _, err := readYAML([]byte(tt.yaml))
		if err != nil {
			t.Errorf("%q: %v", tt.yaml, err)
			continue
		}
		if got := string(n.canonical(nil)); got != tt.want {
			t.Errorf("%q is %s, want %s", tt.yaml, got, tt.want)
		}
	}
}

func TestYAMLThatIsRefused(t *testing.T) {
	tests := []struct {
		yaml, want string
		line       int
	}{
		{"a: &x 1\nb: *x", "anchor or alias", 1},
		{"a: 1\nb:\n  <<: {c: 1}", "merge key", 3},
		{"a: !!binary aGk=", "tag !!binary", 1},
		{"a: !custom 1", "tag !custom", 1},
		{"? [a]\n: 1", "a key is not text", 1},
		{"~: 1", "a key is not text", 1},
		{"a: 1\n---\nb: 2", "more than one document", 0},
		{"a: [1", "did not find", 1},
		{"a: 1\n\tb: 2", "found a tab character", 2},
	}
	for _, tt := range tests {
		_, line, err := readYAML([]byte(tt.yaml))
		if err == nil || !strings.Contains(err.Error(), tt.want) || line != tt.line {
			t.Errorf("%q: line %d, %v; want line %d, %q", tt.yaml, line, err, tt.line, tt.want)
		}
	}
}

func TestSplit(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string // "line:content"
	}{
		{"one", "a: 1\n", []string{"1:a: 1\n"}},
		{"marker first", "---\na: 1\n", []string{"2:a: 1\n"}},
		{"two", "a: 1\n---\nb: 2\n", []string{"1:a: 1\n", "3:b: 2\n"}},
		{"nothing between", "---\n---\n\n# x\n---\na: 1\n", []string{"6:a: 1\n"}},
		{"a comment on the marker", "--- # x\na: 1\n", []string{"2:a: 1\n"}},
		{"content on the marker", "--- {a: 1}\n", []string{"1: {a: 1}\n"}},
		{"no line break at the end", "a: 1\n---\nb: 2", []string{"1:a: 1\n", "3:b: 2"}},
		{"dashes in a value", "a: '---'\n---x: 1\n", []string{"1:a: '---'\n---x: 1\n"}},
		{"Windows line ends", "a: 1\r\n---\r\nb: 2\r\n", []string{"1:a: 1\r\n", "3:b: 2\r\n"}},
		{"nothing", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range split([]byte(tt.in)) {
				got = append(got, strings.Join([]string{plain(float64(p.line)), string(p.doc)}, ":"))
			}
			if strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
