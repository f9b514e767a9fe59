package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/controlplane/oidc"
	"anabranch/controlplane/oidc/oidctest"
	"anabranch/controlplane/rest"
)

// signing is a user of a control plane whose people are known by a real provider over HTTP, with a
// contexts file of their own and nothing in the environment that names a token.
func signing(t *testing.T) (session, *oidctest.Provider) {
	t.Helper()
	idp := oidctest.Start(t)
	bindings := filepath.Join(t.TempDir(), "bindings.yaml")
	if err := os.WriteFile(bindings, []byte("bindings: [{role: operator, groups: [sre]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := oidc.New(oidc.Options{
		Issuer: idp.URL, ClientID: oidctest.Console, ClientSecret: oidctest.Secret, CLIClientID: oidctest.CLI,
		BindingsFile: bindings, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) }) // the context's end, always
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for deadline := time.Now().Add(20 * time.Second); p.Config().TokenEndpoint == ""; {
		if time.Now().After(deadline) {
			t.Fatal("the provider was not met within 20 s")
		}
		<-time.After(2 * time.Millisecond) // look again
	}
	s := begin(t, func(o *rest.Options) { o.SignIn = p })
	t.Setenv("ANABRANCH_SERVER", "")
	t.Setenv("ANABRANCH_TOKEN", "")
	t.Setenv("ANABRANCH_CONFIG", filepath.Join(t.TempDir(), "config.yaml"))
	return s, idp
}

func TestLoginSignsInWithACodeFromTheDevice(t *testing.T) {
	s, idp := signing(t)
	idp.Approving(1, false)
	out, errs := s.do(0, "", "login", "prod", "--server", s.node.URL)
	if !strings.Contains(errs, "/activate\nand enter the code WDJB-MJHT") {
		t.Errorf("the user is told %q", errs)
	}
	if out != "signed in at prod as oidc:alice@example.com with the role operator\n" {
		t.Errorf("login: %q", out)
	}
	if me, _ := s.do(0, "", "whoami"); !strings.Contains(me, "oidc:alice@example.com (oidc)") {
		t.Errorf("whoami: %s", me)
	}
	s.file("tenant.yaml", eu+"---\n"+acme)
	s.do(0, "", "apply", "-f", "tenant.yaml")
	list, _ := s.do(0, "", "context", "list")
	if !strings.Contains(list, "of a login") {
		t.Errorf("list:\n%s", list)
	}
	if shown, _ := s.do(0, "", "context", "list", "-o", "yaml"); strings.Contains(shown, "eyJ") {
		t.Error("the token is shown")
	}
	if info, err := os.Stat(os.Getenv("ANABRANCH_CONFIG")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the contexts file: %v, %v", info.Mode(), err)
	}
	s.do(0, "", "logout")
	s.do(exitRefused, "", "whoami")
	s.do(exitFailed, "", "logout")
}

func TestASignInIsRenewedByItself(t *testing.T) {
	s, idp := signing(t)
	idp.Lasting(ahead / 2) // about to end from the beginning
	s.do(0, "", "login", "prod", "--server", s.node.URL)
	kept := func() signIn {
		all, err := loadContexts()
		if err != nil || len(all.Contexts) != 1 || all.Contexts[0].SignIn == nil {
			t.Fatalf("contexts %+v, %v", all, err)
		}
		return *all.Contexts[0].SignIn
	}
	before, asked := kept(), idp.Asked("/token")
	idp.Lasting(time.Hour)
	s.do(0, "", "whoami")
	after := kept()
	if after.RefreshToken == before.RefreshToken || time.Until(after.ExpiresAt) < 50*time.Minute {
		t.Errorf("kept %+v after %+v", after, before)
	}
	s.do(0, "", "whoami")
	if got := idp.Asked("/token") - asked; got != 1 {
		t.Errorf("the provider was asked %d times", got)
	}
	// Another command has renewed it meanwhile: the refresh token counts once.
	stale := before
	if token, err := stale.idToken(t.Context(), "prod", time.Now()); err != nil || token != after.IDToken {
		t.Errorf("a stale sign-in gives %v, another than the one that is kept: %v", err, token != after.IDToken)
	}
	// The provider has enough.
	all, err := loadContexts()
	if err != nil {
		t.Fatal(err)
	}
	all.Contexts[0].SignIn.ExpiresAt, all.Contexts[0].SignIn.RefreshToken = time.Now(), "revoked"
	if err := all.save(); err != nil {
		t.Fatal(err)
	}
	if _, errs := s.do(exitFailed, "", "whoami"); !strings.Contains(errs, "run `anabranch login` again") || strings.Contains(errs, "revoked\"") {
		t.Errorf("errors: %s", errs)
	}
}

func TestLoginsThatCannotWorkSayWhy(t *testing.T) {
	s, idp := signing(t)
	if _, errs := s.do(exitFailed, "", "login"); !strings.Contains(errs, "give a context's name and --server") {
		t.Errorf("without a control plane: %s", errs)
	}
	if _, errs := s.do(exitFailed, "", "login", "nowhere"); !strings.Contains(errs, `no context "nowhere"`) {
		t.Errorf("at an unknown context: %s", errs)
	}
	idp.Approving(0, true)
	if _, errs := s.do(exitFailed, "", "login", "prod", "--server", s.node.URL); !strings.Contains(errs, "denied in the browser") {
		t.Errorf("denied: %s", errs)
	}
	idp.Down(true)
	if _, errs := s.do(exitFailed, "", "login", "prod", "--server", s.node.URL); !strings.Contains(errs, "503") {
		t.Errorf("down: %s", errs)
	}
	idp.Down(false)
	idp.Approving(0, false)
	idp.As(map[string]any{"groups": nil})
	if out, _ := s.do(0, "", "login", "prod", "--server", s.node.URL); !strings.Contains(out, "without a role") {
		t.Errorf("without a role: %s", out)
	}
	plain := begin(t)
	if _, errs := plain.do(exitFailed, "", "login", "plain", "--server", plain.node.URL); !strings.Contains(errs, "no OpenID provider") {
		t.Errorf("without a provider: %s", errs)
	}
}
