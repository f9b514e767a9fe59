package rest

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/access"
	"anabranch/controlplane/oidc"
	"anabranch/controlplane/policy"
)

// Session is who is signed in by the cookie of a browser, or by the bearer token of the request.
type Session struct {
	SignedIn bool `json:"signedIn"`
	// Kind, Name, Role and Scope are as in [Whoami]; absent: nobody is signed in.
	Kind  access.Kind   `json:"kind,omitempty"`
	Name  string        `json:"name,omitempty"`
	Role  string        `json:"role,omitempty"`
	Scope *access.Scope `json:"scope,omitempty"`
	// By is cookie or bearer.
	By string `json:"by,omitempty"`
	// ExpiresAt is when it ends, by the cookie or by the token, whichever is first; absent: never.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Refreshable: POST /v1/session/refresh makes it last longer.
	Refreshable bool `json:"refreshable,omitempty"`
	// Code and Detail say why nobody is signed in: none, unknown, expired, revoked or id_token.
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// SessionAsk signs somebody in by one of its parts.
type SessionAsk struct {
	// Token is a static token, or an ID token of the OpenID provider.
	Token string `json:"token"`
	// Code is one of POST /v1/session/codes.
	Code string `json:"code"`
	// SignIn is a code of the OpenID provider with what belongs to it.
	SignIn *oidc.Grant `json:"signIn"`
}

const (
	byCookie = "cookie"
	byBearer = "bearer"
)

// SessionLifetime is how long a session lasts that is not refreshed, in so far as its token does: a shift.
const SessionLifetime = 12 * time.Hour

func (s *Server) sessionRoutes(e *echo.Echo) {
	e.GET("/v1/session", s.getSession, timed)
	e.POST("/v1/session", s.openSession, timed)
	e.DELETE("/v1/session", s.endSession, timed)
	e.POST(pathRefresh, s.refreshSession, timed)
	e.POST("/v1/session/codes", s.createCode, s.may(read, anyScope), timed)
}

// getSession says who is signed in. It is no failure if nobody is: a page asks this first.
func (s *Server) getSession(c echo.Context) error {
	r := c.Request()
	_, cookie := cookieCredential(r)
	if !cookie && bearer(r) == "" {
		return c.JSON(http.StatusOK, Session{Code: "none", Detail: "Nobody is signed in."})
	}
	id, err := s.known(c)
	if p := (*Problem)(nil); errors.As(err, &p) && p.Status == http.StatusUnauthorized {
		c.Response().Header().Del(echo.HeaderWWWAuthenticate)
		if cookie {
			s.forget(c)
		}
		return c.JSON(http.StatusOK, Session{Code: causeOf(err), Detail: p.Detail})
	}
	if err != nil {
		return err
	}
	out := Session{SignedIn: true, Kind: id.Kind, Name: id.Name, Role: id.Role, Scope: &id.Scope, By: byBearer, ExpiresAt: id.Expires}
	if cookie {
		held, err := sessionOf(r)
		if err != nil {
			return err // known has judged it
		}
		out.By, out.ExpiresAt, out.Refreshable = byCookie, held.ends, held.refreshable
	}
	return c.JSON(http.StatusOK, out)
}

// openSession signs somebody in: what they send goes into a cookie that scripts can't read.
func (s *Server) openSession(c echo.Context) error {
	if err := sameOrigin(c); err != nil {
		return err
	}
	var ask SessionAsk
	if err := strictJSON(c, &ask); err != nil {
		return err
	}
	if problems := ask.vet(); len(problems) > 0 {
		return problemDocument(problems)
	}
	tokens := oidc.Tokens{IDToken: ask.Token}
	var err error
	switch {
	case ask.Code != "":
		tokens.IDToken, err = s.redeem(c, ask.Code)
	case ask.SignIn != nil:
		tokens, err = s.exchange(c, *ask.SignIn)
	}
	if err != nil {
		return err
	}
	return s.signedIn(c, tokens.IDToken, tokens.RefreshToken)
}

// vet wants exactly one part.
func (a SessionAsk) vet() []policy.Problem {
	given := 0
	for _, is := range []bool{a.Token != "", a.Code != "", a.SignIn != nil} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return []policy.Problem{{Field: "token", Reason: "is not the only way to sign in that is given, or none is", Fix: "send token, code, or signIn"}}
	case a.SignIn != nil:
		problems := vetGrant(*a.SignIn)
		if a.SignIn.RefreshToken != "" {
			problems = []policy.Problem{{Field: "refreshToken", Reason: "does not belong here", Fix: "POST /v1/session/refresh takes it from its cookie"}}
		}
		for i := range problems {
			problems[i].Field = "signIn." + problems[i].Field
		}
		return problems
	case len(a.Token) > maxGrant:
		return []policy.Problem{{Field: "token", Reason: "is too long", Fix: "send a token of this control plane"}}
	}
	return nil
}

// signedIn judges a token as if it had come as a bearer token, and sets the cookies.
func (s *Server) signedIn(c echo.Context, token, refresh string) error {
	r := c.Request()
	defer c.SetRequest(r)
	bare := r.Clone(r.Context())
	bare.Header.Del("Cookie")
	bare.Header.Set(echo.HeaderAuthorization, "Bearer "+token)
	c.SetRequest(bare)
	id, err := s.known(c)
	s.metrics.countAuth(err)
	if err != nil {
		return err
	}
	if err := s.paced(c, id); err != nil {
		return err
	}
	if id.Role == "" {
		return problemForbidden("", nil).because("forbidden")
	}
	end := s.o.Now().Add(SessionLifetime).UTC().Truncate(time.Second)
	held := session{token: token, ends: end, refreshable: refresh != ""}
	if !id.Expires.IsZero() && id.Expires.Before(end) {
		held.ends = id.Expires
	} else {
		held.refreshable = true
	}
	if err := s.keep(c, r, held, refresh, end); err != nil {
		return err
	}
	s.o.Logger.Info("signed in by cookie", slog.String("kind", string(id.Kind)), slog.String("name", id.Name), slog.String("role", id.Role),
		slog.Time("until", held.ends), slog.String("request_id", requestID(c)))
	return c.JSON(http.StatusOK, Session{
		SignedIn: true, Kind: id.Kind, Name: id.Name, Role: id.Role, Scope: &id.Scope, By: byCookie, ExpiresAt: held.ends, Refreshable: held.refreshable,
	})
}

// refreshSession makes a session last longer: by the next ID token, or by the token that it has.
func (s *Server) refreshSession(c echo.Context) error {
	if err := sameOrigin(c); err != nil {
		return err
	}
	r := c.Request()
	if refresh := refreshOf(r); refresh != "" {
		tokens, err := s.exchange(c, oidc.Grant{RefreshToken: refresh})
		if err != nil {
			if problemOf(err).Code == codeSignInRefused {
				c.SetCookie(gone(s.refreshCookie(r, "")))
			}
			return err
		}
		if tokens.RefreshToken == "" {
			tokens.RefreshToken = refresh // it counts again
		}
		return s.signedIn(c, tokens.IDToken, tokens.RefreshToken)
	}
	held, cookie := cookieCredential(r)
	if !cookie {
		return newProblem(codeNoSession, "The request carries no session that could last longer. Sign in first.")
	}
	if err := s.current(r); err != nil {
		return err
	}
	return s.signedIn(c, held, "")
}

// endSession signs out. Nothing is revoked: the token is as good elsewhere as it was.
func (s *Server) endSession(c echo.Context) error {
	if err := sameOrigin(c); err != nil {
		return err
	}
	s.forget(c)
	return c.NoContent(http.StatusNoContent)
}
