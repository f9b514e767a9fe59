package bearer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

func TestWhoseATokenIs(t *testing.T) {
	i := newIssuer(t)
	keys := i.inline("rsa", "ec", "ed")
	tab := tableOf(t, 1,
		tenant("acme", &routerpb.JwtRule{Jwks: keys, Claims: []*routerpb.JwtClaim{claim("org", "acme")}}),
		tenant("globex", &routerpb.JwtRule{Jwks: keys, Claims: []*routerpb.JwtClaim{claim("org", "globex"), claim("groups", "b")}}),
		tenant("twin", &routerpb.JwtRule{Jwks: keys, Audiences: []string{"both"}}),
		tenant("twin-2", &routerpb.JwtRule{Jwks: keys, Audiences: []string{"both"}}),
		tenant("remote", &routerpb.JwtRule{Issuer: "https://away.example", JwksUrl: "https://away.example/keys"}),
		tenant("narrow", &routerpb.JwtRule{Issuer: "https://narrow.example", Jwks: i.inline("ec")}),
	)
	good := claims(nil)
	for name, c := range map[string]struct {
		token string
		want  string
		err   error
	}{
		"RS256":                              {i.sign("rsa", "rsa", jose.RS256, good), "acme", nil},
		"PS384":                              {i.sign("rsa", "rsa", jose.PS384, good), "acme", nil},
		"ES256":                              {i.sign("ec", "ec", jose.ES256, good), "acme", nil},
		"EdDSA":                              {i.sign("ed", "ed", jose.EdDSA, good), "acme", nil},
		"without key id":                     {i.sign("ec", "", jose.ES256, good), "acme", nil},
		"one audience as a text":             {i.sign("ec", "ec", jose.ES256, claims(map[string]any{"aud": "llm"})), "acme", nil},
		"claims tell tenants apart":          {i.sign("ec", "ec", jose.ES256, claims(map[string]any{"org": "globex"})), "globex", nil},
		"a claim in a list":                  {i.sign("ec", "ec", jose.ES256, claims(map[string]any{"org": "globex", "groups": []string{"a"}})), "", ErrNobodys},
		"a claim that is a number":           {i.sign("ec", "ec", jose.ES256, claims(map[string]any{"org": 7})), "", ErrNobodys},
		"a claim that is missing":            {i.sign("ec", "ec", jose.ES256, claims(map[string]any{"org": nil})), "", ErrNobodys},
		"for another service":                {i.sign("ec", "ec", jose.ES256, claims(map[string]any{"aud": "mail"})), "", ErrNobodys},
		"for no service":                     {i.sign("ec", "ec", jose.ES256, claims(map[string]any{"aud": nil})), "", ErrNobodys},
		"of two tenants":                     {i.sign("ec", "ec", jose.ES256, claims(map[string]any{"aud": "both"})), "", ErrAmbiguous},
		"never expires":                      {i.sign("ec", "ec", jose.ES256, claims(map[string]any{"exp": nil})), "", ErrExpired},
		"of an unknown issuer":               {i.sign("ec", "ec", jose.ES256, claims(map[string]any{"iss": "https://evil.example"})), "", ErrIssuer},
		"of no issuer":                       {i.sign("ec", "ec", jose.ES256, claims(map[string]any{"iss": nil})), "", ErrIssuer},
		"of an issuer whose keys are away":   {i.sign("ec", "ec", jose.ES256, claims(map[string]any{"iss": "https://away.example"})), "", ErrNoKey},
		"with a key that this issuer hasn't": {i.sign("rsa", "rsa", jose.RS256, claims(map[string]any{"iss": "https://narrow.example"})), "", ErrNoKey},
		"with another's key id":              {i.sign("ed", "ec", jose.EdDSA, good), "", ErrSignature},
		"with a shared secret":               {signed(t, jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat("k", 32))}, "ec", good), "", ErrMalformed},
		"three words":                        {"a.b.c", "", ErrMalformed},
		"no signature":                       {"eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUifQ.", "", ErrMalformed},
		"empty":                              {"", "", ErrMalformed},
		"too long":                           {"a." + strings.Repeat("b", MaxToken) + ".c", "", ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := judge(tab, func(string) *jose.JSONWebKeySet { return nil }, c.token)
			if !errors.Is(err, c.err) || (got.tenant == nil) != (c.want == "") || got.tenant != nil && string(got.tenant.ID) != c.want {
				t.Errorf("got %+v, %v", got.tenant, err)
			}
		})
	}
}

