package main

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"anabranch/api"
	"anabranch/dataplane"
)

func TestExplainComparesWithNow(t *testing.T) {
	s := begin(t)
	s.file("all.yaml", eu+"---\n"+acme)
	s.do(0, "", "apply", "-f", "all.yaml")
	const id = "eu-west-1-r1-00000000000000a7"
	s.node.Ask(&asked{records: map[string]string{
		"eu-west-1-r1 " + id: `{"id":"` + id + `","region":"eu-west-1","tenant":"acme","status":503,"epoch":1,"revision":7}`,
	}})
	out, _ := s.do(0, "", "explain", id, "--now")
	for _, want := range []string{"then      nowhere, status 503, by table 1/7", "from eu-west-1, of tenant acme", "no cluster there serves it"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if out, _ := s.do(0, "", "explain", id, "--why-not", "eu-west-1", "-o", "json"); !strings.Contains(out, `"places": []`) {
		t.Errorf("%s", out)
	}
	if _, errs := s.do(exitRefused, "", "explain", id, "--why-not", "mars"); !strings.Contains(errs, "no region") {
		t.Errorf("%s", errs)
	}
	s.do(exitUsage, "", "explain", id, "--now", "--router", "http://127.0.0.1:1")
}

func TestAComparisonIsToldInATable(t *testing.T) {
	var now thenAndNow
	if err := json.Unmarshal([]byte(`{"model":"m","class":"interactive","source":"us","then":{"cluster":"eu-1","region":"eu","tableEpoch":1,"tableRevision":3,"status":200},
		"tableRevision":9,"changed":true,"summary":"us serves all of it","places":[
		{"cluster":"us-1","region":"us","then":{"removed":"health"},"chance":0.75,"health":"HEALTHY","saturation":0.5,"ageMs":900},
		{"cluster":"eu-1","region":"eu","then":{"tried":true,"weight":0.5},"chance":0.25,"whyNot":"It gets 25 %.","health":"HEALTHY","ageMs":-1},
		{"cluster":"ap-1","region":"ap","then":null,"whyNot":"It may not be used: it is drained.","health":"UNKNOWN","ageMs":-1}]}`), &now); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := (&app{out: &out}).printNow(now); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"eu-1 in eu, by table 1/3; table 9 is in force now", "us serves all of it", "removed: health", "75%", "0.5, tried", "not thought of", "it is drained"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
}

// TestRecordsAreAsTheDocumentSays: routers write them, and the control plane passes them on.
func TestRecordsAreAsTheDocumentSays(t *testing.T) {
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Required   []string       `yaml:"required"`
				Properties map[string]any `yaml:"properties"`
			} `yaml:"schemas"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(api.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	for name, is := range map[string]any{
		"Explanation": dataplane.Record{}, "ExplainedCandidate": dataplane.Candidate{}, "ExplainedRemoval": dataplane.Removal{}, "ExplainedAttempt": dataplane.Tried{},
		"ExplainedExpectation": dataplane.Expected{}, "ExplainedSkip": dataplane.Skip{}, "ExplainedRefusal": dataplane.Refusal{},
	} {
		var want, always []string
		for i := range reflect.TypeOf(is).NumField() {
			field, options, _ := strings.Cut(reflect.TypeOf(is).Field(i).Tag.Get("json"), ",")
			want = append(want, field)
			if !strings.Contains(options, "omitempty") {
				always = append(always, field)
			}
		}
		s := document.Components.Schemas[name]
		got := slices.Sorted(maps.Keys(s.Properties))
		got = slices.DeleteFunc(got, func(p string) bool { return name == "Explanation" && p == "from" })
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s is documented with %q, and has %q", name, got, want)
		}
		for _, r := range s.Required {
			if r != "from" && !slices.Contains(always, r) {
				t.Errorf("%s always has %s by the document, and may lack it", name, r)
			}
		}
	}
}
