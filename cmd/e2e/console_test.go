package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"anabranch/controlplane/oidc"
	"anabranch/controlplane/oidc/oidctest"
)

// TestTheConsole lets a real Chromium go through the console of one running system, one journey after the
// other: add yours to the list. CONSOLE_SHOTS names a folder that keeps the pictures.
func TestTheConsole(t *testing.T) {
	t.Parallel()
	idp := oidctest.Start(t)
	bindings := filepath.Join(t.TempDir(), "bindings.yaml")
	if err := os.WriteFile(bindings, []byte("bindings: [{role: viewer, groups: [sre]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, func(s *System) {
		s.people = &oidc.Options{Issuer: idp.URL, ClientID: oidctest.Console, ClientSecret: oidctest.Secret, CLIClientID: oidctest.CLI, BindingsFile: bindings}
	})
	tr := s.drive("acme", "llama-3.1-8b", 1, regions...)
	for _, j := range []struct {
		file   string // of web/e2e, without .test.js
		levers levers // beside those of every journey
	}{
		{"console", nil},
		{"leader", nil},
		{"quota", nil},
		{"stream", nil},
		{"session", nil},
		{"drills", nil},
		{"policies", nil},
		{"place", s.placeLevers()},
	} {
		t.Run(j.file, func(t *testing.T) { s.browse(t, j.file, j.levers, "CONSOLE_ISSUER="+idp.URL) })
	}
	// Those that only look go side by side.
	t.Run("lookers", func(t *testing.T) {
		for _, file := range []string{"walk", "keyboard", "trail"} {
			t.Run(file, func(t *testing.T) {
				t.Parallel()
				s.browse(t, file, nil)
			})
		}
	})
	if lost := s.lost(tr.stop()); len(lost) > 0 {
		t.Errorf("%d requests lost meanwhile, first: %s", len(lost), lost[0])
	}
}
