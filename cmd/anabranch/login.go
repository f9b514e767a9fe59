package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/oauth2"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch/client"
)

// signIn is what a login left in a context.
type signIn struct {
	// IDToken is sent as the bearer token until ExpiresAt; RefreshToken gets the next one at
	// TokenEndpoint. Empty: there is none, and the user logs in again.
	IDToken      string    `json:"idToken"`
	ExpiresAt    time.Time `json:"expiresAt"`
	RefreshToken string    `json:"refreshToken,omitempty"`
	ClientID     string    `json:"clientId"`
	// TokenEndpoint is the OpenID provider's.
	TokenEndpoint string `json:"tokenEndpoint"`
}

const (
	// ahead is how long before its end an ID token is followed by the next.
	ahead = time.Minute
	// providerTimeout bounds a call to the OpenID provider, but for the wait for its user.
	providerTimeout = 15 * time.Second
)

// signInWays is what the control plane says of signing in.
type signInWays struct {
	OIDC *struct {
		Issuer                      string   `json:"issuer"`
		CLIClientID                 string   `json:"cliClientId"`
		Scopes                      []string `json:"scopes"`
		TokenEndpoint               string   `json:"tokenEndpoint"`
		DeviceAuthorizationEndpoint string   `json:"deviceAuthorizationEndpoint"`
	} `json:"oidc"`
}

func (a *app) login() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "login [CONTEXT]",
		Short: "Sign in with the control plane's OpenID provider",
		Long: `Sign in with the control plane's OpenID provider.

A page of the provider is to be opened in a browser, on any machine, and a short code entered there
(RFC 8628). What comes of it is kept in the context: the current one, or the one that is named. With
--server the context is made, or its servers changed. The token is renewed by itself for as long as the
provider allows.`,
		Example: `  anabranch login
  anabranch login prod --server https://cp-1.example:7100,https://cp-2.example:7100`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeContexts,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := loadContexts()
		if err != nil {
			return err
		}
		p, err := a.loginTo(all, args)
		if err != nil {
			return err
		}
		if p.SignIn, err = a.authorise(cmd.Context(), p); err != nil {
			return err
		}
		p.Token, p.TokenFile = "", ""
		all.put(*p)
		if all.Current == "" {
			all.Current = p.Name
		}
		if err := all.save(); err != nil {
			return err
		}
		return a.greet(cmd.Context(), p)
	}
	return cmd
}

func (a *app) logout() *cobra.Command {
	return &cobra.Command{
		Use:   "logout [CONTEXT]",
		Short: "Forget the sign-in of a context",
		Long: `Forget the sign-in of a context.

Without a name: of the current context. The tokens that were kept here go; they are not revoked at the
provider, and the last one may be good for some minutes more.`,
		Example: "  anabranch logout prod",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := loadContexts()
			if err != nil {
				return err
			}
			p, err := all.find(a.contextName(all, args))
			if err != nil {
				return err
			}
			if p.SignIn == nil {
				return fmt.Errorf("nobody is signed in at context %s", p.Name)
			}
			p.SignIn = nil
			if err := all.save(); err != nil {
				return err
			}
			return a.printf("signed out of %s\n", p.Name)
		},
	}
}

// contextName is the context that is meant.
func (a *app) contextName(all contexts, args []string) string {
	switch {
	case len(args) > 0:
		return args[0]
	case a.context != "":
		return a.context
	case environment("ANABRANCH_CONTEXT") != "":
		return environment("ANABRANCH_CONTEXT")
	}
	return all.Current
}

// loginTo is the destination that a login is for: one that is kept, changed by what was given, or a new
// one.
func (a *app) loginTo(all contexts, args []string) (*destination, error) {
	name := a.contextName(all, args)
	if name == "" && len(a.servers) == 0 {
		return nil, errors.New("no control plane named: give a context's name and --server")
	}
	if name == "" {
		name = "default"
	}
	if err := fleet.CheckName(name); err != nil {
		return nil, errors.New("context " + err.Error())
	}
	p := &destination{Name: name}
	if was, err := all.find(name); err == nil {
		kept := *was
		p = &kept
	} else if len(a.servers) == 0 {
		return nil, err
	}
	if len(a.servers) > 0 {
		p.Servers = nil
		for _, s := range a.servers {
			if err := checkServer(s); err != nil {
				return nil, err
			}
			p.Servers = append(p.Servers, trimURL(s))
		}
	}
	return p, nil
}

// authorise goes through the provider's device grant with the user.
func (a *app) authorise(ctx context.Context, p *destination) (*signIn, error) {
	c, err := p.client("")
	if err != nil {
		return nil, err
	}
	var ways signInWays
	if err := c.JSON(ctx, "/v1/signin", nil, &ways); err != nil {
		return nil, err
	}
	switch {
	case ways.OIDC == nil:
		return nil, errors.New("this control plane has no OpenID provider: keep a static token with `anabranch context set`")
	case ways.OIDC.TokenEndpoint == "":
		return nil, fmt.Errorf("the control plane does not reach its OpenID provider %s: try again in a moment", ways.OIDC.Issuer)
	case ways.OIDC.DeviceAuthorizationEndpoint == "":
		return nil, fmt.Errorf("the OpenID provider %s has no device grant: use a static token here", ways.OIDC.Issuer)
	}
	o := oauth2.Config{
		ClientID: ways.OIDC.CLIClientID, Scopes: ways.OIDC.Scopes,
		Endpoint: oauth2.Endpoint{TokenURL: ways.OIDC.TokenEndpoint, DeviceAuthURL: ways.OIDC.DeviceAuthorizationEndpoint, AuthStyle: oauth2.AuthStyleInParams},
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Timeout: providerTimeout})
	begun, err := o.DeviceAuth(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin to sign in at %s: %w", ways.OIDC.Issuer, refusal(err))
	}
	where := begun.VerificationURI
	if begun.VerificationURIComplete != "" {
		where = begun.VerificationURIComplete
	}
	if _, err := fmt.Fprintf(a.err, "Open %s\nand enter the code %s\n", where, begun.UserCode); err != nil {
		return nil, err
	}
	token, err := o.DeviceAccessToken(ctx, begun)
	if err != nil {
		return nil, fmt.Errorf("sign in at %s: %w", ways.OIDC.Issuer, refusal(err))
	}
	return signedIn(token, ways.OIDC.CLIClientID, ways.OIDC.TokenEndpoint)
}