func TestATokenThatWasTamperedWithIsNobodys(t *testing.T) {
	i := newIssuer(t)
	tab := tableOf(t, 1, tenant("acme", &routerpb.JwtRule{Jwks: i.inline("ec")}))
	token := i.sign("ec", "ec", jose.ES256, claims(nil))
	none := func(string) *jose.JSONWebKeySet { return nil }
	if _, err := judge(tab, none, token); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(token, ".")
	other := strings.Split(i.sign("ec", "ec", jose.ES256, claims(map[string]any{"org": "globex"})), ".")
	for name, forged := range map[string]string{
		"claims of another": parts[0] + "." + other[1] + "." + parts[2], "signature of another": parts[0] + "." + parts[1] + "." + other[2],
	} {
		if _, err := judge(tab, none, forged); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATokenCountsFromItsBeginningToItsEndAndAMinute(t *testing.T) {
	i := newIssuer(t)
	tab := tableOf(t, 1, tenant("acme", &routerpb.JwtRule{Jwks: i.inline("ec")}))
	keys, err := NewKeys(KeysOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := New(keys)
	token := i.sign("ec", "ec", jose.ES256, claims(map[string]any{"nbf": start.Add(10 * time.Minute).Unix()}))
	for range 2 { // the second time from memory
		for at, want := range map[time.Duration]error{
			9*time.Minute - time.Second: ErrEarly, 9 * time.Minute: nil, time.Hour: nil,
			time.Hour + Leeway - time.Second: nil, time.Hour + Leeway: ErrExpired,
		} {
			got, err := c.Tenant(tab, token, start.Add(at))
			if !errors.Is(err, want) || (got == nil) != (want != nil) {
				t.Errorf("after %s: %v, %v", at, got, err)
			}
		}
	}
}

func TestTheNextTableDecidesAnew(t *testing.T) {
	i := newIssuer(t)
	keys, err := NewKeys(KeysOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, token := New(keys), i.sign("ec", "ec", jose.ES256, claims(nil))
	for revision, who := range []string{"acme", "globex", "acme", ""} {
		tab := tableOf(t, uint64(revision+1))
		if who != "" {
			tab = tableOf(t, uint64(revision+1), tenant(who, &routerpb.JwtRule{Jwks: i.inline("ec")}))
		}
		for range 2 {
			got, err := c.Tenant(tab, token, start)
			if who == "" && !errors.Is(err, ErrIssuer) || who != "" && (err != nil || string(got.ID) != who || got != mustTenant(tab, who)) {
				t.Errorf("table %d: %v, %v", revision+1, got, err)
			}
		}
	}
}

func mustTenant(tab *table.Table, id string) *table.Tenant {
	for _, r := range tab.TokenRules("https://id.example") {
		if string(r.Tenant.ID) == id {
			return r.Tenant
		}
	}
	return nil
}

func TestARememberedTokenCostsOneCopyOfIt(t *testing.T) {
	i := newIssuer(t)
	tab := tableOf(t, 1, tenant("acme", &routerpb.JwtRule{Jwks: i.inline("ec")}))
	keys, err := NewKeys(KeysOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, token := New(keys), i.sign("ec", "ec", jose.ES256, claims(nil))
	if n := testing.AllocsPerRun(100, func() {
		if _, err := c.Tenant(tab, token, start); err != nil {
			t.Fatal(err)
		}
	}); n > 1 { // of the text, to hash it
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTenant(b *testing.B) {
	i := newIssuer(b)
	tab := tableOf(b, 1, tenant("acme", &routerpb.JwtRule{Jwks: i.inline("rsa", "ec")}))
	keys, err := NewKeys(KeysOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for name, token := range map[string]string{
		"RS256": i.sign("rsa", "rsa", jose.RS256, claims(nil)), "ES256": i.sign("ec", "ec", jose.ES256, claims(nil)),
	} {
		b.Run("first/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := judge(tab, keys.at, token); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("again/"+name, func(b *testing.B) {
			c := New(keys)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Tenant(tab, token, start); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzJudge(f *testing.F) {
	i := newIssuer(f)
	tab := tableOf(f, 1, tenant("acme", &routerpb.JwtRule{Jwks: i.inline("ec")}))
	good := i.sign("ec", "ec", jose.ES256, claims(nil))
	f.Add(good)
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, token string) {
		// ECDSA's signatures can be written in two ways, none of which changes what was signed.
		if got, err := judge(tab, func(string) *jose.JSONWebKeySet { return nil }, token); err == nil && !strings.HasPrefix(token, good[:strings.LastIndex(good, ".")]) {
			t.Errorf("taken as %v: %q", got.tenant, token)
		}
	})
}
