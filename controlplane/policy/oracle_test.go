package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// anySpec draws a value of the type of every field, by reflection, so that new fields are drawn too.
func anySpec(t *rapid.T, typ reflect.Type, path string) any {
	switch typ.Kind() {
	case reflect.Pointer:
		return anySpec(t, typ.Elem(), path)
	case reflect.Struct:
		m := map[string]any{}
		for i := range typ.NumField() {
			name := fieldName(typ.Field(i))
			if name != "" && rapid.Bool().Draw(t, path+name) {
				m[name] = anySpec(t, typ.Field(i).Type, path+name+".")
			}
		}
		return m
	case reflect.Slice:
		list := []any{}
		for i := range rapid.IntRange(0, 3).Draw(t, path+"length") {
			list = append(list, anySpec(t, typ.Elem(), fmt.Sprintf("%s%d.", path, i)))
		}
		return list
	case reflect.Map:
		m := map[string]any{}
		for _, k := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z~ 0-9-]{1,5}`), 0, 3, rapid.ID[string]).Draw(t, path+"keys") {
			m[k] = anySpec(t, typ.Elem(), path+k+".")
		}
		return m
	case reflect.Bool:
		return rapid.Bool().Draw(t, path)
	case reflect.String:
		// Line breaks are left out: YAML's writer gets texts that start with one wrong.
		return rapid.OneOf(rapid.StringMatching(`[ -~éß\x{1F600}]{0,12}`), rapid.SampledFrom([]string{"no", "1", "null", "~", "<&>", "\u2028", "2026-11-29", "a: b", "- x", "#"})).Draw(t, path)
	case reflect.Float64:
		return rapid.Float64Range(-1e6, 1e6).Draw(t, path)
	}
	return rapid.Int64Range(-1<<53, 1<<53).Draw(t, path)
}

func anyDocument(t *rapid.T) (Kind, map[string]any) {
	kind := rapid.SampledFrom(Kinds()).Draw(t, "kind")
	spec := anySpec(t, reflect.TypeOf(NewSpec(kind)), "")
	return kind, map[string]any{
		"apiVersion": APIVersion, "kind": string(kind), "spec": spec,
		"metadata": map[string]any{"name": rapid.StringMatching(`[ -~]{0,12}`).Draw(t, "name")},
	}
}

// The strict decoder reads what encoding/json reads, and JSON and YAML say the same.
func TestTheDecoderAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind, doc := anyDocument(rt)
		asJSON, err := json.Marshal(doc)
		if err != nil {
			rt.Fatal(err)
		}
		got, problems := Parse(asJSON)
		if len(problems) > 0 {
			rt.Fatalf("%s:\n%s", asJSON, text(problems))
		}
		want := &Resource{Kind: kind, Spec: NewSpec(kind)}
		var plain struct {
			Metadata Metadata
			Spec     json.RawMessage
		}
		if err := json.Unmarshal(asJSON, &plain); err != nil {
			rt.Fatal(err)
		}
		if err := json.Unmarshal(plain.Spec, want.Spec); err != nil {
			rt.Fatal(err)
		}
		want.Metadata = plain.Metadata
		Defaults(want)
		if !reflect.DeepEqual(got.Spec, want.Spec) {
			rt.Fatalf("got  %+v\nwant %+v\nof   %s", got.Spec, want.Spec, asJSON)
		}

		asYAML, err := yaml.Marshal(doc)
		if err != nil {
			rt.Fatal(err)
		}
		fromYAML, problems := Parse(asYAML)
		if len(problems) > 0 {
			rt.Fatalf("%s:\n%s", asYAML, text(problems))
		}
		if !reflect.DeepEqual(fromYAML.Spec, got.Spec) || fromYAML.Metadata.Name != got.Metadata.Name {
			rt.Fatalf("YAML gives %+v, JSON %+v", fromYAML.Spec, got.Spec)
		}
	})
}

// A member that does not belong, anywhere in the document, is one problem at its place.
func TestOneStrangerIsOneProblem(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		_, doc := anyDocument(rt)
		places := map[string]map[string]any{}
		objects(doc, "", places)
		var paths []string
		for p := range places {
			// Keys of these maps are free.
			if !strings.Contains(p, "rttMs") && !strings.Contains(p, "modelNames") && !strings.HasSuffix(p, "].claims") && !strings.HasSuffix(p, "brownout.weights") {
				paths = append(paths, p)
			}
		}
		at := rapid.SampledFrom(sorted(paths)).Draw(rt, "place")
		places[at]["stranger"] = 1
		asJSON, err := json.Marshal(doc)
		if err != nil {
			rt.Fatal(err)
		}
		_, problems := Parse(asJSON)
		if len(problems) != 1 || problems[0].Field != join(at, "stranger") {
			rt.Fatalf("a stranger in %q gives:\n%s", at, text(problems))
		}
	})
}

func objects(v any, path string, out map[string]map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		out[path] = v
		for k, e := range v {
			objects(e, join(path, k), out)
		}
	case []any:
		for i, e := range v {
			objects(e, fmt.Sprintf("%s[%d]", path, i), out)
		}
	}
}

func sorted(s []string) []string {
	m := map[string]bool{}
	for _, e := range s {
		m[e] = true
	}
	return sortedKeys(m)
}

// Merging agrees with the algorithm of RFC 7396 on plain maps.
func TestMergeAgreesWithTheRFC(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		target, patch := anyJSON(rt, 3, "t"), anyJSON(rt, 3, "p")
		a, _, err := readJSON(marshal(target))
		if err != nil {
			rt.Fatal(err)
		}
		b, _, err := readJSON(marshal(patch))
		if err != nil {
			rt.Fatal(err)
		}
		got := mergePatch(a, b).canonical(nil)
		want, _, err := readJSON(marshal(rfc7396(target, patch)))
		if err != nil {
			rt.Fatal(err)
		}
		if !bytes.Equal(got, want.canonical(nil)) {
			rt.Fatalf("%s + %s = %s, want %s", marshal(target), marshal(patch), got, want.canonical(nil))
		}
	})
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func anyJSON(t *rapid.T, depth int, label string) any {
	kind := rapid.IntRange(0, 5).Draw(t, label)
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return rapid.IntRange(0, 3).Draw(t, label)
	case 2:
		return rapid.SampledFrom([]string{"", "x"}).Draw(t, label)
	case 3:
		return []any{1, "x"}
	}
	m := map[string]any{}
	for _, k := range []string{"a", "b", "c"} {
		if rapid.Bool().Draw(t, label+k) {
			m[k] = anyJSON(t, depth-1, label+k)
		}
	}
	return m
}

// rfc7396 is MergePatch of the RFC, word for word.
func rfc7396(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for name, value := range p {
		if value == nil {
			delete(t, name)
		} else {
			t[name] = rfc7396(t[name], value)
		}
	}
	return t
}

// Applying what Diff says to the old version gives the new one.
func TestTheDifferenceIsComplete(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind := KindTrafficPolicy
		typ := reflect.TypeOf(NewSpec(kind))
		resources := make([]*Resource, 2)
		for i := range resources {
			raw := marshal(anySpec(rt, typ, fmt.Sprint(i)))
			r, err := FromCanonical(kind, "p", append(append([]byte(`{"spec":`), raw...), '}'))
			if err != nil {
				rt.Fatal(err)
			}
			resources[i] = r
		}
		changes := Diff(resources[0], resources[1])
		equal := bytes.Equal(Canonical(resources[0]), Canonical(resources[1]))
		if equal != (len(changes) == 0) {
			rt.Fatalf("equal is %v with the changes %v", equal, lines(changes))
		}
		back := Diff(resources[1], resources[0])
		if len(back) != len(changes) {
			rt.Fatalf("%d changes one way, %d the other", len(changes), len(back))
		}
		for i := range changes {
			if changes[i].Field != back[i].Field || !bytes.Equal(changes[i].From, back[i].To) || !bytes.Equal(changes[i].To, back[i].From) {
				rt.Fatalf("%v and back %v", lines(changes[i:i+1]), lines(back[i:i+1]))
			}
		}
	})
}
