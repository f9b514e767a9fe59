package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDiffTellsWhatDiffersByItsExitCode(t *testing.T) {
	s := begin(t)
	acme := strings.Replace(acme, ", residency: [eu]", "", 1)
	s.file("all/a/quota.yaml", quota)
	s.file("all/regions.yml", eu)
	s.file("all/.hidden/broken.yaml", "kind: [")
	s.do(0, acme, "apply", "-f", "-")
	before := s.node.View().Index()
	out, _ := s.do(1, "", "diff", "-f", "all")
	for _, want := range []string{"regions/eu-west-1 created\n", "quotas/acme created\n", `+ spec: {"limits":[{"kind":"requests"`} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if out, _ := s.do(1, strings.Replace(acme, "top", "batch", 1), "diff", "-f", "-"); out != "tenants/acme configured\n  - spec.tier: \"top\"\n  + spec.tier: \"batch\"\n" {
		t.Errorf("a change:\n%s", out)
	}
	if out, errs := s.do(0, acme, "diff", "-f", "-"); out != "" || errs != "" {
		t.Errorf("nothing: %q, %q", out, errs)
	}
	var list []difference
	out, _ = s.do(1, acme+"---\n"+quota, "diff", "-f", "-", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 || list[0].Resource != "quotas/acme" || list[0].Outcome != "created" || len(list[0].Diff) != 1 {
		t.Errorf("json: %v\n%s", err, out)
	}
	if s.node.View().Index() != before {
		t.Error("something was changed")
	}
	for name, args := range map[string][]string{
		"nothing": {"diff"}, "no file": {"diff", "-f", "none"}, "no server": {"diff", "-f", "all", "--server", "http://127.0.0.1:1"},
		"no token": {"diff", "-f", "all", "--token", "guess"}, "no such flag": {"diff", "--colour"},
	} {
		if _, errs := s.do(2, "", args...); errs == "" {
			t.Errorf("%s: nothing is said", name)
		}
	}
	if _, errs := s.do(2, strings.Replace(quota, "tenant: acme", "tenant: nobody", 1), "diff", "-f", "-"); !strings.Contains(errs, "would be refused") {
		t.Errorf("what would be refused: %s", errs)
	}
}

func TestPlanTellsWarningsAndWhatBecomesOfTraffic(t *testing.T) {
	s := begin(t)
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	out, _ := s.do(0, `apiVersion: anabranch/v1
kind: Model
metadata: {name: m}
spec: {}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: us-1}
spec: {region: us-east-1, models: [m], endpoints: [{id: a, url: 'http://a', class: h100}]}
`+"---\n"+acme, "plan", "-f", "-")
	for _, want := range []string{
		"models/m created", "warning: models/m spec: no cluster serves the model", "fix: add it", "This node does not plan.",
		"clusters/us-1 created", "It needs documents before it", "tenants/acme unchanged",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	out, _ = s.do(0, strings.Replace(acme, "top", "batch", 1), "plan", "-f", "-", "--simulate=false", "-o", "json")
	var got []rehearsed
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 1 || got[0].Simulation != nil || got[0].Outcome != "configured" {
		t.Errorf("json: %v\n%s", err, out)
	}
	if _, errs := s.do(exitRefused, strings.Replace(acme, "top", "batch", 1), "plan", "-f", "-", "--token", "viewer-token"); !strings.Contains(errs, "403") {
		t.Errorf("as a viewer: %s", errs)
	}
	s.do(exitUsage, "", "plan")
}

func TestASimulationIsPrinted(t *testing.T) {
	var out strings.Builder
	a := &app{out: &out}
	r := rehearsed{}
	if err := json.Unmarshal([]byte(`{
		"resource": "clusters/us-1", "outcome": "configured", "diff": [{"field": "spec.drained", "to": true}],
		"simulation": {
			"note": "One of 10 requests and pods is simulated.",
			"clusters": [{"cluster": "eu-1", "from": 0.25, "to": 1}, {"cluster": "us-1", "from": 0.75, "to": 0}],
			"weights": [{"model": "m", "class": "interactive", "source": "us", "workPerS": 10, "clusters": [{"cluster": "us-1", "from": 1, "to": 0}]}],
			"before": {"seconds": 30, "requests": 900, "ttftP50Ms": 120.4, "ttftP99Ms": 480, "goodput": 1, "shed": 0, "failed": 0, "microUSDPerAnswer": 1234},
			"after": {"seconds": 30, "requests": 900, "ttftP50Ms": 200, "goodput": 0.875, "shed": 0.1, "failed": 0}
		}}`), &r); err != nil {
		t.Fatal(err)
	}
	if err := a.printRehearsed(r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"us-1                      75.00 % →   0.00 %", "m, class interactive, from us:", "first token, P50   120 ms      200 ms",
		"first token, P99   480 ms      -", "within objective   100.0 %     87.5 %", "cost per answer    $0.001234   -", "One of 10 requests",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
}
