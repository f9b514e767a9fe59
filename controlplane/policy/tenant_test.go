package policy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// keySet is a key set of one new key, public or private.
func keySet(t *testing.T, public bool) string {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := jose.JSONWebKey{Key: k, KeyID: "k1"}
	if public {
		key = key.Public()
	}
	b, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWhatATenantShowsIsChecked(t *testing.T) {
	sum := strings.Repeat("a", 64)
	key := func(more string) string {
		return fmt.Sprintf("{apiKeys: [{id: k, sha256: %s, %s}]}", sum, more)
	}
	token := func(more string) string {
		return fmt.Sprintf("{jwt: [{issuer: 'https://id.example', audiences: [llm], %s}]}", more)
	}
	url := "jwksURL: 'https://id.example/keys'"
	inline := func(s string) string { return fmt.Sprintf("jwks: %q", s) }
	for name, c := range map[string]struct{ spec, field string }{
		"a key that ends":                  {key("expiresAt: 2027-01-31T00:00:00Z, prefix: ab-12ab34"), ""},
		"a key that ends in another zone":  {key("expiresAt: '2027-01-31T00:00:00+09:00'"), ""},
		"a date is no moment":              {key("expiresAt: 2027-01-31"), "spec.apiKeys[0].expiresAt"},
		"before time began":                {key("expiresAt: 1969-01-31T00:00:00Z"), "spec.apiKeys[0].expiresAt"},
		"a prefix that gives too much":     {key("prefix: ab-1234567890"), "spec.apiKeys[0].prefix"},
		"a prefix with odd characters":     {key("prefix: 'ab 1'"), "spec.apiKeys[0].prefix"},
		"tokens by URL":                    {token(url), ""},
		"tokens by claims":                 {token(url + ", claims: {org: acme}"), ""},
		"tokens by key set":                {token(inline(keySet(t, true))), ""},
		"on the router's own machine":      {token("jwksURL: 'http://127.0.0.1:9000/keys'"), ""},
		"keys that anybody can change":     {token("jwksURL: 'http://id.example/keys'"), "spec.jwt[0].jwksURL"},
		"keys from a file":                 {token("jwksURL: 'file:///etc/keys'"), "spec.jwt[0].jwksURL"},
		"no keys":                          {token("claims: {}"), "spec.jwt[0].jwksURL"},
		"keys twice":                       {token(url + ", " + inline(keySet(t, true))), "spec.jwt[0].jwksURL"},
		"a private key":                    {token(inline(keySet(t, false))), "spec.jwt[0].jwks.keys[0]"},
		"a shared secret":                  {token(inline(`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`)), "spec.jwt[0].jwks.keys[0]"},
		"an empty set":                     {token(inline(`{"keys":[]}`)), "spec.jwt[0].jwks"},
		"no set":                           {token(inline(`[]`)), "spec.jwt[0].jwks"},
		"a set that is too long":           {token(inline(strings.Repeat(" ", maxJWKS) + "{}")), "spec.jwt[0].jwks"},
		"for any service":                  {"{jwt: [{issuer: i, audiences: [], " + url + "}]}", "spec.jwt[0].audiences"},
		"for a service without name":       {"{jwt: [{issuer: i, audiences: [''], " + url + "}]}", "spec.jwt[0].audiences[0]"},
		"of nobody":                        {"{jwt: [{issuer: '', audiences: [a], " + url + "}]}", "spec.jwt[0].issuer"},
		"a claim that says nothing":        {token(url + ", claims: {org: ''}"), "spec.jwt[0].claims[org]"},
		"a claim without name":             {token(url + ", claims: {'': acme}"), "spec.jwt[0].claims"},
		"more rules than anybody can read": {"{jwt: [" + strings.Repeat("{issuer: i, audiences: [a], "+url+"},", maxJWT+1) + "]}", "spec.jwt"},
	} {
		t.Run(name, func(t *testing.T) {
			doc := fmt.Sprintf("apiVersion: anabranch/v1\nkind: Tenant\nmetadata: {name: acme}\nspec: %s\n", c.spec)
			r, problems := Parse([]byte(doc))
			problems = append(problems, Validate(r)...)
			if c.field == "" && len(problems) > 0 || c.field != "" && (len(problems) != 1 || problems[0].Field != c.field || problems[0].Fix == "") {
				t.Errorf("got %+v, want one on %q", problems, c.field)
			}
			if text := fmt.Sprint(problems); strings.Contains(text, "c2VjcmV0") || strings.Contains(text, `"d"`) {
				t.Error("a secret is repeated")
			}
		})
	}
}

func TestAKeyKnowsItsEnd(t *testing.T) {
	at := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{"": {}, "2027-01-31T00:00:00Z": at, "2027-01-31T09:00:00+09:00": at} {
		if got := (APIKeySpec{ExpiresAt: text}).Expires(); !got.Equal(want) {
			t.Errorf("%q ends at %s, want %s", text, got, want)
		}
	}
}
