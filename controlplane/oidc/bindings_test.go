package oidc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/oidc/oidctest"
)

func TestBindingsThatAreWrongAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.yaml")
	for text, says := range map[string]string{
		"{}":                                     "bindings is empty",
		"bindings: [{role: king, groups: [a]}]":  `bindings[0].role: "king"`,
		"bindings: [{role: admin}]":              "bindings[0] names neither users nor groups",
		"bindings: [{role: admin, users: ['']}]": "bindings[0] holds an empty name",
		"bindings: [{role: admin, user: [a]}]":   `unknown field "user"`,
		"bindings: [{role: admin, users: [a], scope: {regions: [EU]}}]": "bindings[0].scope.regions[0]",
		"bindings: [": "read " + file,
	} {
		write(t, file, text)
		if b, _, err := readBindings(file); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v, want %q", text, b, err, says)
		}
	}
}

func TestBindingsAreReadAgainAndAWrongFileChangesNothing(t *testing.T) {
	p := prepare(t, oidctest.Start(t), nil)
	role := func() string { return p.bindings.Load().of("bob", nil).Role }
	if got := role(); got != "viewer" {
		t.Fatalf("bob is %q", got)
	}
	later := time.Now()
	change := func(text string) {
		t.Helper()
		write(t, p.o.BindingsFile, text)
		later = later.Add(time.Minute) // as clocks of files may be coarse
		if err := os.Chtimes(p.o.BindingsFile, later, later); err != nil {
			t.Fatal(err)
		}
		p.reread()
	}
	change("bindings: [{role: admin, users: [bob]}]")
	if got := role(); got != "admin" {
		t.Errorf("after a change bob is %q", got)
	}
	change("bindings: [{role: king, users: [bob]}]")
	if got := role(); got != "admin" {
		t.Errorf("after a wrong change bob is %q", got)
	}
	if err := os.Remove(p.o.BindingsFile); err != nil {
		t.Fatal(err)
	}
	p.reread()
	if got := role(); got != "admin" {
		t.Errorf("without the file bob is %q", got)
	}
	change("bindings: [{role: viewer, users: [alice]}]")
	if got := role(); got != "" {
		t.Errorf("who is named no more is %q", got)
	}
}
