package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/controlplane/access"
	"anabranch/controlplane/state/statepb"
)

// Bounds of tokens.
const (
	// MaxTokens is how many are remembered, those that have ended included: the ones that ended first
	// are forgotten when there is no room for another.
	MaxTokens = 1000
	// MaxTokenLife is how far away an expiry may be; a token may also have none.
	MaxTokenLife = 366 * 24 * time.Hour
	// MaxTokenOverlap is how long the secret before may still be valid after a rotation.
	MaxTokenOverlap = 7 * 24 * time.Hour
	// maxTokenPrefix bounds what is shown of a secret, and maxTokenAnswer an answer that is kept, in bytes.
	maxTokenPrefix = 16
	maxTokenAnswer = 64 << 10
)

// KindToken stands for tokens in the audit trail and in answers: they are no resources.
const KindToken = "Token"

// Token finds a token by its name, also one that has ended; nil: there is none.
func (v *View) Token(name string) *statepb.Token {
	if i := v.tokenAt(name); i >= 0 {
		return v.tokens[i]
	}
	return nil
}

func (v *View) tokenAt(name string) int {
	return slices.IndexFunc(v.tokens, func(t *statepb.Token) bool { return t.GetName() == name })
}

// TokenEnded says whether a token is of no more use at a time: it was revoked or has expired.
func TokenEnded(t *statepb.Token, at time.Time) bool { return endedAt(t, at.UnixMilli()) != 0 }

// endedAt is when a token ended; 0: it has not, at that time.
func endedAt(t *statepb.Token, atUnixMs int64) int64 {
	revoked, expires := t.GetRevokedUnixMs(), t.GetExpiresUnixMs()
	switch {
	case revoked != 0 && expires != 0:
		return min(revoked, expires)
	case revoked != 0:
		return revoked
	case expires != 0 && expires <= atUnixMs:
		return expires
	}
	return 0
}

// lasting is a token that can always set things right: without it a cluster could lock everybody out.
func lasting(t *statepb.Token) bool {
	return t.GetRole() == "admin" && t.GetExpiresUnixMs() == 0 && t.GetRevokedUnixMs() == 0 && TokenScope(t).Everything()
}

// TokenScope is what a token is good for.
func TokenScope(t *statepb.Token) access.Scope {
	s := t.GetScope()
	return access.Scope{Regions: s.GetRegions(), Tenants: s.GetTenants(), Models: s.GetModels()}
}

// putToken makes a token or gives it a new secret. The names of tokens that have ended stay taken for as
// long as they are remembered: one name in the audit trail is one token.
func (v *View) putToken(cmd *statepb.Command, p *statepb.PutToken) *statepb.Outcome {
	if out := checkToken(cmd, p); out != nil {
		return out
	}
	if v.holds(p.GetToken().GetSha256()) {
		return refuse(CodeInvalid, "token.sha256", "is the hash of another secret")
	}
	if p.GetRotate() {
		return v.rotateToken(cmd, p)
	}
	t := p.GetToken()
	if old := v.Token(t.GetName()); old != nil {
		return refuse(CodeExists, "name", fmt.Sprintf("there is a token %q%s", t.GetName(), fate(old, cmd.GetAtUnixMs())))
	}
	if !v.roomForToken(cmd.GetAtUnixMs()) {
		return refuse(CodeInvalid, "name", fmt.Sprintf("there are %d tokens, which is the limit: revoke some", len(v.tokens)))
	}
	made := &statepb.Token{
		Name: t.GetName(), Role: t.GetRole(), Sha256: t.GetSha256(), Prefix: t.GetPrefix(),
		CreatedUnixMs: cmd.GetAtUnixMs(), CreatedBy: bounded(cmd.GetActor().GetName()),
		ExpiresUnixMs: t.GetExpiresUnixMs(), Revision: v.index,
	}
	if !TokenScope(t).Everything() {
		made.Scope = t.GetScope()
	}
	v.tokens = append(slices.Clone(v.tokens), made)
	v.record(cmd, entry{action: "create", kind: KindToken, name: made.GetName(), after: tokenDocument(made), reason: fmt.Sprintf("%s of %s", made.GetRole(), TokenScope(made))})
	return &statepb.Outcome{}
}

// checkToken judges what a PutToken says by itself; nil: it is right.
func checkToken(cmd *statepb.Command, p *statepb.PutToken) *statepb.Outcome {
	t, at := p.GetToken(), cmd.GetAtUnixMs()
	if err := fleet.CheckName(t.GetName()); err != nil {
		return refuse(CodeInvalid, "name", err.Error())
	}
	switch expires := t.GetExpiresUnixMs(); {
	case len(t.GetSha256()) != sha256.Size:
		return refuse(CodeInvalid, "token.sha256", fmt.Sprintf("is not %d bytes long", sha256.Size))
	case len(t.GetPrefix()) > maxTokenPrefix || len(p.GetAnswer()) > maxTokenAnswer:
		return refuse(CodeInvalid, "token", "the prefix or the answer is too long")
	case expires != 0 && expires <= at:
		return refuse(CodeInvalid, "expiresAt", "has passed already")
	case expires > at+MaxTokenLife.Milliseconds():
		return refuse(CodeInvalid, "expiresAt", fmt.Sprintf("is more than %d days away", MaxTokenLife/(24*time.Hour)))
	case p.GetRotate() && (p.GetOverlapMs() < 0 || p.GetOverlapMs() > MaxTokenOverlap.Milliseconds()):
		return refuse(CodeInvalid, "overlapSeconds", fmt.Sprintf("is not from 0 to %d", MaxTokenOverlap/time.Second))
	case p.GetRotate():
		return nil
	case !slices.Contains(Roles(), t.GetRole()):
		return refuse(CodeInvalid, "role", fmt.Sprintf("%.40q is none of %s", t.GetRole(), strings.Join(Roles(), ", ")))
	}
	if problems := TokenScope(t).Validate("scope"); len(problems) > 0 {
		return refuse(CodeInvalid, problems[0].Field, problems[0].Reason)
	}
	return nil
}

