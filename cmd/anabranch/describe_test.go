package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/policy"
)

const fleetOfOne = eu + "---\n" + acme + "---\n" + quota + `---
apiVersion: anabranch/v1
kind: Model
metadata: {name: m}
spec: {}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: us-1, labels: {team: a}}
spec: {region: us-east-1, models: [m], endpoints: [{id: a, url: 'http://a', class: h100}], drained: true}
---
apiVersion: anabranch/v1
kind: TrafficPolicy
metadata: {name: p}
spec: {clusters: [us-1], models: [m]}
`

func TestDescribeShowsAllThatBelongsToAResource(t *testing.T) {
	s := begin(t)
	s.do(0, fleetOfOne, "apply", "-f", "-", "--reason", "first")
	for _, c := range []struct {
		kind, name string
		want       []string
	}{
		{"cluster", "us-1", []string{"Cluster us-1\nrevision  ", "labels:\n  team: a", "spec:\n", "  drained: true", "status:\n", "names:\n  regions/us-east-1  (spec.region)\n  models/m  (spec.models)", "is named by:\n  policies/p  (spec.clusters)", "changes:\n", "first", "create"}},
		{"tenant", "acme", []string{"is named by:\n  quotas/acme  (spec.tenant)", "warning: spec.residency: no cluster in eu"}},
		{"model", "m", []string{"is named by:\n  clusters/us-1  (spec.models)\n  policies/p  (spec.models)", "warning: spec: all clusters that serve the model are drained"}},
		{"policy", "p", []string{"names:\n  models/m  (spec.models)\n  clusters/us-1  (spec.clusters)", "warning: spec.clusters"}},
	} {
		out, _ := s.do(0, "", "describe", c.kind, c.name)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s %s lacks %q:\n%s", c.kind, c.name, want, out)
			}
		}
	}
	s.do(exitRefused, "", "describe", "tenant", "nobody")
	s.do(exitUsage, "", "describe", "planet", "mars")
	if stamp(time.Time{}) != "-" {
		t.Error("no time has a stamp")
	}
}

// Every field that the table of references names is one of its kind.
func TestReferencesAreFields(t *testing.T) {
	for _, ref := range references {
		if _, err := policy.FieldOf(ref.kind, ref.field); err != nil {
			t.Error(err)
		}
	}
}

func TestWatchTellsWhatThereIsAndThenChanges(t *testing.T) {
	s := begin(t)
	s.do(0, fleetOfOne, "apply", "-f", "-")
	out, _ := s.do(0, "", "watch", "--count", "7")
	if strings.Count(out, "\n") != 7 || !strings.HasPrefix(out, "regions/eu-west-1 ") || !strings.Contains(out, "clusters/us-1") {
		t.Errorf("all:\n%s", out)
	}
	out, _ = s.do(0, "", "watch", "tenants", "--count", "1", "-o", "json")
	var e struct {
		Event, Name string
		Resource    struct{ Spec struct{ Tier string } }
	}
	if err := json.Unmarshal([]byte(out), &e); err != nil || e.Event != "put" || e.Name != "acme" || e.Resource.Spec.Tier != "top" {
		t.Errorf("json: %v\n%s", err, out)
	}
	s.do(exitUsage, "", "watch", "planets")
	s.do(exitFailed, "", "watch", "--count", "-1")
	s.do(exitRefused, "", "watch", "--token", "guess")
	s.do(exitUnreachable, "", "watch", "--server", "http://127.0.0.1:1")
}

func TestAWatchKeepsItsPlace(t *testing.T) {
	var out, errs strings.Builder
	w := &watching{app: &app{out: &out, err: &errs}, quiet: true}
	for _, e := range []struct{ name, data string }{
		{"put", `{"kind":"Tenant","name":"old","revision":3}`},
		{"synced", `{"revision":5}`},
		{"put", `{"kind":"Tenant","name":"new","revision":6,"resource":{}}`},
		{"delete", `{"kind":"Tenant","name":"old","revision":7}`},
		{"bookmark", `{"revision":9}`},
		{"something-newer", `{"revision":9}`},
	} {
		if err := w.event(e.name, []byte(e.data)); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(strings.Fields(out.String()), " "); got != "tenants/new is revision 6 tenants/old deleted revision 7" || w.at != 9 {
		t.Errorf("%q, goes on after %d", got, w.at)
	}
	if err := w.event("relist", []byte(`{"revision":4}`)); err != nil || w.at != 4 || !strings.Contains(errs.String(), "changes are missing") {
		t.Errorf("%v, goes on after %d: %s", err, w.at, errs.String())
	}
	if err := w.event("put", []byte(`{`)); err == nil {
		t.Error("half an event was taken")
	}
}
