package inference

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// taped is what a tape says of a value: its nodes as text, each with the number of nodes within.
func taped(t testing.TB, s string) string {
	t.Helper()
	var tp tape
	tp.reset()
	if end := scan([]byte(s), 0, 0, &tp); end != len(s) {
		t.Fatalf("%s: scanned to %d", s, end)
	}
	tp.end(0, len(s))
	var out []string
	for i, n := range tp.nodes {
		out = append(out, fmt.Sprintf("%s/%d", s[n.from:n.to], int(n.next)-i-1))
	}
	return strings.Join(out, "|")
}

func TestTape(t *testing.T) {
	for s, want := range map[string]string{
		`"a"`:                      `"a"/0`,
		`[]`:                       `[]/0`,
		`{}`:                       `{}/0`,
		`[1,2, 3]`:                 `[1,2, 3]/0`,
		`[1,"a"]`:                  `[1,"a"]/2|1/0|"a"/0`,
		`["a",[],[2],{"b":{}},-1]`: `["a",[],[2],{"b":{}},-1]/7|"a"/0|[]/0|[2]/0|{"b":{}}/2|"b"/0|{}/0|-1/0`,
		`{"a" : [ {"b":null} ] }`:  `{"a" : [ {"b":null} ] }/5|"a"/0|[ {"b":null} ]/3|{"b":null}/2|"b"/0|null/0`,
	} {
		if got := taped(t, s); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", s, got, want)
		}
	}
}

func TestTapeIsBounded(t *testing.T) {
	few := `["a",` + strings.Repeat("[],", maxNodes-3) + "1]"
	many := `["a",` + strings.Repeat("[],", maxNodes-2) + "1]"
	names := "{" + strings.Repeat(`"a":0,`, maxNodes) + `"b":1}`
	for name, tt := range map[string]struct {
		body   string
		opaque bool
	}{"as many values as fit": {few, false}, "one too many": {many, true}, "too many names": {names, true}} {
		var tp tape
		tp.reset()
		if end := scan([]byte(tt.body), 0, 0, &tp); end != len(tt.body) {
			t.Fatalf("%s: scanned to %d", name, end)
		}
		tp.end(0, len(tt.body))
		if tp.opaque != tt.opaque || len(tp.nodes) > maxNodes || tt.opaque && len(tp.nodes) != 1 {
			t.Errorf("%s: opaque %v with %d nodes", name, tp.opaque, len(tp.nodes))
		}
		tp.reset()
		if tp.opaque || cap(tp.nodes) > keepNodes {
			t.Errorf("%s: room for %d nodes is kept", name, cap(tp.nodes))
		}
	}
	for _, bad := range []string{many[:len(many)-1], many + "]", strings.Replace(many, "1]", "01]", 1)} {
		if json.Valid([]byte(bad)) {
			t.Fatal("the test is wrong")
		}
		if _, err := Read("/v1/completions", []byte(`{"model":"m","prompt":`+bad+"}"), 0); err == nil {
			t.Error("what comes after a full tape isn't checked")
		}
	}
}

// A prompt of more values than a tape holds still has a chain, of its text as it stands; the other
// parts of the same request stay canonical.
func TestPromptsOfTooManyValues(t *testing.T) {
	body := func(system, first string) string {
		return fmt.Sprintf(`{"model":"m",%s,"messages":[%q,%s{}]}`, system, first, strings.Repeat(`{"a":[true]},`, maxNodes/3))
	}
	system := `"system":"` + words("s", 3000) + `"`
	a := mustRead(t, "/v1/messages", body(system, "a"), 1)
	b := mustRead(t, "/v1/messages", body(strings.Replace(system, "s", `\u0073`, 8), "b"), 1)
	if len(a.Blocks) < 100 || len(a.Blocks) != len(b.Blocks) || !slices.Equal(a.Blocks[:2], b.Blocks[:2]) {
		t.Fatalf("%d and %d blocks, the first %x and %x", len(a.Blocks), len(b.Blocks), a.Blocks[:2], b.Blocks[:2])
	}
	if a.Blocks[3] == b.Blocks[3] || a.Blocks[len(a.Blocks)-1] == b.Blocks[len(b.Blocks)-1] {
		t.Error("other messages have the same chain")
	}
}
