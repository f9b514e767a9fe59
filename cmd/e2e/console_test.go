package e2e

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"anabranch/controlplane/oidc"
	"anabranch/controlplane/oidc/oidctest"
	"anabranch/web"
)

// TestTheConsole lets a real Chromium go through the console of a running system. CONSOLE_SHOTS
// names a folder that keeps the pictures.
func TestTheConsole(t *testing.T) {
	t.Parallel()
	if _, err := fs.Stat(web.Dist(), "index.html"); err != nil {
		t.Fatal("the console is not built into this test: run make build first")
	}
	idp := oidctest.Start(t)
	bindings := filepath.Join(t.TempDir(), "bindings.yaml")
	if err := os.WriteFile(bindings, []byte("bindings: [{role: viewer, groups: [sre]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, func(s *System) {
		s.people = &oidc.Options{Issuer: idp.URL, ClientID: oidctest.Console, ClientSecret: oidctest.Secret, CLIClientID: oidctest.CLI, BindingsFile: bindings}
	})
	tr := s.drive("acme", "llama-3.1-8b", 1, regions...)
	shots := os.Getenv("CONSOLE_SHOTS")
	if shots == "" {
		shots = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--test", "--test-reporter=spec", "e2e/console.test.js")
	cmd.Dir = filepath.Join("..", "..", "web")
	cmd.Env = append(os.Environ(), "CONSOLE_URL=http://"+s.nodes[1].at.HTTP, "CONSOLE_TOKEN="+s.tokens["viewer"], "CONSOLE_SHOTS="+shots, "CONSOLE_ISSUER="+idp.URL)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	for _, scheme := range []string{"light", "dark"} {
		if _, err := os.Stat(filepath.Join(shots, "console-"+scheme+".png")); err != nil {
			t.Error(err)
		}
	}
	if lost := s.lost(tr.stop()); len(lost) > 0 {
		t.Errorf("%d requests lost meanwhile, first: %s", len(lost), lost[0])
	}
}
