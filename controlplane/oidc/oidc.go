// Package oidc knows operators by an OpenID Connect provider: it checks the ID tokens that they send,
// finds their role and scope in a file of bindings, and exchanges codes for tokens on the console's
// behalf, so that the browser needs neither the client's secret nor the provider's leave to call it.
package oidc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"anabranch/controlplane/access"
)

const (
	// retry is the pause between looks for a provider that is away, reload that between looks at the
	// file of bindings.
	retry  = 10 * time.Second
	reload = 5 * time.Second
	// callTimeout bounds a call to the provider.
	callTimeout = 5 * time.Second
	// maxName bounds what somebody is called, in bytes: it stands in whatever they do.
	maxName = 256
)

var (
	// ErrAway says that the provider has not been reached since this node started.
	ErrAway = errors.New("the OpenID provider can't be reached")
	// ErrExpired says that an ID token is older than it may be. Whether it ever was a good one nobody has
	// looked: that would take the provider's keys.
	ErrExpired = errors.New("the ID token has expired: sign in again")
	// ErrRefused says that the provider would not take a code or a refresh token.
	ErrRefused = errors.New("the OpenID provider refused")
)

// Options says who the provider is.
type Options struct {
	// Issuer is the provider's address, character for character as its tokens say it.
	Issuer string
	// ClientID is the console's client; its tokens and those of CLIClientID are taken. ClientSecret is
	// of a confidential client; empty: a public one.
	ClientID, ClientSecret string
	// CLIClientID is the command line's, a public client with the device grant; empty: ClientID.
	CLIClientID string
	// Scopes that sign-ins ask for beside openid. Nil: profile, email, groups and offline_access.
	Scopes []string
	// NameClaim is what people are called by; empty: email, and where that is missing sub. An email counts
	// only if the provider says that it has verified it (email_verified): where people choose their own,
	// they could choose somebody else's. With "email" here it counts also if the provider says nothing,
	// as some never do, but not if it says that it has not.
	NameClaim string
	// GroupsClaim lists a person's groups; empty: groups.
	GroupsClaim string
	// BindingsFile says which role people have; see [Bindings]. It is read again when it changes.
	BindingsFile string
	// Client calls the provider; nil: one with time-outs.
	Client *http.Client
	// Now; nil: time.Now.
	Now func() time.Time
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Validate names each wrong option by its flag.
func (o Options) Validate() error {
	var problems []error
	u, err := url.Parse(o.Issuer)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		problems = append(problems, errors.New("--oidc-issuer: write https://host/path, as the provider calls itself"))
	case u.Scheme == "http" && u.Hostname() != "localhost" && u.Hostname() != "127.0.0.1" && u.Hostname() != "::1":
		problems = append(problems, errors.New("--oidc-issuer: use https: who can change what comes from the provider can be anybody"))
	}
	if o.ClientID == "" {
		problems = append(problems, errors.New("--oidc-client-id is missing: tokens for other clients must not count here"))
	}
	if o.BindingsFile == "" {
		problems = append(problems, errors.New("--oidc-bindings is missing: it says who has which role"))
	}
	return errors.Join(problems...)
}

func (o Options) withDefaults() Options {
	o.CLIClientID = cmp.Or(o.CLIClientID, o.ClientID)
	o.GroupsClaim = cmp.Or(o.GroupsClaim, "groups")
	if o.Scopes == nil {
		o.Scopes = []string{"profile", "email", "groups", oidc.ScopeOfflineAccess}
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: callTimeout}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o
}

// Provider is the one whose people are known.
type Provider struct {
	o        Options
	met      atomic.Pointer[met] // nil: not reached yet
	bindings atomic.Pointer[Bindings]
	file     stamp // of the bindings; only Run's goroutine looks at it
}

// met is a provider that has described itself.
type met struct {
	provider *oidc.Provider
	verifier *oidc.IDTokenVerifier
	device   string
}

// New reads the file of bindings and starts nothing; its error names a flag.
func New(o Options) (*Provider, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := &Provider{o: o.withDefaults()}
	b, s, err := readBindings(p.o.BindingsFile)
	if err != nil {
		return nil, fmt.Errorf("--oidc-bindings: %w", err)
	}
	p.bindings.Store(b)
	p.file = s
	return p, nil
}

// Run meets the provider, as soon as it is there, and reads the bindings again when they change, until
// ctx ends.
func (p *Provider) Run(ctx context.Context) error {
	look := time.NewTicker(reload)
	defer look.Stop()
	var tried time.Time
	for {
		if p.met.Load() == nil && p.o.Now().Sub(tried) >= retry {
			tried = p.o.Now()
			if err := p.meet(ctx); err != nil && ctx.Err() == nil {
				p.o.Logger.Warn("OpenID provider not reached", "issuer", p.o.Issuer, "error", err)
			}
		}
		p.reread()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
}

// meet reads the provider's description of itself (OpenID Connect Discovery 1.0). The context is kept
// for looks at its keys, and carries nothing but the client.
func (p *Provider) meet(ctx context.Context) error {
	calls := oidc.ClientContext(context.WithoutCancel(ctx), p.o.Client)
	provider, err := oidc.NewProvider(calls, p.o.Issuer)
	if err != nil {
		return fmt.Errorf("meet the provider: %w", err)
	}
	p.met.Store(&met{
		provider: provider,
		verifier: provider.VerifierContext(calls, &oidc.Config{SkipClientIDCheck: true, Now: p.o.Now}), // [Provider.Identify] checks it
		device:   provider.Endpoint().DeviceAuthURL,
	})
	p.o.Logger.Info("OpenID provider met", "issuer", p.o.Issuer)
	return nil
}

// Identify finds who sent an ID token. Nil and no error: it isn't one. An error (ErrAway and ErrExpired
// among others) is for the sender to read, and repeats nothing of the token. A person without a binding is known and has no role.
func (p *Provider) Identify(ctx context.Context, token string) (*access.Identity, error) {
	if strings.Count(token, ".") != 2 || !strings.HasPrefix(token, "eyJ") {
		return nil, nil //nolint:nilnil // see above
	}
	m := p.met.Load()
	if m == nil {
		return nil, ErrAway
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	verified, err := m.verifier.Verify(ctx, token)
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &expired):
		return nil, ErrExpired
	case err != nil:
		p.o.Logger.Debug("ID token refused", "error", err)
		return nil, errors.New("the ID token is not one of the provider that this control plane trusts")
	case !slices.Contains(verified.Audience, p.o.ClientID) && !slices.Contains(verified.Audience, p.o.CLIClientID):
		return nil, errors.New("the ID token was made for another client")
	}
	var claims map[string]any
	if err := verified.Claims(&claims); err != nil {
		return nil, errors.New("the ID token's claims can't be read")
	}
	name := p.name(verified.Subject, claims)
	if len(name) > maxName {
		return nil, fmt.Errorf("the name in the ID token is longer than %d bytes", maxName)
	}
	b := p.bindings.Load().of(name, texts(claims[p.o.GroupsClaim]))
	return &access.Identity{Kind: access.KindOIDC, Name: access.OIDCPrefix + name, Role: b.Role, Scope: b.Scope, Expires: verified.Expiry.UTC()}, nil
}

