package dataplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"anabranch/api/routerpb"
)

func TestAKeyThatHasExpiredIsToldSo(t *testing.T) {
	w, _ := one(t)
	for key, ends := range map[string]time.Duration{"old": -time.Second, "fresh": time.Hour} {
		sum := sha256.Sum256([]byte(key + "-key"))
		w.table.Tenants[0].ExpiringKeys = append(w.table.Tenants[0].ExpiringKeys, &routerpb.ExpiringKey{
			Sha256: sum[:], ExpiresUnixMs: time.Now().Add(ends).UnixMilli(),
		})
	}
	w.apply()
	if r := w.ask(us, "fresh", askWhole); r.status != 200 {
		t.Errorf("a key before its end: %d %q", r.status, r.body)
	}
	r := w.ask(us, "old", askWhole)
	if r.status != 401 || r.problem(t)["code"] != "invalid_api_key" || !strings.Contains(r.body, "expired") {
		t.Errorf("a key after its end: %d %q", r.status, r.body)
	}
	if r := w.get(http.MethodGet, w.routers[us].admin.URL+"/table", "", ""); strings.Contains(r.body, "expiringKeys") || r.status != 200 {
		t.Error("the admin page shows hashes of keys")
	}
}

func TestASignedTokenStandsForAKey(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1"}}}) // the test asks again
	}))
	defer issuer.Close()
	token := func(aud string) string {
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "k1"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.Signed(s).Claims(jwt.Claims{
			Issuer: "https://id.example", Audience: jwt.Audience{aud}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)),
		}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	w, s := one(t)
	good := token("llm")
	if r := w.ask(us, "", askWhole, "Authorization", "Bearer "+good); r.status != 401 || !strings.Contains(r.body, "key is not known") {
		t.Errorf("where no tenant has tokens: %d %q", r.status, r.body)
	}
	w.table.Tenants[1].Jwt = []*routerpb.JwtRule{{Issuer: "https://id.example", Audiences: []string{"llm"}, JwksUrl: issuer.URL}}
	w.apply()
	w.run()
	var r got
	w.eventually("the issuer's keys", func() bool {
		r = w.ask(us, "", askWhole, "Authorization", "Bearer "+good)
		return r.status != 401
	})
	if r.status != 200 || w.record(us, r).Tenant != "globex" {
		t.Fatalf("%d %q of %v", r.status, r.body, w.record(us, r).Tenant)
	}
	if s.requests.Load() == 0 || strings.Contains((*s.seen.Load()).Get("Authorization"), good) {
		t.Error("the token went on to a model server")
	}
	r = w.ask(us, "", askWhole, "Authorization", "Bearer "+token("mail"))
	if r.status != 401 || !strings.Contains(r.body, "of no tenant") || strings.Contains(r.body, good[:20]) {
		t.Errorf("a token for another service: %d %q", r.status, r.body)
	}
}
