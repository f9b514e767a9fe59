package rest

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// Token is what is told of a token: all but its secret.
type Token struct {
	Name  string       `json:"name"`
	Role  string       `json:"role"`
	Scope access.Scope `json:"scope"` // empty lists bound nothing
	// Prefix is the beginning of the secret; empty: of the first tokens of a cluster.
	Prefix string `json:"prefix,omitempty"`
	// State is active, expired or revoked.
	State     string    `json:"state"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	CreatedBy string    `json:"createdBy,omitempty"`
	// ExpiresAt is absent of a token that never does.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	RotatedAt time.Time `json:"rotatedAt,omitzero"`
	// PreviousUntil is how long the secret before the last rotation is valid.
	PreviousUntil time.Time `json:"previousUntil,omitzero"`
	RevokedAt     time.Time `json:"revokedAt,omitzero"`
	RevokedBy     string    `json:"revokedBy,omitempty"`
}

// NewToken asks for a token.
type NewToken struct {
	Name  string       `json:"name"`
	Role  string       `json:"role"`
	Scope access.Scope `json:"scope"`
	// ExpiresAt zero: never.
	ExpiresAt time.Time `json:"expiresAt"`
}

// Rotation asks for a new secret of a token.
type Rotation struct {
	// OverlapSeconds is for how long the secret before stays valid, up to seven days.
	OverlapSeconds int64 `json:"overlapSeconds"`
	// ExpiresAt is the new expiry; nil: as before, zero: never.
	ExpiresAt *time.Time `json:"expiresAt"`
}

// IssuedToken is a token with its secret, which is told this once.
type IssuedToken struct {
	Token
	Secret string `json:"secret"`
}

// Whoami is who the caller is to the control plane, and what they may do.
type Whoami struct {
	Kind       access.Kind    `json:"kind"`
	Name       string         `json:"name"`
	Role       string         `json:"role"`
	Scope      access.Scope   `json:"scope"`
	Rights     []access.Right `json:"rights"`
	Credential string         `json:"credential,omitempty"` // what may be shown of the secret
	ExpiresAt  time.Time      `json:"expiresAt,omitzero"`   // absent: never
}

func (s *Server) whoami(c echo.Context) error {
	return c.JSON(http.StatusOK, whois(identity(c)))
}

func whois(id *access.Identity) Whoami {
	return Whoami{Kind: id.Kind, Name: id.Name, Role: id.Role, Scope: id.Scope, Rights: id.Rights(), Credential: id.Credential, ExpiresAt: id.Expires}
}

func (s *Server) toldToken(t *statepb.Token) Token {
	moment := func(ms int64) time.Time {
		if ms == 0 {
			return time.Time{}
		}
		return time.UnixMilli(ms).UTC()
	}
	told := Token{
		Name: t.GetName(), Role: t.GetRole(), Scope: state.TokenScope(t), Prefix: t.GetPrefix(), State: "active",
		CreatedAt: moment(t.GetCreatedUnixMs()), CreatedBy: t.GetCreatedBy(), ExpiresAt: moment(t.GetExpiresUnixMs()), RotatedAt: moment(t.GetRotatedUnixMs()),
		PreviousUntil: moment(t.GetPreviousUntilUnixMs()), RevokedAt: moment(t.GetRevokedUnixMs()), RevokedBy: t.GetRevokedBy(),
	}
	switch {
	case t.GetRevokedUnixMs() != 0:
		told.State = "revoked"
	case state.TokenEnded(t, s.o.Now()):
		told.State = "expired"
	}
	return told
}

// listTokens lists the tokens by name, those that have ended included.
func (s *Server) listTokens(c echo.Context) error {
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	from, err := listed(c)
	if err != nil {
		return err
	}
	view, err := s.view(c)
	if err != nil {
		return err
	}
	byName := order[*statepb.Token]{name: (*statepb.Token).GetName}
	all := slices.SortedFunc(slices.Values(view.Tokens()), func(a, b *statepb.Token) int { return cmp.Compare(a.GetName(), b.GetName()) })
	items, next := byName.page(all, from, limit, func(*statepb.Token) bool { return true })
	page := List[Token]{Items: []Token{}, NextCursor: next}
	for _, t := range items {
		page.Items = append(page.Items, s.toldToken(t))
	}
	return c.JSON(http.StatusOK, page)
}

func (s *Server) getToken(c echo.Context) error {
	view, err := s.view(c)
	if err != nil {
		return err
	}
	t := view.Token(nameOf(c))
	if t == nil {
		return notFound(state.KindToken, nameOf(c))
	}
	return c.JSON(http.StatusOK, s.toldToken(t))
}

func (s *Server) createToken(c echo.Context) error {
	var in NewToken
	if err := strictJSON(c, &in); err != nil {
		return err
	}
	var problems []policy.Problem
	if err := fleet.CheckName(in.Name); err != nil {
		problems = append(problems, policy.Problem{Field: "name", Reason: err.Error(), Fix: "name it after who holds it, such as ci-deploy"})
	}
	if !slices.Contains(state.Roles(), in.Role) {
		problems = append(problems, policy.Problem{Field: "role", Reason: fmt.Sprintf("%.40q is no role", in.Role), Fix: "use one of " + strings.Join(state.Roles(), ", ")})
	}
	if problems = append(problems, in.Scope.Validate("scope")...); len(problems) > 0 {
		return problemDocument(problems)
	}
	if err := s.barrier(c.Request().Context()); err != nil {
		return err
	}
	t := &statepb.Token{Name: in.Name, Role: in.Role, ExpiresUnixMs: millis(in.ExpiresAt)}
	if !in.Scope.Everything() {
		t.Scope = &statepb.TokenScope{Regions: in.Scope.Regions, Tenants: in.Scope.Tenants, Models: in.Scope.Models}
	}
	issued, err := s.issue(c, &statepb.PutToken{Token: t})
	if err != nil || issued == nil {
		return err
	}
	c.Response().Header().Set("Location", "/v1/tokens/"+url.PathEscape(in.Name))
	return c.JSON(http.StatusCreated, issued)
}

func (s *Server) rotateToken(c echo.Context) error {
	var in Rotation
	if err := strictJSON(c, &in); err != nil {
		return err
	}
	if in.OverlapSeconds < 0 || in.OverlapSeconds > int64(state.MaxTokenOverlap/time.Second) {
		return problemDocument([]policy.Problem{{
			Field: "overlapSeconds", Reason: fmt.Sprintf("%d is out of range", in.OverlapSeconds), Fix: fmt.Sprintf("use 0 to %d", state.MaxTokenOverlap/time.Second),
		}})
	}
	if err := s.barrier(c.Request().Context()); err != nil {
		return err
	}
	old := s.o.View().Token(nameOf(c))
	if old == nil {
		return notFound(state.KindToken, nameOf(c))
	}
	expires := old.GetExpiresUnixMs()
	if in.ExpiresAt != nil {
		expires = millis(*in.ExpiresAt)
	}
	issued, err := s.issue(c, &statepb.PutToken{
		Token:  &statepb.Token{Name: old.GetName(), ExpiresUnixMs: expires},
		Rotate: true, IfRevision: old.GetRevision(), OverlapMs: in.OverlapSeconds * 1000,
	})
	if err != nil || issued == nil {
		return err
	}
	return c.JSON(http.StatusOK, issued)
}

// issue commits a token with a new secret. Nil and no error: it was issued before, and has been
// answered again.
func (s *Server) issue(c echo.Context, p *statepb.PutToken) (*IssuedToken, error) {
	var random [access.SecretBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	secret := access.NewSecret(random)
	p.Token.Sha256, p.Token.Prefix = access.Hash(secret), access.Shown(secret)
	at := s.o.Now()
	cmd := &statepb.Command{Format: commandFormat, AtUnixMs: at.UnixMilli(), Actor: actor(c), Once: once(c), Op: &statepb.Command_PutToken{PutToken: p}}
	if cmd.GetOnce() != nil {
		sealed, err := sealSecret(c, secret)
		if err != nil {
			return nil, err
		}
		p.Answer = sealed
	}
	out, err := s.o.Propose(c.Request().Context(), cmd)
	if err != nil {
		return nil, fmt.Errorf("issue token %q: %w", p.GetToken().GetName(), err)
	}
	if a := out.GetAnswer(); a != nil { // the first one came through while this one was on its way
		return nil, s.answerAgain(c, a)
	}
	if p := problemOfToken(out); p != nil {
		return nil, p
	}
	s.o.Logger.Info("token issued", slog.String("name", p.GetToken().GetName()), slog.Bool("rotated", p.GetRotate()), slog.String("actor", actor(c).GetName()), slog.String("request_id", requestID(c)))
	return s.issued(p.GetToken().GetName(), secret)
}

// issued is a token as it is now, with a secret.
func (s *Server) issued(name, secret string) (*IssuedToken, error) {
	t := s.o.View().Token(name)
	if t == nil {
		return nil, notFound(state.KindToken, name)
	}
	return &IssuedToken{Token: s.toldToken(t), Secret: secret}, nil
}

func (s *Server) revokeToken(c echo.Context) error {
	out, err := s.o.Propose(c.Request().Context(), &statepb.Command{
		Format: commandFormat, AtUnixMs: s.o.Now().UnixMilli(), Actor: actor(c), Once: once(c),
		Op: &statepb.Command_RevokeToken{RevokeToken: &statepb.RevokeToken{Name: printable(nameOf(c), maxReason)}},
	})
	if err != nil {
		return fmt.Errorf("revoke token %.128q: %w", nameOf(c), err)
	}
	if p := problemOfToken(out); p != nil {
		return p
	}
	s.o.Logger.Info("token revoked", slog.String("name", nameOf(c)), slog.String("actor", actor(c).GetName()), slog.String("request_id", requestID(c)))
	return c.NoContent(http.StatusNoContent)
}

// problemOfToken is what a refused command about a token means to the caller; nil: it was done.
func problemOfToken(out *statepb.Outcome) *Problem {
	at := policy.Problem{Field: out.GetField(), Reason: out.GetMessage()}
	switch out.GetCode() {
	case state.CodeExists:
		at.Fix = "take another name; rotate the token to give it a new secret"
		return newProblem(codeExists, out.GetMessage(), at)
	case state.CodeInUse:
		at.Fix = "make another token of an admin first, without expiry and scope"
		return newProblem(codeInUse, out.GetMessage(), at)
	case state.CodePrecondition:
		return newProblem(codePrecondition, "The token was changed in between. Look at it, and rotate it again if it needs that still.")
	}
	return problemOfOutcome(out)
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// about binds a sealed answer to the key and the caller that it answers.
func about(c echo.Context) string {
	return c.Request().Header.Get(headerKey) + "\x00" + actor(c).GetName()
}

// sealSecret closes a secret so that it can be kept with the answer to an idempotency key: only who
// sends the same bearer token again gets it again. Nil: the caller sends none, and nobody will.
func sealSecret(c echo.Context, secret string) ([]byte, error) {
	bearer := bearer(c.Request())
	if bearer == "" {
		return nil, nil
	}
	var nonce [access.SealNonce]byte
	_, _ = rand.Read(nonce[:]) // never fails
	plain, err := json.Marshal(secret)
	if err != nil {
		return nil, err
	}
	return access.Seal(bearer, about(c), nonce, plain)
}

// issueAgain answers a request for a token that was answered before, with the same secret.
func (s *Server) issueAgain(c echo.Context, a *statepb.Answer) error {
	var secret string
	plain, err := access.Open(bearer(c.Request()), about(c), a.GetDoc())
	if err == nil {
		err = json.Unmarshal(plain, &secret)
	}
	if err != nil {
		return newProblem(codeSecretGone, fmt.Sprintf("The token %q was issued with this key already, and its secret is told again only to who sends the same bearer token. Rotate it for a new one.", a.GetName()))
	}
	issued, err := s.issued(a.GetName(), secret)
	if err != nil {
		return err
	}
	if !a.GetCreated() {
		return c.JSON(http.StatusOK, issued)
	}
	c.Response().Header().Set("Location", "/v1/tokens/"+url.PathEscape(a.GetName()))
	return c.JSON(http.StatusCreated, issued)
}