// name is what a person is called by.
func (p *Provider) name(subject string, claims map[string]any) string {
	claim := cmp.Or(p.o.NameClaim, "email")
	if claim == "email" {
		// Some say it as a text.
		said, told := claims["email_verified"]
		sure := said == true || said == "true"
		if !sure && (told || p.o.NameClaim == "") {
			return subject
		}
	}
	if name, ok := claims[claim].(string); ok && name != "" {
		return name
	}
	return subject
}

// texts reads a claim that is a text or a list of them.
func texts(claim any) []string {
	switch v := claim.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, x := range v {
			if s, ok := x.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// Config is what a client needs to know to sign in.
type Config struct {
	Issuer      string `json:"issuer"`
	ClientID    string `json:"clientId"`
	CLIClientID string `json:"cliClientId"`
	// Scopes to ask for, openid among them.
	Scopes []string `json:"scopes"`
	// The provider's addresses; empty while it is away, the last also where it has no device grant.
	AuthorizationEndpoint       string `json:"authorizationEndpoint,omitempty"`
	TokenEndpoint               string `json:"tokenEndpoint,omitempty"`
	DeviceAuthorizationEndpoint string `json:"deviceAuthorizationEndpoint,omitempty"`
}

// Config tells clients how to sign in.
func (p *Provider) Config() Config {
	c := Config{
		Issuer: p.o.Issuer, ClientID: p.o.ClientID, CLIClientID: p.o.CLIClientID,
		Scopes: append([]string{oidc.ScopeOpenID}, p.o.Scopes...),
	}
	if m := p.met.Load(); m != nil {
		e := m.provider.Endpoint()
		c.AuthorizationEndpoint, c.TokenEndpoint, c.DeviceAuthorizationEndpoint = e.AuthURL, e.TokenURL, m.device
	}
	return c
}

// Grant is what the console shows to get tokens: a code with the verifier of its challenge (RFC 7636) and
// the address that it came to, or a refresh token.
type Grant struct {
	Code         string `json:"code,omitempty"`
	CodeVerifier string `json:"codeVerifier,omitempty"`
	RedirectURI  string `json:"redirectUri,omitempty"`
	RefreshToken string `json:"refreshToken,omitempty"`
}

// Tokens is what a sign-in gives.
type Tokens struct {
	// IDToken is what requests carry as their bearer token, until ExpiresAt.
	IDToken   string    `json:"idToken"`
	ExpiresAt time.Time `json:"expiresAt"`
	// RefreshToken gets the next one; empty: the provider gave none.
	RefreshToken string `json:"refreshToken,omitempty"`
}

// Exchange asks the provider for tokens. Errors: ErrAway, ErrRefused, both wrapped.
func (p *Provider) Exchange(ctx context.Context, g Grant) (Tokens, error) {
	m := p.met.Load()
	if m == nil {
		return Tokens{}, ErrAway
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.o.Client), callTimeout)
	defer cancel()
	c := oauth2.Config{ClientID: p.o.ClientID, ClientSecret: p.o.ClientSecret, Endpoint: m.provider.Endpoint(), RedirectURL: g.RedirectURI}
	var token *oauth2.Token
	var err error
	if g.RefreshToken != "" {
		token, err = c.TokenSource(ctx, &oauth2.Token{RefreshToken: g.RefreshToken}).Token()
	} else {
		token, err = c.Exchange(ctx, g.Code, oauth2.VerifierOption(g.CodeVerifier))
	}
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.Response.StatusCode < http.StatusInternalServerError:
		// The description may repeat what was sent; the code of RFC 6749 does not.
		return Tokens{}, fmt.Errorf("%w: %s", ErrRefused, cmp.Or(refused.ErrorCode, "invalid_grant"))
	case err != nil:
		p.o.Logger.Warn("OpenID provider did not answer", "error", errors.Unwrap(err))
		return Tokens{}, ErrAway
	}
	id, _ := token.Extra("id_token").(string)
	verified, err := m.verifier.Verify(ctx, id)
	if err != nil {
		return Tokens{}, fmt.Errorf("%w: it gave no good ID token; is the scope openid allowed?", ErrRefused)
	}
	return Tokens{IDToken: id, ExpiresAt: verified.Expiry.UTC(), RefreshToken: token.RefreshToken}, nil
}
