package rest

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// patched is a struct with all that patches have to go into.
type patched struct {
	Name  string `json:"name"`
	Count int    `json:"count,omitempty"`
	innerPatched
	At     time.Time                    `json:"at,omitzero"`
	List   []string                     `json:"list"`
	More   *int                         `json:"more,omitempty"`
	Things map[string]innerPatched      `json:"things"`
	Deep   map[string]map[string]string `json:"deep,omitempty"`
	Hidden int                          `json:"-"`
}

type innerPatched struct {
	Share float64 `json:"share"`
	Why   string  `json:"why,omitempty"`
}

// applied is the merge patch of RFC 7396, as its section 2 has it.
func applied(target, patch any) any {
	members, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if t, ok := target.(map[string]any); ok {
		for k, v := range t {
			out[k] = v
		}
	}
	for k, v := range members {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = applied(out[k], v)
		}
	}
	return out
}

func tree(t interface{ Fatal(...any) }, v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func randomPatched(t *rapid.T, label string) patched {
	word := rapid.SampledFrom([]string{"", "a", "b", `"`, "é"})
	inner := rapid.Custom(func(t *rapid.T) innerPatched {
		return innerPatched{rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "share"), word.Draw(t, "why")}
	})
	p := patched{
		Name: word.Draw(t, label+"name"), Count: rapid.IntRange(0, 2).Draw(t, "count"), innerPatched: inner.Draw(t, "inner"),
		List:   rapid.SliceOfN(word, 0, 2).Draw(t, "list"),
		Things: rapid.MapOfN(word, inner, 0, 3).Draw(t, "things"),
		Deep:   rapid.MapOfN(word, rapid.MapOfN(word, word, 0, 2), 0, 2).Draw(t, "deep"),
		Hidden: rapid.IntRange(0, 2).Draw(t, "hidden"),
	}
	if rapid.Bool().Draw(t, "timed") {
		p.At = time.Unix(rapid.Int64Range(1, 3).Draw(t, "at"), 0).UTC()
	}
	if rapid.Bool().Draw(t, "has more") {
		n := rapid.IntRange(0, 2).Draw(t, "more")
		p.More = &n
	}
	return p
}

func TestAPatchMakesOneValueTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := randomPatched(t, "a "), randomPatched(t, "b ")
		patch, err := mergePatch(a, b)
		if err != nil {
			t.Fatal(err)
		}
		was, is := tree(t, a), tree(t, b)
		if patch == nil {
			if !reflect.DeepEqual(was, is) {
				t.Fatalf("no patch of %v to %v", was, is)
			}
			return
		}
		var change any
		if err := json.Unmarshal(patch, &change); err != nil {
			t.Fatalf("%v in %s", err, patch)
		}
		if got := applied(was, change); !reflect.DeepEqual(got, is) {
			t.Fatalf("%v patched by %s is %v, want %v", was, patch, got, is)
		}
	})
}

func TestAPatchTellsOnlyWhatDiffers(t *testing.T) {
	one, two := 1, 2
	base := patched{Name: "n", Count: 1, List: []string{"x"}, More: &one, Things: map[string]innerPatched{"a": {1, "w"}, "b": {2, ""}}}
	for name, c := range map[string]struct {
		change func(*patched)
		want   string
	}{
		"nothing":        {func(*patched) {}, ""},
		"what is hidden": {func(p *patched) { p.Hidden = 1 }, ""},
		"an equal copy":  {func(p *patched) { n := 1; p.More, p.List = &n, []string{"x"} }, ""},
		"a field":        {func(p *patched) { p.Name = "m" }, `{"name":"m"}`},
		"of an embedded": {func(p *patched) { p.Share = 2 }, `{"share":2}`},
		"left out":       {func(p *patched) { p.Count = 0 }, `{"count":null}`},
		"a pointer":      {func(p *patched) { p.More = &two }, `{"more":2}`},
		"a list":         {func(p *patched) { p.List = []string{"x", "y"} }, `{"list":["x","y"]}`},
		"of one thing":   {func(p *patched) { p.Things = map[string]innerPatched{"a": {1, ""}, "b": {2, ""}} }, `{"things":{"a":{"why":null}}}`},
		"a thing less":   {func(p *patched) { p.Things = map[string]innerPatched{"a": {1, "w"}} }, `{"things":{"b":null}}`},
	} {
		t.Run(name, func(t *testing.T) {
			next := base
			c.change(&next)
			got, err := mergePatch(base, next)
			if err != nil || string(got) != c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
		})
	}
	if _, err := mergePatch(base, one); err == nil {
		t.Error("a patch between types")
	}
}
