package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/controlplane/access"
	"anabranch/controlplane/oidc/oidctest"
)

const bindings = `bindings:
- {role: admin, users: [root@example.com]}
- {role: operator, groups: [sre], scope: {regions: [eu-west-1]}}
- {role: viewer, groups: ["*"]}
`

// begin makes a provider's counterpart that has met it.
func begin(t *testing.T, with *oidctest.Provider, change func(*Options)) *Provider {
	t.Helper()
	p := prepare(t, with, change)
	if err := p.meet(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func prepare(t *testing.T, with *oidctest.Provider, change func(*Options)) *Provider {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bindings.yaml")
	write(t, file, bindings)
	o := Options{
		Issuer: with.URL, ClientID: oidctest.Console, ClientSecret: oidctest.Secret, CLIClientID: oidctest.CLI,
		BindingsFile: file, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhoSentAToken(t *testing.T) {
	idp := oidctest.Start(t)
	p := begin(t, idp, nil)
	other := oidctest.Start(t)
	forged := idp.IDToken(oidctest.Console, nil)
	forged = forged[:strings.LastIndex(forged, ".")+1] + other.IDToken(oidctest.Console, nil)[strings.LastIndex(other.IDToken(oidctest.Console, nil), ".")+1:]
	for name, c := range map[string]struct {
		token, who, role, says string
	}{
		"of the console":          {idp.IDToken(oidctest.Console, nil), "oidc:alice@example.com", "operator", ""},
		"of the command line":     {idp.IDToken(oidctest.CLI, nil), "oidc:alice@example.com", "operator", ""},
		"the first binding":       {idp.IDToken(oidctest.CLI, map[string]any{"email": "root@example.com"}), "oidc:root@example.com", "admin", ""},
		"anybody":                 {idp.IDToken(oidctest.CLI, map[string]any{"email": "bob@example.com", "groups": nil}), "oidc:bob@example.com", "viewer", ""},
		"one group as a text":     {idp.IDToken(oidctest.CLI, map[string]any{"groups": "sre"}), "oidc:alice@example.com", "operator", ""},
		"an unverified address":   {idp.IDToken(oidctest.CLI, map[string]any{"email": "root@example.com", "email_verified": false}), "oidc:u-1", "operator", ""},
		"nobody says verified":    {idp.IDToken(oidctest.CLI, map[string]any{"email": "root@example.com", "email_verified": nil}), "oidc:u-1", "operator", ""},
		"unverified as a text":    {idp.IDToken(oidctest.CLI, map[string]any{"email": "root@example.com", "email_verified": "false"}), "oidc:u-1", "operator", ""},
		"verified as a text":      {idp.IDToken(oidctest.CLI, map[string]any{"email": "root@example.com", "email_verified": "true"}), "oidc:root@example.com", "admin", ""},
		"a name without end":      {idp.IDToken(oidctest.CLI, map[string]any{"email": strings.Repeat("x", 257)}), "", "", "longer than 256 bytes"},
		"no address":              {idp.IDToken(oidctest.CLI, map[string]any{"email": nil}), "oidc:u-1", "operator", ""},
		"of another client":       {idp.IDToken("wiki", nil), "", "", "another client"},
		"expired":                 {idp.IDToken(oidctest.CLI, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), "", "", "sign in again"},
		"of another provider":     {other.IDToken(oidctest.CLI, nil), "", "", "not one of the provider"},
		"with another signature":  {forged, "", "", "not one of the provider"},
		"a static token":          {"anb_0123", "", "", ""},
		"a password with points":  {"a.b.c", "", "", ""},
		"something like a token":  {"eyJ.eyJ.x", "", "", "not one of the provider"},
		"a token of another kind": {"eyJhbGciOiJub25lIn0.e30.", "", "", "not one of the provider"},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := p.Identify(t.Context(), c.token)
			if (c.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q", err, c.says)
			}
			if (id == nil) != (c.who == "") {
				t.Fatalf("known as %+v, want %q", id, c.who)
			}
			if id != nil && (id.Name != c.who || id.Role != c.role || id.Kind != access.KindOIDC || time.Until(id.Expires) <= 0) {
				t.Errorf("known as %+v, want %s as %s", id, c.who, c.role)
			}
			if id != nil && c.role == "operator" && (len(id.Scope.Regions) != 1 || id.Scope.Regions[0] != "eu-west-1") {
				t.Errorf("scope %+v", id.Scope)
			}
			if err != nil && len(c.token) > 20 && strings.Contains(err.Error(), c.token[:20]) {
				t.Error("the token is repeated")
			}
		})
	}
}

// TestAProviderThatVerifiesNothingCanBeTrustedOnPurpose: some never say email_verified.
func TestAProviderThatVerifiesNothingCanBeTrustedOnPurpose(t *testing.T) {
	idp := oidctest.Start(t)
	p := begin(t, idp, func(o *Options) { o.NameClaim = "email" })
	for said, want := range map[any]string{nil: "oidc:root@example.com", true: "oidc:root@example.com", false: "oidc:u-1", "false": "oidc:u-1", 0: "oidc:u-1"} {
		id, err := p.Identify(t.Context(), idp.IDToken(oidctest.CLI, map[string]any{"email": "root@example.com", "email_verified": said}))
		if err != nil || id.Name != want {
			t.Errorf("email_verified %v: %+v, %v", said, id, err)
		}
	}
}

func TestSomebodyWithoutABindingIsKnownAndMayNothing(t *testing.T) {
	idp := oidctest.Start(t)
	p := begin(t, idp, func(o *Options) { write(t, o.BindingsFile, "bindings: [{role: admin, users: [root@example.com]}]") })
	id, err := p.Identify(t.Context(), idp.IDToken(oidctest.CLI, nil))
	if err != nil || id.Name != "oidc:alice@example.com" || id.Role != "" || len(id.Rights()) != 0 {
		t.Errorf("got %+v, %v", id, err)
	}
}

func TestAProviderThatComesLaterIsMet(t *testing.T) {
	idp := oidctest.Start(t)
	idp.Down(true)
	var clock sync.Mutex
	now := time.Now()
	p := prepare(t, idp, func(o *Options) {
		o.Now = func() time.Time {
			clock.Lock()
			defer clock.Unlock()
			now = now.Add(retry) // each look is one pause later
			return now
		}
	})
	if err := p.meet(t.Context()); err == nil {
		t.Fatal("met a provider that is down")
	}
	if _, err := p.Identify(t.Context(), idp.IDToken(oidctest.CLI, nil)); !errors.Is(err, ErrAway) {
		t.Errorf("identify: %v", err)
	}
	if c := p.Config(); c.Issuer != idp.URL || c.TokenEndpoint != "" || c.Scopes[0] != "openid" {
		t.Errorf("config %+v", c)
	}
	if _, err := p.Exchange(t.Context(), Grant{RefreshToken: "x"}); !errors.Is(err, ErrAway) {
		t.Errorf("exchange: %v", err)
	}
	idp.Down(false)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) }) // the context's end, always
	defer running.Wait()
	defer cancel()
	for deadline := time.Now().Add(20 * time.Second); p.Config().TokenEndpoint == ""; {
		if time.Now().After(deadline) {
			t.Fatal("not met within 20 s")
		}
		<-time.After(5 * time.Millisecond) // look again
	}
	if c := p.Config(); c.DeviceAuthorizationEndpoint != idp.URL+"/device" || c.AuthorizationEndpoint != idp.URL+"/authorize" {
		t.Errorf("config %+v", c)
	}
}

