package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// editor makes EDITOR a script; $1 is the file.
func editor(t *testing.T, script string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", name)
}

func (s session) tierOfAcme() string {
	s.t.Helper()
	r, ok := s.node.View().Get(policy.KindTenant, "acme")
	if !ok {
		s.t.Fatal("no tenant")
	}
	return r.Spec.(*policy.TenantSpec).Tier
}

func TestEditChangesAResource(t *testing.T) {
	s := begin(t)
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	t.Setenv("TMPDIR", t.TempDir())
	editor(t, `sed -i 's/tier: top/tier: batch/' "$1"`)
	out, _ := s.do(0, "", "edit", "tenant", "acme", "--reason", "downgrade")
	if out != "tenants/acme configured\n  spec.tier: \"top\" → \"batch\"\n" || s.tierOfAcme() != "batch" {
		t.Errorf("%q, tier %s", out, s.tierOfAcme())
	}
	if last := s.node.View().Audit(0, 0); last[len(last)-1].GetReason() != "downgrade" {
		t.Errorf("no reason: %v", last[len(last)-1])
	}
	editor(t, "true")
	if out, _ := s.do(0, "", "edit", "tenant", "acme"); out != "tenants/acme unchanged\n" {
		t.Errorf("without a change: %q", out)
	}
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*")); len(left) > 0 {
		t.Errorf("files are left: %q", left)
	}
}

// What is wrong stands above the text, which is the user's own, until it is right.
func TestEditShowsWhatIsWrongAndGoesOn(t *testing.T) {
	s := begin(t)
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	seen := filepath.Join(t.TempDir(), "seen")
	editor(t, `cat "$1" >> `+seen+`
if grep -q 'tier: gold' "$1"; then sed -i 's/tier: gold/tier: best-effort/' "$1"; else sed -i 's/tier: top/tier: gold/' "$1"; fi`)
	s.do(0, "", "edit", "tenant", "acme")
	if s.tierOfAcme() != "best-effort" {
		t.Errorf("tier %s", s.tierOfAcme())
	}
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "#|   spec.tier: ") || !strings.Contains(string(text), "#|     fix: ") || strings.Count(string(text), "#| it is not valid") != 1 {
		t.Errorf("the editor saw:\n%s", text)
	}
}

func TestATextThatIsRefusedIsKept(t *testing.T) {
	s := begin(t)
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	t.Setenv("TMPDIR", t.TempDir())
	kept := func(errs, want string) {
		t.Helper()
		m := regexp.MustCompile(`the text is in (\S+):`).FindStringSubmatch(errs)
		if m == nil {
			t.Fatalf("no file is named: %s", errs)
		}
		if text, err := os.ReadFile(m[1]); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v, kept:\n%s", err, text)
		}
	}
	editor(t, `sed -i 's/tier: top/tier: gold/' "$1"`) // the second time it changes nothing
	_, errs := s.do(exitFailed, "", "edit", "tenant", "acme")
	kept(errs, "tier: gold")
	editor(t, `sed -i 's/residency:/residency: [mars]\nx:/; /^x:/d; /^  - eu/d; s/tier: top/tier: batch/; s/name: acme/name: other/' "$1"`)
	_, errs = s.do(exitFailed, "", "edit", "tenant", "acme")
	kept(errs, "other")
	// Somebody else was quicker.
	s.node.Before(func(*statepb.Command) {
		s.node.Before(nil)
		s.node.Apply(&statepb.Command{Format: 1, Op: &statepb.Command_Put{Put: &statepb.Put{Kind: "Tenant", Name: "acme", Doc: []byte(`{"spec":{"tier":"standard"}}`), AnyRevision: true}}})
	})
	editor(t, `sed -i 's/tier: top/tier: batch/' "$1"`)
	_, errs = s.do(exitRefused, "", "edit", "tenant", "acme")
	kept(errs, "tier: batch")
	if s.tierOfAcme() != "standard" {
		t.Errorf("tier %s", s.tierOfAcme())
	}
	editor(t, "exit 3")
	if _, errs = s.do(exitFailed, "", "edit", "tenant", "acme"); !strings.Contains(errs, "set EDITOR") {
		t.Errorf("an editor that fails: %s", errs)
	}
	s.do(exitRefused, "", "edit", "tenant", "nobody")
}