// holds: a secret of this hash is known already.
func (v *View) holds(sum []byte) bool {
	return slices.ContainsFunc(v.tokens, func(t *statepb.Token) bool {
		return bytes.Equal(t.GetSha256(), sum) || bytes.Equal(t.GetPreviousSha256(), sum)
	})
}

// roomForToken forgets the token that ended first if there is no room for another; false: none has.
func (v *View) roomForToken(atUnixMs int64) bool {
	if len(v.tokens) < MaxTokens {
		return true
	}
	first := -1
	for i, t := range v.tokens {
		ended := endedAt(t, atUnixMs)
		if ended != 0 && (first < 0 || ended < endedAt(v.tokens[first], atUnixMs)) {
			first = i
		}
	}
	if first < 0 {
		return false
	}
	v.tokens = slices.Delete(slices.Clone(v.tokens), first, first+1)
	return true
}

// rotateToken gives a token a new secret and expiry; the secret before stays valid for a while, and the
// one before that no longer.
func (v *View) rotateToken(cmd *statepb.Command, p *statepb.PutToken) *statepb.Outcome {
	t, at := p.GetToken(), v.tokenAt(p.GetToken().GetName())
	if at < 0 {
		return refuse(CodeNotFound, "name", fmt.Sprintf("there is no token %q", t.GetName()))
	}
	old := v.tokens[at]
	switch {
	case old.GetRevokedUnixMs() != 0:
		return refuse(CodeInvalid, "name", "the token was revoked: make another")
	case old.GetRevision() != p.GetIfRevision():
		return refuse(CodePrecondition, "name", "the token was changed in between")
	case t.GetExpiresUnixMs() != 0 && lasting(old) && !v.anotherLasting(at):
		return refuse(CodeInUse, "expiresAt", "this is the last token of an admin that never expires")
	}
	next := proto.CloneOf(old)
	next.Sha256, next.Prefix, next.ExpiresUnixMs = t.GetSha256(), t.GetPrefix(), t.GetExpiresUnixMs()
	next.PreviousSha256, next.PreviousUntilUnixMs = nil, 0
	if p.GetOverlapMs() > 0 {
		next.PreviousSha256, next.PreviousUntilUnixMs = old.GetSha256(), cmd.GetAtUnixMs()+p.GetOverlapMs()
	}
	next.RotatedUnixMs, next.Revision = cmd.GetAtUnixMs(), v.index
	v.tokens = slices.Clone(v.tokens)
	v.tokens[at] = next
	v.record(cmd, entry{action: "rotate", kind: KindToken, name: next.GetName(), before: tokenDocument(old), after: tokenDocument(next)})
	return &statepb.Outcome{}
}

// revokeToken ends a token for good. One that has ended already stays as it is, so that the command may
// be repeated.
func (v *View) revokeToken(cmd *statepb.Command, r *statepb.RevokeToken) *statepb.Outcome {
	at := v.tokenAt(r.GetName())
	switch {
	case at < 0:
		return refuse(CodeNotFound, "name", fmt.Sprintf("there is no token %.128q", r.GetName()))
	case v.tokens[at].GetRevokedUnixMs() != 0:
		return &statepb.Outcome{}
	case lasting(v.tokens[at]) && !v.anotherLasting(at):
		return refuse(CodeInUse, "name", "this is the last token of an admin that never expires: make another first")
	}
	old := v.tokens[at]
	next := proto.CloneOf(old)
	next.RevokedUnixMs, next.RevokedBy, next.Revision = max(1, cmd.GetAtUnixMs()), bounded(cmd.GetActor().GetName()), v.index
	v.tokens = slices.Clone(v.tokens)
	v.tokens[at] = next
	v.record(cmd, entry{action: "revoke", kind: KindToken, name: next.GetName(), before: tokenDocument(old), after: tokenDocument(next)})
	v.withdrawOf(cmd, old.GetName())
	return &statepb.Outcome{}
}

func (v *View) anotherLasting(but int) bool {
	for i, t := range v.tokens {
		if i != but && lasting(t) {
			return true
		}
	}
	return false
}

// fate says what became of a token, for messages.
func fate(t *statepb.Token, atUnixMs int64) string {
	switch {
	case t.GetRevokedUnixMs() != 0:
		return ", which was revoked; take another name"
	case endedAt(t, atUnixMs) != 0:
		return ", which has expired; rotate it, or take another name"
	}
	return ""
}

// tokenDocument is what the audit trail tells of a token: nothing of its secrets but what may be shown.
func tokenDocument(t *statepb.Token) []byte {
	day := func(ms int64) string {
		if ms == 0 {
			return ""
		}
		return time.UnixMilli(ms).UTC().Format(time.RFC3339)
	}
	doc, err := json.Marshal(struct {
		ExpiresAt string       `json:"expiresAt,omitempty"`
		Prefix    string       `json:"prefix,omitempty"`
		RevokedAt string       `json:"revokedAt,omitempty"`
		Role      string       `json:"role"`
		Scope     access.Scope `json:"scope,omitzero"`
	}{day(t.GetExpiresUnixMs()), t.GetPrefix(), day(t.GetRevokedUnixMs()), t.GetRole(), TokenScope(t)})
	if err != nil { // texts always marshal
		panic(err)
	}
	return doc
}
