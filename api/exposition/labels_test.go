package exposition

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestReadLabels(t *testing.T) {
	for _, tt := range []struct {
		text, want, rest string
		ok               bool
	}{
		{`} 5`, ``, ` 5`, true},
		{`a="b"} 5`, `a=b`, ` 5`, true},
		{`a="b",} 5`, `a=b`, ` 5`, true},
		{` a = "b" , c = "d" }`, `a=b c=d`, ``, true},
		{`a="",b="x"}`, `a= b=x`, ``, true},
		{`a="}",b=","} 1`, `a=} b=,`, ` 1`, true},
		{`a="x\"y"}`, `a=x"y`, ``, true},
		{`a="x\\"} 2`, `a=x\`, ` 2`, true},
		{`a="x\ny"}`, "a=x\ny", ``, true},
		{`a="b"`, ``, ``, false},
		{`a="b`, ``, ``, false},
		{`a="b\`, ``, ``, false},
		{`a="b\"`, ``, ``, false},
		{`a=b}`, ``, ``, false},
		{`a}`, ``, ``, false},
		{`="b"}`, ``, ``, false},
		{`a=`, ``, ``, false},
		{``, ``, ``, false},
	} {
		labels, rest, ok := readLabels([]byte(tt.text), nil)
		if ok != tt.ok {
			t.Errorf("%s: ok %v", tt.text, ok)
		}
		if !ok {
			continue
		}
		var got []string
		for _, l := range labels {
			got = append(got, fmt.Sprintf("%s=%s", l.name, l.value))
		}
		if strings.Join(got, " ") != tt.want || string(rest) != tt.rest {
			t.Errorf("%s: %q and then %q, want %q and %q", tt.text, got, rest, tt.want, tt.rest)
		}
	}
}

// What is written as the format says is read as it was.
func TestLabelsThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type pair struct{ name, value string }
		pairs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) pair {
			return pair{rapid.StringMatching(`[a-z_][a-z0-9_]{0,8}`).Draw(t, "name"), rapid.String().Draw(t, "value")}
		}), 0, 6).Draw(t, "labels")
		text := ""
		for _, p := range pairs {
			text += p.name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(p.value) + `",`
		}
		labels, rest, ok := readLabels([]byte(text+"} 7"), nil)
		if !ok || string(rest) != " 7" || len(labels) != len(pairs) {
			t.Fatalf("%d labels, %q, %v of %s", len(labels), rest, ok, text)
		}
		for i, l := range labels {
			if string(l.name) != pairs[i].name || string(l.value) != pairs[i].value {
				t.Fatalf("%q=%q, want %q", l.name, l.value, pairs[i])
			}
		}
	})
}

// Numbers are read as strconv reads them.
func TestReadValue(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "7": 7, " 42 ": 42, "3.0": 3, "1e3": 1000, "2.5290e+08": 252900000, "999999999999999": 999999999999999,
		"1234567890123456789": 1234567890123456789, "-1": -1, "+Inf": math.Inf(1), "5 1700000000000": 5, "5\t# {a=\"b\"} 1": 5, "7\r": 7,
	} {
		if got, ok := readValue([]byte(text)); !ok || got != want {
			t.Errorf("%q is %v, %v", text, got, ok)
		}
	}
	if got, ok := readValue([]byte("NaN")); !ok || !math.IsNaN(got) {
		t.Errorf("NaN is %v, %v", got, ok)
	}
	for _, text := range []string{"", " ", "many", "None", "1,5", "0x", "--1"} {
		if got, ok := readValue([]byte(text)); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64().Draw(t, "value")
		format := rapid.SampledFrom([]byte("efg")).Draw(t, "format")
		text := strconv.FormatFloat(v, format, -1, 64)
		if got, ok := readValue([]byte(text)); !ok || got != v {
			t.Fatalf("%s is %v, %v", text, got, ok)
		}
	})
}

// Series are told apart by name and labels, in whatever order, but for those without a value.
func TestIdentity(t *testing.T) {
	read := func(text string) []label {
		labels, _, ok := readLabels([]byte(text+"}"), nil)
		if !ok {
			t.Fatal(text)
		}
		return labels
	}
	same := func(a, b string) bool { return identity([]byte("m"), read(a)) == identity([]byte("m"), read(b)) }
	for _, p := range [][2]string{{`a="1",b="2"`, `b="2",a="1"`}, {`a="1"`, `a="1",b=""`}, {``, `x=""`}} {
		if !same(p[0], p[1]) {
			t.Errorf("%s and %s differ", p[0], p[1])
		}
	}
	for _, p := range [][2]string{{`a="1",b="2"`, `a="2",b="1"`}, {`a="1"`, `a="2"`}, {`a="1"`, `b="1"`}, {`ab="c"`, `a="bc"`}, {`a="1"`, ``}} {
		if same(p[0], p[1]) {
			t.Errorf("%s and %s are alike", p[0], p[1])
		}
	}
	if identity([]byte("m"), nil) == identity([]byte("n"), nil) {
		t.Error("names don't count")
	}
}

// FuzzLabels: no text makes the reader panic, and what is left is the end of the text.
func FuzzLabels(f *testing.F) {
	for _, name := range expositions(f) {
		for line := range bytes.Lines(page(f, name)) {
			if _, after, ok := bytes.Cut(line, []byte{'{'}); ok && len(after) < 200 {
				f.Add(after)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		whole := slices.Clone(b)
		labels, rest, ok := readLabels(b, nil)
		if !bytes.Equal(whole, b) {
			t.Fatal("the page was changed")
		}
		if !ok {
			return
		}
		if !bytes.HasSuffix(b, rest) || len(rest) >= len(b) {
			t.Fatalf("%q is left of %q", rest, b)
		}
		for _, l := range labels {
			if len(l.name) == 0 {
				t.Fatalf("a label without a name in %q", b)
			}
		}
		readValue(rest)
	})
}
