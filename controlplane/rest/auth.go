package rest

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/state/statepb"
)

// right is what a request needs.
type right string

const (
	read  right = "read"
	write right = "write"
	// keep is to take away everything there is, hashes of tokens included.
	keep right = "keep"
	// manage is to change the control plane itself.
	manage right = "manage"
)

// rights says which roles have a right. An approver sees everything and changes nothing by itself.
var rights = map[right][]string{
	read:   {"viewer", "operator", "approver", "admin"},
	write:  {"operator", "admin"},
	keep:   {"admin"},
	manage: {"admin"},
}

const tokenKey = "anabranch.token"

// may lets a request pass whose bearer token has a role with the right.
func (s *Server) may(r right) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			view := s.o.View()
			if view.ClusterID() == "" {
				return problemNotInitialised()
			}
			token := find(view.Tokens(), bearer(c.Request()))
			if token == nil {
				c.Response().Header().Set(echo.HeaderWWWAuthenticate, `Bearer realm="anabranch"`)
				return problemUnauthenticated()
			}
			c.Set(tokenKey, token)
			if !slices.Contains(rights[r], token.GetRole()) {
				s.recordDenied(c, token)
				return problemForbidden(token.GetRole(), rights[r])
			}
			return next(c)
		}
	}
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get(echo.HeaderAuthorization), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// find compares with every token, each in constant time: how long it takes tells nothing.
func find(tokens []*statepb.Token, secret string) *statepb.Token {
	if secret == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(secret))
	var found *statepb.Token
	for _, t := range tokens {
		if subtle.ConstantTimeCompare(sum[:], t.GetSha256()) == 1 {
			found = t
		}
	}
	return found
}

// actor is who asks, for the audit trail.
func actor(c echo.Context) *statepb.Actor {
	a := &statepb.Actor{Reason: printable(c.Request().Header.Get(headerReason), maxReason), RequestId: requestID(c)}
	if t, ok := c.Get(tokenKey).(*statepb.Token); ok {
		a.Name, a.Role = t.GetName(), t.GetRole()
	}
	return a
}

// printable makes what a caller wrote fit for a command, which holds UTF-8 only: nobody gets around the
// audit trail by bytes that can't be written there.
func printable(s string, limit int) string {
	return strings.ToValidUTF8(s[:min(len(s), limit)], "\uFFFD")
}

// deniedTimeout bounds how long a refusal waits for its entry in the audit trail.
const deniedTimeout = time.Second

// recordDenied puts a refusal for want of a role into the audit trail. Only these are recorded: a
// request without a valid token has nobody to name, and a failed precondition is no offence. Beyond
// the limiter's rate they are only counted in the metrics, so that nobody can flood the log.
func (s *Server) recordDenied(c echo.Context, t *statepb.Token) {
	if !s.denials.allow(t.GetName()) {
		return
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), deniedTimeout)
	defer cancel()
	kind, name := target(c)
	_, err := s.o.Propose(ctx, &statepb.Command{
		Format: commandFormat, AtUnixMs: s.o.Now().UnixMilli(), Actor: actor(c),
		Op: &statepb.Command_Denied{Denied: &statepb.Denied{
			Action: strings.ToLower(c.Request().Method), Kind: kind, Name: printable(name, maxReason), Code: codeForbidden,
		}},
	})
	if err != nil {
		s.o.Logger.Warn("refusal not audited", "actor", t.GetName(), "err", err)
	}
}