// code signs in at the provider as a browser does and returns the code.
func code(t *testing.T, p *Provider, verifier, redirect string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(verifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {oidctest.Console}, "redirect_uri": {redirect}, "state": {"s"}, "scope": {"openid"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a, err := c.Get(p.Config().AuthorizationEndpoint + "?" + q.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusFound {
		why, _ := io.ReadAll(a.Body)
		t.Fatalf("%d %s", a.StatusCode, why)
	}
	back, err := a.Location()
	if err != nil {
		t.Fatal(err)
	}
	return back.Query().Get("code")
}

func TestACodeIsExchangedAndRefreshed(t *testing.T) {
	idp := oidctest.Start(t)
	p := begin(t, idp, nil)
	const redirect = "http://127.0.0.1:7100/"
	verifier := strings.Repeat("v", 43)
	got, err := p.Exchange(t.Context(), Grant{Code: code(t, p, verifier, redirect), CodeVerifier: verifier, RedirectURI: redirect})
	if err != nil || got.RefreshToken == "" || time.Until(got.ExpiresAt) < 50*time.Minute {
		t.Fatalf("exchange: %+v, %v", got, err)
	}
	if id, err := p.Identify(t.Context(), got.IDToken); err != nil || id.Role != "operator" {
		t.Errorf("the token is of %+v, %v", id, err)
	}
	next, err := p.Exchange(t.Context(), Grant{RefreshToken: got.RefreshToken})
	if err != nil || next.RefreshToken == got.RefreshToken || next.IDToken == "" {
		t.Errorf("refresh: %+v, %v", next, err)
	}
	for name, g := range map[string]Grant{
		"another verifier":       {Code: code(t, p, verifier, redirect), CodeVerifier: strings.Repeat("w", 43), RedirectURI: redirect},
		"another address":        {Code: code(t, p, verifier, redirect), CodeVerifier: verifier, RedirectURI: "http://evil.example/"},
		"an invented code":       {Code: "x", CodeVerifier: verifier, RedirectURI: redirect},
		"a refresh token twice":  {RefreshToken: got.RefreshToken},
		"nothing to exchange at": {},
	} {
		if got, err := p.Exchange(t.Context(), g); !errors.Is(err, ErrRefused) || got.IDToken != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	idp.Down(true)
	if _, err := p.Exchange(t.Context(), Grant{RefreshToken: next.RefreshToken}); !errors.Is(err, ErrAway) {
		t.Errorf("while the provider is down: %v", err)
	}
}

func TestOptionsAreNamedByTheirFlags(t *testing.T) {
	good := Options{Issuer: "https://id.example", ClientID: "c", BindingsFile: "f"}
	for flag, change := range map[string]func(*Options){
		"--oidc-issuer: write": func(o *Options) { o.Issuer = "id.example" }, "--oidc-issuer: use https": func(o *Options) { o.Issuer = "http://id.example" },
		"--oidc-client-id": func(o *Options) { o.ClientID = "" }, "--oidc-bindings is missing": func(o *Options) { o.BindingsFile = "" },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("got %v, want something on %s", err, flag)
		}
	}
	if _, err := New(good); err == nil || !strings.Contains(err.Error(), "--oidc-bindings") {
		t.Errorf("a file that isn't there: %v", err)
	}
}
