package rest

import (
	"crypto/subtle"
	"net/http"
	"time"

	"anabranch/controlplane/access"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// byToken knows the holders of the tokens that the state keeps.
func byToken(r *http.Request, view *state.View, now time.Time) (*access.Identity, error) {
	secret := bearer(r)
	t, previous := find(view.Tokens(), secret)
	if t == nil {
		if _, err := access.Made(secret); err != nil {
			return nil, problemUnauthenticated("The token is cut or mistyped: its checksum does not match.").because("unknown")
		}
		return nil, nil
	}
	at := now.UnixMilli()
	switch {
	case t.GetRevokedUnixMs() != 0:
		return nil, problemUnauthenticated("The token was revoked.").because("revoked")
	case t.GetExpiresUnixMs() != 0 && t.GetExpiresUnixMs() <= at:
		return nil, problemUnauthenticated("The token has expired.").because("expired")
	case previous && t.GetPreviousUntilUnixMs() <= at:
		return nil, problemUnauthenticated("The token was rotated, and its successor is the only one by now.").because("expired")
	}
	id := &access.Identity{Kind: access.KindToken, Name: t.GetName(), Role: t.GetRole(), Scope: state.TokenScope(t)}
	if made, _ := access.Made(secret); made {
		id.Credential = access.Shown(secret)
	}
	if t.GetExpiresUnixMs() != 0 {
		id.Expires = time.UnixMilli(t.GetExpiresUnixMs()).UTC()
	}
	return id, nil
}

// find compares with every token, each in constant time: how long it takes tells nothing. Previous: it
// is the secret that the token had before it was rotated.
func find(tokens []*statepb.Token, secret string) (found *statepb.Token, previous bool) {
	if secret == "" {
		return nil, false
	}
	sum := access.Hash(secret)
	for _, t := range tokens {
		if subtle.ConstantTimeCompare(sum, t.GetSha256()) == 1 {
			found, previous = t, false
		}
		if subtle.ConstantTimeCompare(sum, t.GetPreviousSha256()) == 1 {
			found, previous = t, true
		}
	}
	return found, previous
}
