package policy

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files of testdata")

// golden compares with a file of testdata.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s\nwant:\n%s", path, got, want)
	}
}

func fixtures(t *testing.T, folder string) []string {
	t.Helper()
	var files []string
	for _, ext := range []string{"yaml", "json"} {
		m, err := filepath.Glob(filepath.Join("testdata", folder, "*."+ext))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, m...)
	}
	if len(files) == 0 {
		t.Fatalf("no fixtures in %s", folder)
	}
	return files
}

func text(problems []Problem) string {
	var b strings.Builder
	for _, p := range problems {
		field := p.Field
		if field == "" {
			field = "(document)"
		}
		line := ""
		if p.Line > 0 {
			line = fmt.Sprintf(" (line %d)", p.Line)
		}
		fmt.Fprintf(&b, "%s%s %s\n    fix: %s\n", field, line, p.Reason, p.Fix)
	}
	return b.String()
}

func TestGoodDocumentsAreStoredAsWritten(t *testing.T) {
	for _, file := range fixtures(t, "good") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			doc, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, problems := Parse(doc)
			problems = Vet(r, problems, nil)
			if len(problems) > 0 {
				t.Fatalf("unexpected problems:\n%s", text(problems))
			}
			canonical := Canonical(r)
			golden(t, file+".canonical", string(canonical)+"\n")
			back, err := FromCanonical(r.Kind, r.Metadata.Name, canonical)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back.Spec, r.Spec) || !bytes.Equal(Canonical(back), canonical) {
				t.Errorf("came back as %+v, want %+v", back.Spec, r.Spec)
			}
		})
	}
}

func TestBadDocumentsTellFieldReasonAndFix(t *testing.T) {
	for _, file := range fixtures(t, "bad") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			doc, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, problems := Parse(doc)
			problems = Vet(r, problems, nil)
			if len(problems) == 0 {
				t.Fatal("accepted")
			}
			for _, p := range problems {
				if p.Reason == "" || p.Fix == "" {
					t.Errorf("%+v lacks a reason or a fix", p)
				}
			}
			got := text(problems)
			for _, secret := range []string{"hunter2", "sk-very-secret"} {
				if strings.Contains(got, secret) {
					t.Errorf("repeats the secret %q", secret)
				}
			}
			golden(t, file+".problems", got)
		})
	}
}

func TestDocumentsAreBounded(t *testing.T) {
	head := "apiVersion: anabranch/v1\nkind: Tenant\nmetadata: {name: x}\nspec: "
	tests := []struct {
		name, doc, want string
	}{
		{"too large", head + "{}\n#" + strings.Repeat("x", MaxDocument), "the limit is 262144"},
		{"deep YAML", head + strings.Repeat("[", 200) + strings.Repeat("]", 200), "nested more than 32"},
		{"deep JSON", strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200), "nested more than 32"},
		{"not UTF-8", head + "{tier: \"\xff\"}", "not valid UTF-8"},
		{"empty", " \n", "is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, problems := Parse([]byte(tt.doc))
			if r != nil || len(problems) != 1 || !strings.Contains(problems[0].Reason, tt.want) {
				t.Errorf("got %v, %s; want the reason %q", r, text(problems), tt.want)
			}
		})
	}
}

func TestProblemsOfOneDocumentAreBounded(t *testing.T) {
	var doc strings.Builder
	doc.WriteString("apiVersion: anabranch/v1\nkind: Tenant\nmetadata: {name: x}\nspec:\n")
	for i := range 3 * MaxProblems {
		fmt.Fprintf(&doc, "  field%d: 1\n", i)
	}
	if _, problems := Parse([]byte(doc.String())); len(problems) != MaxProblems {
		t.Errorf("%d problems told, want %d", len(problems), MaxProblems)
	}
}

