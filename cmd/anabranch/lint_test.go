package main

import (
	"strings"
	"testing"
)

// lintFleet is two regions with a cluster each, of which the second can't be entered, and a tenant of one alone.
const lintFleet = `apiVersion: anabranch/v1
kind: Region
metadata: {name: us}
spec: {peerURLs: ['https://us'], rttMs: {eu: 70}}
---
apiVersion: anabranch/v1
kind: Region
metadata: {name: eu}
spec: {peerURLs: ['https://eu']}
---
apiVersion: anabranch/v1
kind: Model
metadata: {name: m}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: us-1}
spec: {region: us, models: [m], endpoints: [{id: p, url: 'http://10.0.0.1', class: x}]}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: eu-1}
spec: {region: eu, models: [m], endpoints: [{id: p, url: 'http://10.0.0.2', class: x}]}
---
apiVersion: anabranch/v1
kind: TrafficPolicy
metadata: {name: main}
spec: {ttftObjectiveMs: 900}
`

func TestLintTellsHolesOfWhatIsThereAndOfWhatWouldBe(t *testing.T) {
	const hole = "tenants/acme spec.residency: without eu no cluster that it allows serves m"
	s := begin(t)
	s.do(0, lintFleet, "apply", "-f", "-")
	if out, _ := s.do(0, "", "lint", "--strict"); out != "nothing to warn of\n" {
		t.Errorf("a sound fleet: %s", out)
	}
	if out, _ := s.do(0, acme, "lint", "-f", "-"); !strings.Contains(out, hole) || !strings.Contains(out, "fix: ") {
		t.Errorf("with a file: %s", out)
	}
	if out, _ := s.do(0, acme, "apply", "-f", "-", "--dry-run"); !strings.Contains(out, "tenants/acme created (dry run)") || !strings.Contains(out, hole) {
		t.Errorf("dry run: %s", out)
	}
	if out, _ := s.do(0, "", "lint"); out != "nothing to warn of\n" {
		t.Errorf("something was changed: %s", out)
	}
	s.do(0, acme, "apply", "-f", "-")
	if out, errs := s.do(exitFailed, "", "lint", "--strict"); !strings.Contains(out, hole) || !strings.Contains(errs, "there are warnings") {
		t.Errorf("strict: %s%s", out, errs)
	}
	if out, _ := s.do(0, "", "lint", "-o", "json"); !strings.Contains(out, `"resource": "tenants/acme"`) {
		t.Errorf("json: %s", out)
	}
	if out, _ := s.do(0, "", "describe", "tenant", "acme"); !strings.Contains(out, "without eu no cluster") {
		t.Errorf("describe: %s", out)
	}
	// What was there before is not told again.
	if out, _ := s.do(0, "apiVersion: anabranch/v1\nkind: Model\nmetadata: {name: m}\nspec: {aliases: [chat]}\n", "apply", "-f", "-", "--dry-run"); strings.Contains(out, "acme") {
		t.Errorf("an old warning: %s", out)
	}
	if _, errs := s.do(exitFailed, strings.ReplaceAll(quota, "acme", "nobody"), "lint", "-f", "-"); !strings.Contains(errs, "would be refused") {
		t.Errorf("a bad file: %s", errs)
	}
}
