package rest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/policy"
)

// The cookies of a session. Where the browser speaks TLS their names begin as RFC 6265bis has it, so that
// browsers let no other host set them.
const (
	sessionName = "anabranch_session"
	refreshName = "anabranch_refresh"
	pathRefresh = "/v1/session/refresh"
	// maxCookie is how much browsers keep of a cookie, with its name, in bytes.
	maxCookie = 4000
)

// session is what the cookie of a session says: the token itself, so that every node knows it, and until when
// the browser keeps it. Whoever writes another end has the token anyway.
type session struct {
	token       string
	ends        time.Time // in whole seconds
	refreshable bool
}

// String writes the value of the cookie: a format, the end in seconds since 1970, whether it can be refreshed,
// and the token.
func (s session) String() string {
	more := "-"
	if s.refreshable {
		more = "r"
	}
	return "1." + strconv.FormatInt(s.ends.Unix(), 10) + "." + more + "." + url.QueryEscape(s.token)
}

var errSession = errors.New("the session can't be read")

// parseSession reads what String wrote, and nothing else.
func parseSession(text string) (session, error) {
	parts := strings.SplitN(text, ".", 4)
	if len(parts) != 4 || len(text) > maxCookie || parts[0] != "1" {
		return session{}, errSession
	}
	ends, err := strconv.ParseInt(parts[1], 10, 64)
	token, unescaped := url.QueryUnescape(parts[3])
	if err != nil || unescaped != nil || token == "" {
		return session{}, errSession
	}
	s := session{token: token, ends: time.Unix(ends, 0).UTC(), refreshable: parts[2] == "r"}
	if s.String() != text {
		return session{}, errSession
	}
	return s, nil
}

// secure says whether the browser speaks TLS, with this node or with a proxy before it. Who writes the header
// without a proxy spoils but the own cookie.
func secure(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// cookieOf is the value of a cookie. Of several of one name none counts: a page of another port or a sister
// host may have put one there, to have somebody act as somebody else.
func cookieOf(r *http.Request, name string) (value string, there bool) {
	all := r.CookiesNamed(name)
	for _, c := range all {
		if c.Value != all[0].Value {
			return "", true
		}
	}
	if len(all) == 0 {
		return "", false
	}
	return all[0].Value, true
}

func prefixed(r *http.Request, prefix, name string) string {
	if secure(r) {
		return prefix + name
	}
	return name
}

// sessionOf reads the session of a request that has the cookie.
func sessionOf(r *http.Request) (session, error) {
	value, _ := cookieOf(r, prefixed(r, "__Host-", sessionName))
	return parseSession(value)
}

// cookieCredential is the token of the session's cookie; there is false where the request has no such cookie or
// says by a header who sends it, which goes first. A cookie that can't be read has no token.
func cookieCredential(r *http.Request) (token string, there bool) {
	if r.Header.Get(echo.HeaderAuthorization) != "" {
		return "", false
	}
	if _, there := cookieOf(r, prefixed(r, "__Host-", sessionName)); !there {
		return "", false
	}
	s, _ := sessionOf(r) // none
	return s.token, true
}

// current says what is wrong with the session of a request by itself, whoever holds its token; nil: nothing, or
// the request has none.
func (s *Server) current(r *http.Request) error {
	if _, there := cookieCredential(r); !there {
		return nil
	}
	held, err := sessionOf(r)
	switch {
	case err != nil:
		return problemUnauthenticated("The session's cookie can't be read. Sign in again.").because("unknown")
	case !s.o.Now().Before(held.ends):
		return problemUnauthenticated("The session has ended. Sign in again.").because("expired")
	}
	return nil
}

// refreshOf is the refresh token that a request carries; empty: none.
func refreshOf(r *http.Request) string {
	value, _ := cookieOf(r, prefixed(r, "__Secure-", refreshName))
	token, err := url.QueryUnescape(value)
	if err != nil || len(token) > maxGrant {
		return ""
	}
	return token
}

// keep has the browser keep a session, and the refresh token until an end. None: it keeps none that it may have.
func (s *Server) keep(c echo.Context, r *http.Request, held session, refresh string, end time.Time) error {
	one, next := s.sessionCookie(r, held.String()), s.refreshCookie(r, url.QueryEscape(refresh))
	for _, cookie := range []*http.Cookie{one, next} {
		if n := len(cookie.Name) + len(cookie.Value); n > maxCookie {
			return newProblem(codeInvalid, fmt.Sprintf("The token would make a cookie of %d bytes, and browsers keep no more than %d.", n, maxCookie),
				policy.Problem{Field: "token", Reason: "is too long for a cookie", Fix: "have the OpenID provider put fewer groups into ID tokens, or use a static token"})
		}
	}
	one.Expires, one.MaxAge = held.ends, int(held.ends.Sub(s.o.Now()).Seconds())
	next.Expires, next.MaxAge = end, int(end.Sub(s.o.Now()).Seconds())
	if refresh == "" {
		next = gone(next)
	}
	c.SetCookie(one)
	c.SetCookie(next)
	return nil
}

// forget has the browser forget its session.
func (s *Server) forget(c echo.Context) {
	c.SetCookie(gone(s.sessionCookie(c.Request(), "")))
	c.SetCookie(gone(s.refreshCookie(c.Request(), "")))
}

func (s *Server) sessionCookie(r *http.Request, value string) *http.Cookie {
	return &http.Cookie{
		Name: prefixed(r, "__Host-", sessionName), Value: value, Path: "/",
		HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteStrictMode,
	}
}

// refreshCookie goes to one path only: nothing else needs it.
func (s *Server) refreshCookie(r *http.Request, value string) *http.Cookie {
	return &http.Cookie{
		Name: prefixed(r, "__Secure-", refreshName), Value: value, Path: pathRefresh,
		HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteStrictMode,
	}
}

// gone is a cookie that takes away the one of its name.
func gone(c *http.Cookie) *http.Cookie {
	c.Value, c.MaxAge, c.Expires = "", -1, time.Time{}
	return c
}

// otherOrigins knows requests that a page of another origin has made.
var otherOrigins = http.NewCrossOriginProtection()

// sameOrigin refuses a change that a page of another origin has a browser send, by what browsers say of that
// (Sec-Fetch-Site, or Origin). Programs say nothing and are let through: nobody has them send a cookie.
func sameOrigin(c echo.Context) error {
	if otherOrigins.Check(c.Request()) != nil {
		return newProblem(codeCrossOrigin, "A page of another origin sent this with the session of this one. Send the header Authorization instead.").because("cross_origin")
	}
	return nil
}
