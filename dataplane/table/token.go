package table

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/go-jose/go-jose/v4"

	"anabranch/api/routerpb"
)

// TokenRule is which JSON Web Tokens (RFC 7519) are a tenant's.
type TokenRule struct {
	Tenant *Tenant
	// Audiences are those of which a token must name one; never empty.
	Audiences []string
	// Claims are what it must have besides.
	Claims []Claim
	// KeysURL is where the issuer's keys are. Empty: Keys has them.
	KeysURL string
	Keys    *jose.JSONWebKeySet
}

// Claim is a text that a token must have as a claim, or in a list that is one.
type Claim struct{ Name, Value string }

// TokenRules are those for an issuer's tokens, in the order of the tenants. Nil: there is none.
func (t *Table) TokenRules(issuer string) []*TokenRule { return t.tokens[issuer] }

// TakesTokens says whether any tenant has tokens.
func (t *Table) TakesTokens() bool { return len(t.tokens) > 0 }

// KeysURLs are where the keys of issuers are, sorted and each once.
func (t *Table) KeysURLs() []string {
	urls := map[string]bool{}
	for _, rules := range t.tokens {
		for _, r := range rules {
			if r.KeysURL != "" {
				urls[r.KeysURL] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(urls))
}

func (t *Table) addTokens(at string, of *Tenant, list []*routerpb.JwtRule) error {
	for i, p := range list {
		at := fmt.Sprintf("%s.jwt[%d]", at, i)
		r := &TokenRule{Tenant: of, Audiences: p.GetAudiences(), KeysURL: p.GetJwksUrl()}
		switch {
		case p.GetIssuer() == "":
			return invalid(CodeValue, at+".issuer", "is empty")
		case len(r.Audiences) == 0 || slices.Contains(r.Audiences, ""):
			return invalid(CodeValue, at+".audiences", "are to be given: a token for another service must not count")
		case (r.KeysURL == "") == (p.GetJwks() == ""):
			return invalid(CodeValue, at+".jwks_url", "or jwks is to be given, and not both")
		case r.KeysURL != "":
			if _, err := checkURL(at+".jwks_url", r.KeysURL, "https", "http"); err != nil {
				return err
			}
		default:
			r.Keys = &jose.JSONWebKeySet{}
			if err := json.Unmarshal([]byte(p.GetJwks()), r.Keys); err != nil || len(r.Keys.Keys) == 0 {
				return invalid(CodeValue, at+".jwks", "is not a JSON Web Key Set")
			}
		}
		for j, c := range p.GetClaims() {
			if c.GetName() == "" || c.GetValue() == "" {
				return invalid(CodeValue, fmt.Sprintf("%s.claims[%d]", at, j), "is empty")
			}
			r.Claims = append(r.Claims, Claim{c.GetName(), c.GetValue()})
		}
		t.tokens[p.GetIssuer()] = append(t.tokens[p.GetIssuer()], r)
	}
	return nil
}
