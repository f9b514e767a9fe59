package bearer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// issuer makes tokens and shows its keys over HTTP.
type issuer struct {
	t    testing.TB
	keys map[string]crypto.Signer
	*httptest.Server

	mu    sync.Mutex // guards those below
	shown []string   // ids of keys
	fail  bool
	asked int
}

var signers = sync.OnceValue(func() map[string]crypto.Signer {
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return map[string]crypto.Signer{"rsa": r, "ec": e, "ed": ed}
})

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{t: t, keys: signers(), shown: []string{"rsa", "ec", "ed"}}
	i.Server = httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) serve(w http.ResponseWriter, q *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked++
	switch {
	case i.fail:
		http.Error(w, "no", http.StatusServiceUnavailable)
	case q.URL.Path == "/elsewhere":
		http.Redirect(w, q, "/keys", http.StatusFound)
	case q.URL.Path == "/long":
		_, _ = w.Write(make([]byte, maxBody+1))
	default:
		_, _ = w.Write(i.set(i.shown...))
	}
}

// set is the public keys of some ids, and one of a kind that nobody knows.
func (i *issuer) set(ids ...string) []byte {
	i.t.Helper()
	list := []any{map[string]string{"kty": "LATTICE", "kid": "future"}}
	for _, id := range ids {
		list = append(list, jose.JSONWebKey{Key: i.keys[id].Public(), KeyID: id, Use: "sig"})
	}
	b, err := json.Marshal(map[string]any{"keys": list})
	if err != nil {
		i.t.Fatal(err)
	}
	return b
}

// inline is the set as a table holds it.
func (i *issuer) inline(ids ...string) string {
	i.t.Helper()
	set, err := parse(i.set(ids...))
	if err != nil {
		i.t.Fatal(err)
	}
	b, err := json.Marshal(set)
	if err != nil {
		i.t.Fatal(err)
	}
	return string(b)
}

func (i *issuer) show(fail bool, ids ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fail, i.shown = fail, ids
}

func (i *issuer) times() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// start of all tests, by their clocks.
var start = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// claims of a good token, with changes; nil takes a claim away.
func claims(changes map[string]any) map[string]any {
	c := map[string]any{
		"iss": "https://id.example", "aud": []string{"other", "llm"}, "sub": "u1", "org": "acme", "groups": []string{"a", "b"},
		"exp": start.Add(time.Hour).Unix(), "iat": start.Unix(),
	}
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

// sign makes a token with one of the keys and an algorithm.
func (i *issuer) sign(id, kid string, alg jose.SignatureAlgorithm, c map[string]any) string {
	i.t.Helper()
	return signed(i.t, jose.SigningKey{Algorithm: alg, Key: i.keys[id]}, kid, c)
}

func signed(t testing.TB, k jose.SigningKey, kid string, c map[string]any) string {
	t.Helper()
	o := (&jose.SignerOptions{}).WithType("JWT")
	if kid != "" {
		o = o.WithHeader("kid", kid)
	}
	s, err := jose.NewSigner(k, o)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(s).Claims(c).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// tenant is one tenant with a rule.
func tenant(id string, r *routerpb.JwtRule) *routerpb.Tenant {
	if r.Issuer == "" {
		r.Issuer = "https://id.example"
	}
	if r.Audiences == nil {
		r.Audiences = []string{"llm"}
	}
	return &routerpb.Tenant{Id: id, Tier: "standard", Jwt: []*routerpb.JwtRule{r}}
}

func claim(name, value string) *routerpb.JwtClaim {
	return &routerpb.JwtClaim{Name: name, Value: value}
}

func tableOf(t testing.TB, revision uint64, tenants ...*routerpb.Tenant) *table.Table {
	t.Helper()
	tab, err := table.Build(&routerpb.Table{
		Ref:     &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: revision},
		Regions: []*routerpb.Region{{Id: "r", Zone: "r"}},
		Models:  []*routerpb.Model{{Id: "m"}},
		Clusters: []*routerpb.Cluster{{
			Id: "c", Region: "r", Kind: "endpoints", Models: []string{"m"},
			Endpoints: []*routerpb.Endpoint{{Id: "e", Class: "h100", Url: "http://127.0.0.1:1"}},
		}},
		Tenants: tenants,
	})
	if err != nil {
		t.Fatal(fmt.Errorf("table: %w", err))
	}
	return tab
}
