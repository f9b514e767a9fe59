package rest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/access"
	"anabranch/controlplane/oidc"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
)

// SignIn knows people by an OpenID provider, as an [oidc.Provider] does.
type SignIn interface {
	Identify(ctx context.Context, token string) (*access.Identity, error)
	Config() oidc.Config
	Exchange(ctx context.Context, g oidc.Grant) (oidc.Tokens, error)
}

// SignInWays is how people can sign in.
type SignInWays struct {
	// OIDC is the OpenID provider; absent: there is none, and a static token is needed.
	OIDC *oidc.Config `json:"oidc,omitempty"`
}

const (
	// maxGrant bounds each part of a grant, in bytes.
	maxGrant = 8 << 10
	// maxExchanges is how many sign-ins a node asks the provider about at a time.
	maxExchanges = 32
)

// bySignIn knows people by ID tokens.
func (s *Server) bySignIn(r *http.Request, _ *state.View, _ time.Time) (*access.Identity, error) {
	token := bearer(r)
	if s.o.SignIn == nil || token == "" {
		return nil, nil //nolint:nilnil // see authenticator
	}
	id, err := s.o.SignIn.Identify(r.Context(), token)
	switch {
	case errors.Is(err, oidc.ErrAway):
		return nil, problemSignInAway()
	case errors.Is(err, oidc.ErrExpired):
		return nil, problemUnauthenticated("Not accepted: " + err.Error() + ".").because("expired")
	case err != nil:
		return nil, problemUnauthenticated("Not accepted: " + err.Error() + ".").because("id_token")
	}
	if id != nil {
		s.shown.remember(token, id.Expires, s.o.Now())
	}
	return id, nil
}

func problemSignInAway() *Problem {
	return newProblem(codeSignInAway, "The OpenID provider does not answer, so nobody can sign in with it. Static tokens are taken.").after(10 * time.Second).because("sign_in_away")
}

// signInWays tells how to sign in: for the console and the command line, before they have a token.
func (s *Server) signInWays(c echo.Context) error {
	var ways SignInWays
	if s.o.SignIn != nil {
		config := s.o.SignIn.Config()
		ways.OIDC = &config
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.JSON(http.StatusOK, ways)
}

// signIn exchanges a code or a refresh token for an ID token. Whoever has them may: they are the proof.
func (s *Server) signIn(c echo.Context) error {
	var g oidc.Grant
	if err := strictJSON(c, &g); err != nil {
		return err
	}
	if s.o.SignIn != nil {
		if problems := vetGrant(g); len(problems) > 0 {
			return problemDocument(problems)
		}
	}
	tokens, err := s.exchange(c, g)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, tokens)
}

// exchange asks the provider for tokens. Whoever tries grants is slowed down as who tries tokens.
func (s *Server) exchange(c echo.Context, g oidc.Grant) (oidc.Tokens, error) {
	if s.o.SignIn == nil {
		return oidc.Tokens{}, newProblem(codeNotFound, "This control plane has no OpenID provider: use a static token.")
	}
	from := address(c.Request())
	if wait := s.attempts.wait(from); wait > 0 {
		return oidc.Tokens{}, problemAttempts(wait)
	}
	select {
	case s.exchanging <- struct{}{}:
		defer func() { <-s.exchanging }()
	default:
		return oidc.Tokens{}, newProblem(codeBusy, "This node asks the OpenID provider about as many sign-ins as it may at a time.").after(time.Second)
	}
	tokens, err := s.o.SignIn.Exchange(c.Request().Context(), g)
	switch {
	case errors.Is(err, oidc.ErrRefused):
		s.attempts.take(from)
		return oidc.Tokens{}, newProblem(codeSignInRefused, "Not accepted: "+err.Error()+". Sign in again.")
	case err != nil:
		return oidc.Tokens{}, problemSignInAway()
	}
	return tokens, nil
}

// vetGrant wants either a code with what belongs to it, or a refresh token.
func vetGrant(g oidc.Grant) []policy.Problem {
	var problems []policy.Problem
	part := func(field, value string, wanted bool) {
		switch {
		case wanted && value == "":
			problems = append(problems, policy.Problem{Field: field, Reason: "is missing", Fix: "send code, codeVerifier and redirectUri, or refreshToken alone"})
		case !wanted && value != "":
			problems = append(problems, policy.Problem{Field: field, Reason: "does not go with refreshToken", Fix: "remove it"})
		case len(value) > maxGrant:
			problems = append(problems, policy.Problem{Field: field, Reason: "is too long", Fix: "send it as the provider gave it"})
		}
	}
	code := g.RefreshToken == ""
	part("code", g.Code, code)
	part("codeVerifier", g.CodeVerifier, code)
	part("redirectUri", g.RedirectURI, code)
	part("refreshToken", g.RefreshToken, !code)
	return problems
}
