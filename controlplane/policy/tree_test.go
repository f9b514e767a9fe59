package policy

import (
	"strings"
	"testing"
)

func TestCanonicalJSON(t *testing.T) {
	tests := []struct{ in, want string }{
		{` { "b" : 1 , "a" : [ true , null ] } `, `{"a":[true,null],"b":1}`},
		{`{"a":null,"b":{"c":null}}`, `{"b":{}}`},
		{`{"é":"<&>\u2028","a":"\ud83d\ude00"}`, `{"a":"😀","é":"<&>\u2028"}`},
		{`{"n":[1,1.0,1e3,-0.5]}`, `{"n":[1,1.0,1e3,-0.5]}`},
	}
	for _, tt := range tests {
		n, _, err := readJSON([]byte(tt.in))
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		got := string(n.canonical(nil))
		if got != tt.want {
			t.Errorf("%s is %s, want %s", tt.in, got, tt.want)
		}
		again, _, err := readJSON([]byte(got))
		if err != nil || string(again.canonical(nil)) != got {
			t.Errorf("%s does not come back: %v", got, err)
		}
	}
}

func TestJSONThatIsRefused(t *testing.T) {
	for in, line := range map[string]int{
		`{"a":1,}`:             1,
		"{\n\"a\":\n1\n\"b\"}": 4,
		`{"a"`:                 1,
		`[1,2`:                 1,
		`{"a":1}}`:             1,
		"{\"a\":1}\n\n[]":      3,
		`{"a":01}`:             1,
		`{"a":NaN}`:            1,
		`{a:1}`:                1,
		``:                     1,
	} {
		_, got, err := readJSON([]byte(in))
		if err == nil || got != line {
			t.Errorf("%q: line %d, %v; want line %d", in, got, err, line)
		}
	}
}

func TestLinesOfJSON(t *testing.T) {
	n, _, err := readJSON([]byte("{\n  \"a\": {\n    \"b\": 1\n  },\n\n  \"c\": [\n2]}"))
	if err != nil {
		t.Fatal(err)
	}
	for want, got := range map[int]int{1: n.line, 2: n.members[0].line, 3: n.get("a").members[0].line, 6: n.members[1].line, 7: n.get("c").items[0].line} {
		if got != want {
			t.Errorf("line %d, want %d", got, want)
		}
	}
	if n.get("z") != nil {
		t.Error("found what is not there")
	}
}

func TestNearWords(t *testing.T) {
	legal := []string{"region", "weight", "maxShare"}
	for in, want := range map[string]string{
		"wieght": "weight", "regions": "region", "maxshare": "maxShare", "Weight": "weight", "colour": "", "": "", "x": "",
		strings.Repeat("weight", 20): "",
	} {
		if got := nearest(in, legal); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestWhatErrorsRepeatIsBounded(t *testing.T) {
	long := strings.Repeat("é", 1000)
	r, problems := Parse([]byte("apiVersion: anabranch/v1\nkind: Tenant\nmetadata: {name: " + long + "}\nspec: {" + long + ": 1, tier: " + long + "}"))
	for _, p := range Vet(r, problems, nil) {
		if len(p.Field)+len(p.Reason)+len(p.Fix) > 1024 {
			t.Errorf("%d bytes about %.20s", len(p.Field)+len(p.Reason)+len(p.Fix), p.Field)
		}
	}
	if got := clip("é" + strings.Repeat("x", 63)); got != "é"+strings.Repeat("x", 62)+"…" {
		t.Errorf("got %q", got)
	}
}
