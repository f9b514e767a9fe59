package rest

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/access"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// What a request needs.
const (
	read    = access.Read
	write   = access.Write
	keep    = access.Keep
	manage  = access.Manage
	grant   = access.Grant
	approve = access.Approve
)

// reach is what a caller's scope means for an operation. Without one the operation is for callers
// whose scope is everything.
type reach int

const (
	whole    reach = iota // for callers whose scope is everything
	anyScope              // the same for every scope
	filtered              // answers hold only what is in scope
	within                // the handler refuses what is out of scope
)

const identityKey = "anabranch.identity"

// authenticator finds who sent a request, as of a state and a time. Nil and no error: the request
// carries nothing that it knows. An error is a problem: what the request carries is its own, and no
// good.
type authenticator func(r *http.Request, view *state.View, now time.Time) (*access.Identity, error)

// may lets a request pass whose sender has a role with the right, and a scope within reach.
func (s *Server) may(need access.Right, scoped ...reach) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			err := s.admit(c, need, len(scoped) > 0 && scoped[0] != whole)
			s.metrics.countAuth(err)
			if err != nil {
				return err
			}
			return s.witnessed(c, next(c))
		}
	}
}

// admit finds out who sends a request, and whether they may.
func (s *Server) admit(c echo.Context, need access.Right, anyScope bool) error {
	if _, cookie := cookieCredential(c.Request()); cookie {
		if err := sameOrigin(c); err != nil {
			return err
		}
	}
	id, err := s.known(c)
	if err != nil {
		return err
	}
	c.Set(identityKey, id)
	if err := s.paced(c, id); err != nil {
		return err
	}
	if p := refusal(id, need, anyScope); p != nil {
		s.recordDenied(c, p.Code)
		return p.because(p.Code)
	}
	return nil
}

// refusal is why a caller may not do what needs a right, and perhaps a scope of everything; nil: they may.
func refusal(id *access.Identity, need access.Right, anyScope bool) *Problem {
	switch {
	case !id.May(need):
		return problemForbidden(id.Role, need.Roles())
	case !anyScope && !id.Scope.Everything():
		return problemUnscoped(id.Scope)
	}
	return nil
}

// known identifies the sender, and slows down who tries tokens. What could be found by trying is not
// even looked at from an address that has tried too often: secrets that the control plane makes can't
// be, nor ID tokens that were good before, so that their holders are let in from there too.
func (s *Server) known(c echo.Context) (*access.Identity, error) {
	secret, from := bearer(c.Request()), address(c.Request())
	if made, _ := access.Made(secret); !made && secret != "" && !s.shown.has(secret, s.o.Now()) {
		if wait := s.attempts.wait(from); wait > 0 {
			return nil, problemAttempts(wait)
		}
	}
	id, err := s.identify(c)
	if tried(err) {
		if wait := s.attempts.take(from); wait > 0 {
			return nil, problemAttempts(wait)
		}
	}
	if causeOf(err) == "unknown" && !s.o.Ready() {
		return nil, problemCatchingUp()
	}
	return id, err
}

// tried says whether what the sender carries may be a guess: not if it was good once, and not if there
// was nothing to compare it with.
func tried(err error) bool {
	cause := causeOf(err)
	return cause == "unknown" || cause == "id_token"
}

func problemAttempts(wait time.Duration) *Problem {
	return problemTooMany("Too many tokens that are not valid came from this address.", wait).because("attempts")
}

// identify asks every authenticator who sent the request, in order.
func (s *Server) identify(c echo.Context) (*access.Identity, error) {
	view := s.o.View()
	switch {
	case view.ClusterID() != "":
	case s.o.Ready():
		return nil, problemNotInitialised()
	default:
		return nil, problemCatchingUp() // with an empty folder, or with a log that is not applied yet
	}
	if err := s.current(c.Request()); err != nil {
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, challenge)
		return nil, err
	}
	cause := "none"
	if bearer(c.Request()) != "" {
		cause = "unknown"
	}
	for _, known := range s.authenticators {
		id, err := known(c.Request(), view, s.o.Now())
		switch {
		case err != nil:
			c.Response().Header().Set(echo.HeaderWWWAuthenticate, challenge)
			return nil, err
		case id != nil:
			return id, nil
		}
	}
	c.Response().Header().Set(echo.HeaderWWWAuthenticate, challenge)
	detail := "Send the header Authorization: Bearer TOKEN with a token of this control plane."
	if cause == "unknown" {
		detail = "This is no token of this control plane."
	}
	return nil, problemUnauthenticated(detail).because(cause)
}

const challenge = `Bearer realm="anabranch"`

// lapsed says that whoever sent a request that is still being answered may not do what it may have
// done at first: its token was revoked, rotated away or has expired.
func (s *Server) lapsed(c echo.Context) bool {
	now, err := s.identify(c)
	return err != nil || !reflect.DeepEqual(now, identity(c))
}

// identity is who sent the request; everything and no role where the operation needs nobody.
func identity(c echo.Context) *access.Identity {
	if id, ok := c.Get(identityKey).(*access.Identity); ok {
		return id
	}
	return &access.Identity{}
}

// bearer is the token that a request carries, by its header or else by the cookie of a session; empty: none.
func bearer(r *http.Request) string {
	if token, there := cookieCredential(r); there {
		return token
	}
	scheme, token, _ := strings.Cut(r.Header.Get(echo.HeaderAuthorization), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// actor is who asks, for the audit trail.
func actor(c echo.Context) *statepb.Actor {
	id := identity(c)
	return &statepb.Actor{
		Name: id.Name, Role: id.Role, Kind: string(id.Kind), Credential: id.Credential,
		Reason: printable(c.Request().Header.Get(headerReason), maxReason), RequestId: requestID(c),
	}
}

// printable makes what a caller wrote fit for a command, which holds UTF-8 only: nobody gets around the
// audit trail by bytes that can't be written there.
func printable(s string, limit int) string {
	return strings.ToValidUTF8(s[:min(len(s), limit)], "\uFFFD")
}

// deniedTimeout bounds how long a refusal waits for its entry in the audit trail.
const deniedTimeout = time.Second

// recordDenied puts a refusal for want of a role or a scope into the audit trail. A request without a
// valid token has nobody to name. Beyond the limiter's rate refusals are told in one entry, so that nobody
// can flood the log; see [Server.tellUnrecorded].
func (s *Server) recordDenied(c echo.Context, code string) {
	name := identity(c).Name
	if !s.denials.allow(name) {
		return
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), deniedTimeout)
	defer cancel()
	kind, about := target(c)
	_, err := s.o.Propose(ctx, &statepb.Command{
		Format: commandFormat, AtUnixMs: s.o.Now().UnixMilli(), Actor: actor(c),
		Op: &statepb.Command_Denied{Denied: &statepb.Denied{
			Action: strings.ToLower(c.Request().Method), Kind: kind, Name: printable(about, maxReason), Code: code,
		}},
	})
	if err != nil {
		s.o.Logger.Warn("refusal not audited", "actor", name, "err", err)
	}
}