// refusal is what an OpenID provider says, without what was sent to it.
func refusal(err error) error {
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode == "access_denied":
		return errors.New("it was denied in the browser")
	case errors.As(err, &refused) && refused.ErrorCode == "expired_token":
		return errors.New("nobody entered the code in time")
	case errors.As(err, &refused) && refused.ErrorCode != "":
		return fmt.Errorf("the provider says %s", refused.ErrorCode)
	case errors.As(err, &refused):
		return fmt.Errorf("the provider answered %s", refused.Response.Status)
	}
	return err
}

// signedIn reads what the provider gave.
func signedIn(token *oauth2.Token, clientID, endpoint string) (*signIn, error) {
	id, _ := token.Extra("id_token").(string)
	if id == "" {
		return nil, errors.New("the provider gave no ID token: is the scope openid allowed for the client?")
	}
	ends, err := expiryOf(id)
	if err != nil {
		return nil, err
	}
	return &signIn{IDToken: id, ExpiresAt: ends, RefreshToken: token.RefreshToken, ClientID: clientID, TokenEndpoint: endpoint}, nil
}

// current is the ID token to send at a time. It is renewed first when it is about to end, and renewed
// says that what is kept has changed.
func (s *signIn) current(ctx context.Context, now time.Time) (next *signIn, renewed bool, err error) {
	if now.Add(ahead).Before(s.ExpiresAt) {
		return s, false, nil
	}
	again := errors.New("the sign-in has ended: run `anabranch login` again")
	if s.RefreshToken == "" {
		return nil, false, again
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	o := oauth2.Config{ClientID: s.ClientID, Endpoint: oauth2.Endpoint{TokenURL: s.TokenEndpoint, AuthStyle: oauth2.AuthStyleInParams}}
	token, err := o.TokenSource(ctx, &oauth2.Token{RefreshToken: s.RefreshToken}).Token()
	if err != nil {
		return nil, false, fmt.Errorf("%w (%w)", again, refusal(err))
	}
	if token.RefreshToken == "" {
		token.RefreshToken = s.RefreshToken // it counts again
	}
	next, err = signedIn(token, s.ClientID, s.TokenEndpoint)
	return next, err == nil, err
}

// idToken is the ID token of the context of a name that was loaded with s. A renewed sign-in is kept; one
// that another command has renewed meanwhile is taken over.
func (s *signIn) idToken(ctx context.Context, name string, now time.Time) (string, error) {
	next, renewed, err := s.current(ctx, now)
	if !renewed && err == nil {
		return next.IDToken, nil
	}
	all, loadErr := loadContexts()
	if loadErr != nil {
		return "", errors.Join(err, loadErr)
	}
	p, findErr := all.find(name)
	switch {
	case err == nil && findErr == nil:
		p.SignIn = next
		return next.IDToken, all.save()
	case err == nil:
		return next.IDToken, nil // the context is gone
	case findErr == nil && p.SignIn != nil && p.SignIn.IDToken != s.IDToken && now.Before(p.SignIn.ExpiresAt):
		return p.SignIn.IDToken, nil
	}
	return "", err
}

// expiryOf reads when an ID token ends. Whether it is good is the control plane's to say.
func expiryOf(token string) (time.Time, error) {
	parts := strings.Split(token, ".")
	var claims struct {
		Expiry int64 `json:"exp"`
	}
	if len(parts) == 3 {
		if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(text, &claims) // a claim that can't be read is missing
		}
	}
	if claims.Expiry <= 0 {
		return time.Time{}, errors.New("the provider's ID token can't be read")
	}
	return time.Unix(claims.Expiry, 0).UTC(), nil
}

// greet says who has signed in.
func (a *app) greet(ctx context.Context, p *destination) error {
	c, err := p.client(p.SignIn.IDToken)
	if err != nil {
		return err
	}
	var me struct{ Name, Role string }
	if err := c.JSON(ctx, "/v1/whoami", nil, &me); err != nil {
		if client.IsStatus(err, http.StatusForbidden) {
			return a.printf("signed in at %s, and without a role there: ask who keeps its bindings\n", p.Name)
		}
		return err
	}
	return a.printf("signed in at %s as %s with the role %s\n", p.Name, me.Name, me.Role)
}

// client calls the destination's servers with a token.
func (p *destination) client(token string) (*client.Client, error) {
	c := &client.Client{Servers: p.Servers, Token: token}
	ca, err := p.authorities()
	if err != nil || ca == nil {
		return c, err
	}
	c.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca}, ForceAttemptHTTP2: true}
	return c, nil
}
