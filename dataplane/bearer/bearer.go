// Package bearer finds the tenant of a client that shows a JSON Web Token (RFC 7519) instead of an API
// key: by the rules of the table and the public keys of the token's issuer. Keys that are behind a URL
// are fetched beside requests and never for one: a request with a key that nobody knows yet is refused,
// and its client tries again.
package bearer

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"anabranch/dataplane/table"
)

const (
	// MaxToken bounds a token, in bytes.
	MaxToken = 8 << 10
	// Leeway is how far clocks may differ (RFC 7519, 4.1.4: "a few minutes" at most).
	Leeway = time.Minute
)

// Why a token is not taken. None of them repeats anything of it.
var (
	// ErrMalformed says that it is no signed token, or of an algorithm that is not taken: those with a
	// shared secret and "none" are not.
	ErrMalformed = errors.New("is no JSON Web Token signed by RS256, PS256, ES256, EdDSA or their longer kin")
	// ErrIssuer says that nobody's rule names its issuer.
	ErrIssuer = errors.New("is of an issuer that is not known here")
	// ErrNoKey says that its key is not among the issuer's, as far as they are known by now.
	ErrNoKey = errors.New("is signed with a key that is not known here (yet)")
	// ErrSignature says that the key did not make the signature.
	ErrSignature = errors.New("has a wrong signature")
	// ErrExpired says that it has expired or never does.
	ErrExpired = errors.New("has expired, or says no time at which it does")
	// ErrEarly says that it is not valid yet.
	ErrEarly = errors.New("is not valid yet")
	// ErrNobodys says that it is good and no tenant's: by its audience or claims.
	ErrNobodys = errors.New("is of no tenant: its audience or claims are others")
	// ErrAmbiguous says that it is more than one tenant's.
	ErrAmbiguous = errors.New("is of more than one tenant: their rules must tell them apart")
)

// algorithms are those with a public key.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Looks says whether a key could be a token: two dots, and not too long.
func Looks(key string) bool { return len(key) <= MaxToken && strings.Count(key, ".") == 2 }

// judged is what was found out about a token.
type judged struct {
	tenant *table.Tenant
	// from and until bound when that holds, in Unix seconds.
	from, until int64
	// rules are those of its issuer, where the key was not known.
	rules []*table.TokenRule
}

// judge is the whole check but for the time: the tenant whose token it is, by the rules of t and the
// keys that keysAt knows, and when. It is a pure function.
func judge(t *table.Table, keysAt func(url string) *jose.JSONWebKeySet, token string) (judged, error) {
	if !Looks(token) {
		return judged{}, ErrMalformed
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return judged{}, ErrMalformed
	}
	var claimed struct {
		Issuer string `json:"iss"`
	}
	if err := parsed.UnsafeClaimsWithoutVerification(&claimed); err != nil {
		return judged{}, ErrMalformed
	}
	rules := t.TokenRules(claimed.Issuer)
	if len(rules) == 0 {
		return judged{}, ErrIssuer
	}
	c := check{token: parsed, keysAt: keysAt}
	var of *table.Tenant
	why := ErrNobodys
	for _, r := range rules {
		if err := c.signedFor(r); err != nil {
			why = err
			continue
		}
		if !c.meets(r) {
			continue
		}
		if of != nil && of != r.Tenant {
			return judged{}, ErrAmbiguous
		}
		of = r.Tenant
	}
	switch {
	case of == nil && c.verified:
		return judged{}, ErrNobodys
	case of == nil:
		return judged{rules: rules}, why
	case c.std.Expiry == nil:
		return judged{}, ErrExpired
	}
	out := judged{tenant: of, until: c.std.Expiry.Time().Add(Leeway).Unix()}
	if c.std.NotBefore != nil {
		out.from = c.std.NotBefore.Time().Add(-Leeway).Unix()
	}
	return out, nil
}

// check is one token on its way through the rules of its issuer, which mostly have the same keys.
type check struct {
	token  *jwt.JSONWebToken
	keysAt func(url string) *jose.JSONWebKeySet

	verified bool
	by       map[*jose.JSONWebKeySet]error
	std      jwt.Claims
	all      map[string]any
}

// signedFor says whether one of the keys that a rule trusts has signed the token.
func (c *check) signedFor(r *table.TokenRule) error {
	set := r.Keys
	if set == nil {
		set = c.keysAt(r.KeysURL)
	}
	if set == nil {
		return ErrNoKey
	}
	err, done := c.by[set]
	if !done {
		err = c.signedBy(set)
		if c.by == nil {
			c.by = map[*jose.JSONWebKeySet]error{}
		}
		c.by[set] = err
	}
	return err
}

func (c *check) signedBy(set *jose.JSONWebKeySet) error {
	h := c.token.Headers[0]
	err := ErrNoKey
	for _, k := range set.Keys {
		if h.KeyID != "" && k.KeyID != h.KeyID || k.Use != "" && k.Use != "sig" || k.Algorithm != "" && k.Algorithm != h.Algorithm || !k.IsPublic() {
			continue
		}
		var std jwt.Claims
		var all map[string]any
		if c.token.Claims(k.Key, &std, &all) != nil {
			err = ErrSignature
			continue
		}
		c.verified, c.std, c.all = true, std, all
		return nil
	}
	return err
}

// meets says whether a token with a good signature is what a rule asks for.
func (c *check) meets(r *table.TokenRule) bool {
	if !slices.ContainsFunc(r.Audiences, func(a string) bool { return slices.Contains(c.std.Audience, a) }) {
		return false
	}
	for _, want := range r.Claims {
		switch got := c.all[want.Name].(type) {
		case string:
			if got != want.Value {
				return false
			}
		case []any:
			if !slices.Contains(got, any(want.Value)) {
				return false
			}
		default:
			return false
		}
	}
	return true
}
