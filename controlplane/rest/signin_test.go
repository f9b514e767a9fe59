package rest

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/controlplane/access"
	"anabranch/controlplane/oidc"
	"anabranch/controlplane/oidc/oidctest"
)

// signing is a node whose people are known by a real provider over HTTP.
func signing(t *testing.T) (*double, *oidctest.Provider) {
	t.Helper()
	idp := oidctest.Start(t)
	file := filepath.Join(t.TempDir(), "bindings.yaml")
	if err := os.WriteFile(file, []byte("bindings: [{role: operator, groups: [sre]}, {role: viewer, groups: [all]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := oidc.New(oidc.Options{
		Issuer: idp.URL, ClientID: oidctest.Console, ClientSecret: oidctest.Secret, CLIClientID: oidctest.CLI,
		BindingsFile: file, Logger: slog.New(slog.DiscardHandler),
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
	return newDouble(t, func(o *Options) { o.SignIn = p }), idp
}

func TestPeopleOfAProviderHaveTheirRolesAndAreNamedInTheAudit(t *testing.T) {
	d, idp := signing(t)
	as := func(changes map[string]any) string {
		return "Authorization: Bearer " + idp.IDToken(oidctest.CLI, changes)
	}
	d.do("", "GET", "/v1/regions", "", as(nil)).want(200, "")
	d.do("", "POST", "/v1/regions", doc("Region", "eu", "{}"), yaml, as(nil)).want(201, "")
	d.do("", "POST", "/v1/regions", doc("Region", "us", "{}"), yaml, as(map[string]any{"groups": []string{"all"}})).want(403, "forbidden")
	d.do("", "GET", "/v1/regions", "", as(map[string]any{"groups": nil})).want(403, "forbidden")
	a := d.do("", "GET", "/v1/regions", "", as(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})).want(401, "unauthenticated")
	if !strings.Contains(string(a.body), "sign in again") || a.header.Get("WWW-Authenticate") == "" {
		t.Errorf("%s", a.body)
	}
	d.do("", "GET", "/v1/regions", "", "Authorization: Bearer "+idp.IDToken("wiki", nil)).want(401, "unauthenticated")
	d.do("viewer", "GET", "/v1/regions", "").want(200, "") // static tokens go on
	var said []string
	for _, e := range d.current().Audit(1, 0) {
		said = append(said, e.GetActor()+" "+e.GetRole()+" "+e.GetAction()+" "+e.GetCode())
	}
	want := "oidc:alice@example.com operator create ,oidc:alice@example.com viewer denied forbidden"
	if got := strings.Join(said, ","); !strings.HasPrefix(got, want) {
		t.Errorf("audited %q, want %q", got, want)
	}
}

func TestTheConsoleSignsInWithACodeAndPKCE(t *testing.T) {
	d, idp := signing(t)
	var ways SignInWays
	a := d.do("", "GET", "/v1/signin", "").want(200, "")
	if err := json.Unmarshal(a.body, &ways); err != nil || ways.OIDC == nil || ways.OIDC.ClientID != oidctest.Console || ways.OIDC.CLIClientID != oidctest.CLI {
		t.Fatalf("%v %s", err, a.body)
	}
	if strings.Contains(string(a.body), oidctest.Secret) {
		t.Error("the client's secret is told")
	}
	code, verifier, back := codeOf(t, d)
	grant := func(g oidc.Grant) string {
		b, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	g := oidc.Grant{Code: code, CodeVerifier: verifier, RedirectURI: back}
	var got oidc.Tokens
	a = d.do("", "POST", "/v1/signin", grant(g)).want(200, "")
	if err := json.Unmarshal(a.body, &got); err != nil || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%v %s", err, a.body)
	}
	d.do("", "POST", "/v1/regions", doc("Region", "eu", "{}"), yaml, "Authorization: Bearer "+got.IDToken).want(201, "")
	d.do("", "POST", "/v1/signin", grant(g)).want(400, "sign_in_refused") // a code counts once
	d.do("", "POST", "/v1/signin", grant(oidc.Grant{RefreshToken: got.RefreshToken})).want(200, "")
	d.do("", "POST", "/v1/signin", grant(oidc.Grant{RefreshToken: got.RefreshToken, Code: "x"})).want(422, "invalid")
	d.do("", "POST", "/v1/signin", `{"code":"x"}`).want(422, "invalid")
	d.do("", "POST", "/v1/signin", `{"password":"x"}`).want(400, "")
	idp.Down(true)
	d.do("", "POST", "/v1/signin", grant(oidc.Grant{RefreshToken: "x"})).want(503, "sign_in_away")
}

func TestWithoutAProviderThereAreStaticTokensOnly(t *testing.T) {
	d := newDouble(t)
	if a := d.do("", "GET", "/v1/signin", "").want(200, ""); strings.TrimSpace(string(a.body)) != "{}" {
		t.Errorf("%s", a.body)
	}
	d.do("", "POST", "/v1/signin", `{"refreshToken":"x"}`).want(404, "not_found")
}

// away is a provider that can't be reached, whose exchanges last until it is let go.
type away struct{ entered, let chan struct{} }

func (away) Identify(context.Context, string) (*access.Identity, error) { return nil, oidc.ErrAway }
func (away) Config() oidc.Config                                        { return oidc.Config{} }

func (a away) Exchange(context.Context, oidc.Grant) (oidc.Tokens, error) {
	a.entered <- struct{}{}
	<-a.let
	return oidc.Tokens{}, oidc.ErrAway
}

// TestSignInsAtOnceAreBounded: anybody can ask for one, and each holds a call to the provider.
func TestSignInsAtOnceAreBounded(t *testing.T) {
	slow := away{make(chan struct{}), make(chan struct{})}
	d := newDouble(t, func(o *Options) { o.SignIn = slow })
	const grant = `{"refreshToken":"x"}`
	var asked sync.WaitGroup
	for range maxExchanges {
		asked.Go(func() { d.do("", "POST", "/v1/signin", grant).want(503, "sign_in_away") })
	}
	for range maxExchanges {
		<-slow.entered
	}
	a := d.do("", "POST", "/v1/signin", grant).want(503, "busy")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	close(slow.let)
	asked.Wait()
	asked.Go(func() { d.do("", "POST", "/v1/signin", grant).want(503, "sign_in_away") })
	<-slow.entered // there is room again
	asked.Wait()
}