func TestJSONAndYAMLOfTheSameResourceAreTheSame(t *testing.T) {
	y := "apiVersion: anabranch/v1\nkind: Tenant\nmetadata: {name: x}\nspec: {tier: top, residency: [eu, us]}\n"
	j := `{"spec":{"residency":["eu","us"],"tier":"top"},"kind":"Tenant","metadata":{"name":"x"},"apiVersion":"anabranch/v1"}`
	flow := "{apiVersion: anabranch/v1, kind: Tenant, metadata: {name: x}, spec: {tier: top, residency: [eu, us]}}"
	var all [][]byte
	for _, doc := range []string{y, j, flow} {
		r, problems := Parse([]byte(doc))
		if len(problems) > 0 {
			t.Fatal(text(problems))
		}
		all = append(all, Canonical(r))
	}
	if !bytes.Equal(all[0], all[1]) || !bytes.Equal(all[0], all[2]) {
		t.Errorf("differ: %s", all)
	}
}

func TestAStreamNamesTheDocumentAndItsLine(t *testing.T) {
	stream := `# comment only
---
apiVersion: anabranch/v1
kind: Tenant
metadata: {name: a}
---
apiVersion: anabranch/v1
kind: Tenant
metadata: {name: b}
spec: {teir: top}
--- # and a third
apiVersion: anabranch/v1
kind: Tenant
metadata: {name: c}
---
`
	rs, problems := ParseAll([]byte(stream))
	want := []Problem{{
		Field: "doc[1].spec.teir", Line: 10, Reason: "is not a field of spec",
		Fix: `did you mean "tier"? legal here: tier, residency, apiKeys, jwt, organization`,
	}}
	if !reflect.DeepEqual(problems, want) {
		t.Errorf("got %+v, want %+v", problems, want)
	}
	if len(rs) != 2 || rs[0].Metadata.Name != "a" || rs[1].Metadata.Name != "c" {
		t.Errorf("got %v", rs)
	}
}

func TestAStreamIsBounded(t *testing.T) {
	many := strings.Repeat("---\na: 1\n", MaxDocuments+1)
	if _, p := ParseAll([]byte(many)); len(p) != 1 || !strings.Contains(p[0].Reason, "1001 documents") {
		t.Errorf("got %v", p)
	}
	if _, p := ParseAll(make([]byte, MaxStream+1)); len(p) != 1 || !strings.Contains(p[0].Reason, "the limit is") {
		t.Errorf("got %v", p)
	}
	if rs, p := ParseAll([]byte("# nothing\n---\n")); len(rs) != 0 || len(p) != 0 {
		t.Errorf("an empty stream gives %v, %v", rs, p)
	}
}

func TestRevisionIsKeptAndTheStoresFieldsAreDropped(t *testing.T) {
	r, problems := Parse([]byte(`{"apiVersion":"anabranch/v1","kind":"Tenant",
		"metadata":{"name":"x","revision":9,"createdAt":"yesterday"},"status":{"anything":[1]}}`))
	if len(problems) > 0 {
		t.Fatal(text(problems))
	}
	if r.Metadata.Revision != 9 || !r.Metadata.CreatedAt.IsZero() || r.Status != nil {
		t.Errorf("got %+v", r)
	}
}

// FuzzParse: nothing panics; what is accepted survives storing, and says the same again.
func FuzzParse(f *testing.F) {
	for _, folder := range []string{"good", "bad"} {
		for _, ext := range []string{"yaml", "json"} {
			files, err := filepath.Glob(filepath.Join("testdata", folder, "*."+ext))
			if err != nil {
				f.Fatal(err)
			}
			for _, file := range files {
				doc, err := os.ReadFile(file)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(doc)
			}
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		r, problems := Parse(doc)
		if r == nil {
			if len(problems) == 0 {
				t.Fatal("neither a resource nor a problem")
			}
			return
		}
		bad := Validate(r)
		Check(r, shelf{})
		CheckQuotas(r, shelf{})
		if len(problems) > 0 || len(bad) > 0 {
			return
		}
		canonical := Canonical(r)
		back, err := FromCanonical(r.Kind, r.Metadata.Name, canonical)
		if err != nil {
			t.Fatalf("%s does not come back: %v", canonical, err)
		}
		if !reflect.DeepEqual(back.Spec, r.Spec) || !bytes.Equal(Canonical(back), canonical) {
			t.Fatalf("comes back as %s, was %s", Canonical(back), canonical)
		}
		if d := Diff(r, back); len(d) != 0 {
			t.Fatalf("differs from itself: %v", d)
		}
	})
}
