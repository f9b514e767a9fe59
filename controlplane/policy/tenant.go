package policy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"anabranch/api/fleet"
)

// Bounds of what a tenant shows.
const (
	// MaxKeyPrefix bounds the part of an API key that is kept readable, in bytes: too little to guess
	// the rest by.
	MaxKeyPrefix = 12
	maxJWT       = 8
	maxAudiences = 8
	maxClaims    = 8
	maxClaim     = 256
	maxJWKS      = 32 << 10
	maxJWKSKeys  = 16
)

// APIKeySpec is the hash of one API key. Two keys of a tenant serve side by side, so that one can take
// the other's place without a gap.
type APIKeySpec struct {
	ID string `json:"id"`
	// SHA256 is the lower-case hex SHA-256 of the key.
	SHA256 string `json:"sha256"`
	// Prefix is how the key begins, at most 12 characters, to know it again by. Empty: not told.
	Prefix string `json:"prefix,omitempty"`
	// ExpiresAt is when routers stop taking it, as 2027-01-31T00:00:00Z (RFC 3339). Empty: never.
	ExpiresAt string `json:"expiresAt,omitempty"`
}

// Expires is when routers stop taking the key; zero: never.
func (k APIKeySpec) Expires() time.Time {
	at, err := time.Parse(time.RFC3339, k.ExpiresAt)
	if err != nil {
		return time.Time{} // validated when it was written: it is empty
	}
	return at
}

// JWTSpec says which JSON Web Tokens (RFC 7519) a tenant's clients may show instead of an API key. A
// token that more than one tenant would take is taken for none.
type JWTSpec struct {
	// Issuer is the token's iss, character for character.
	Issuer string `json:"issuer"`
	// Audiences are those of which the token's aud must name one.
	Audiences []string `json:"audiences"`
	// JWKSURL is where routers get the issuer's public keys, and again every ten minutes (RFC 7517).
	JWKSURL string `json:"jwksURL,omitempty"`
	// JWKS is the key set itself as JSON, for routers that can't reach the issuer. One of the two is set.
	JWKS string `json:"jwks,omitempty"`
	// Claims that the token must have besides, as texts; where the token has a list, it must hold the
	// text. What tells one tenant's tokens from another's.
	Claims map[string]string `json:"claims,omitempty"`
}

var sha256ex = regexp.MustCompile(`^[0-9a-f]{64}$`)

// keyPrefix is what may stand in a key's prefix.
var keyPrefix = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)

func (f *finding) tenant(s *TenantSpec) {
	f.oneOf("spec.tier", s.Tier, Tiers())
	f.names("spec.residency", s.Residency, fleet.CheckName)
	ids, sums := map[string]bool{}, map[string]bool{}
	for i, k := range s.APIKeys {
		at := fmt.Sprintf("spec.apiKeys[%d]", i)
		f.named(at+".id", k.ID, fleet.CheckName)
		if ids[k.ID] && k.ID != "" {
			f.add(at+".id", fmt.Sprintf("%q appears twice", clip(k.ID)), "give every key an id of its own")
		}
		ids[k.ID] = true
		switch {
		case !sha256ex.MatchString(k.SHA256):
			// What stands here may be the key itself: it is not repeated.
			f.add(at+".sha256", "is not 64 lower-case hexadecimal digits", "give the SHA-256 of the key: printf %s KEY | sha256sum")
		case sums[k.SHA256]:
			f.add(at+".sha256", "appears twice", "keep one of them")
		}
		sums[k.SHA256] = true
		if len(k.Prefix) > MaxKeyPrefix || !keyPrefix.MatchString(k.Prefix) {
			// As above.
			f.add(at+".prefix", fmt.Sprintf("is longer than %d characters, or holds others than letters, digits, '.', '_' and '-'", MaxKeyPrefix), "give the beginning of the key only, or leave it out")
		}
		if k.ExpiresAt != "" {
			f.moment(at+".expiresAt", k.ExpiresAt)
		}
	}
	f.jwt(s.JWT)
}

// moment checks a time.
func (f *finding) moment(field, text string) {
	if at, err := time.Parse(time.RFC3339, text); err != nil || at.UnixMilli() <= 0 {
		f.add(field, fmt.Sprintf("%q is not a time", clip(text)), "write it as 2027-01-31T00:00:00Z (RFC 3339)")
	}
}

func (f *finding) jwt(list []JWTSpec) {
	if len(list) > maxJWT {
		f.add("spec.jwt", fmt.Sprintf("holds %d entries, the limit is %d", len(list), maxJWT), "remove some")
		return
	}
	for i, j := range list {
		at := fmt.Sprintf("spec.jwt[%d]", i)
		f.text(at+".issuer", j.Issuer)
		if len(j.Audiences) == 0 || len(j.Audiences) > maxAudiences {
			f.add(at+".audiences", fmt.Sprintf("holds %d names", len(j.Audiences)), fmt.Sprintf("give 1 to %d: a token that was made for another service must not count here", maxAudiences))
		}
		for n, a := range j.Audiences {
			f.text(fmt.Sprintf("%s.audiences[%d]", at, n), a)
		}
		if len(j.Claims) > maxClaims {
			f.add(at+".claims", fmt.Sprintf("holds %d claims, the limit is %d", len(j.Claims), maxClaims), "remove some")
		}
		for _, name := range sortedKeys(j.Claims) {
			f.text(fmt.Sprintf("%s.claims[%s]", at, clip(name)), j.Claims[name])
			if name == "" || len(name) > maxClaim {
				f.add(at+".claims", "names no claim", "give the name of a claim")
			}
		}
		switch {
		case (j.JWKSURL == "") == (j.JWKS == ""):
			f.add(at+".jwksURL", "or jwks is to be given, and not both", "say where the issuer's keys are, or give them")
		case j.JWKSURL != "":
			f.web(at+".jwksURL", j.JWKSURL, "https", "http")
			if strings.HasPrefix(j.JWKSURL, "http:") && !onLoopback(j.JWKSURL) {
				f.add(at+".jwksURL", "is not https", "use https: who can change the keys on the way can make tokens")
			}
		default:
			f.jwks(at+".jwks", j.JWKS)
		}
	}
}

// onLoopback: what is asked for stays on the router's machine.
func onLoopback(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// text checks something that is compared character for character.
func (f *finding) text(field, s string) {
	if s == "" || len(s) > maxClaim {
		f.add(field, fmt.Sprintf("is %d bytes long", len(s)), fmt.Sprintf("give 1 to %d", maxClaim))
	}
}

// jwks checks a set of public keys. What is in it is not repeated: it may hold private ones.
func (f *finding) jwks(field, text string) {
	if len(text) > maxJWKS {
		f.add(field, fmt.Sprintf("is %d bytes long, the limit is %d", len(text), maxJWKS), "give fewer keys")
		return
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(text), &set); err != nil {
		f.add(field, "is not a JSON Web Key Set", `give {"keys": [...]} as the issuer publishes it (RFC 7517)`)
		return
	}
	if len(set.Keys) == 0 || len(set.Keys) > maxJWKSKeys {
		f.add(field, fmt.Sprintf("holds %d keys", len(set.Keys)), fmt.Sprintf("give 1 to %d", maxJWKSKeys))
		return
	}
	for i, k := range set.Keys {
		if !k.Valid() || !k.IsPublic() {
			f.add(fmt.Sprintf("%s.keys[%d]", field, i), "is not a public key", "give public keys only: routers check signatures, and never make them")
		}
	}
}
