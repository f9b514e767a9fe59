// Package oidctest is an OpenID provider for tests: discovery, keys, authorization codes with PKCE, device
// codes and refresh tokens, over HTTP on loopback. It signs people in without asking them.
package oidctest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Clients that the provider knows. Console is a confidential one, CLI a public one.
const (
	Console = "anabranch-console"
	Secret  = "console-secret"
	CLI     = "anabranch-cli"
)

// Provider is a running provider.
type Provider struct {
	*httptest.Server
	t   testing.TB
	key *rsa.PrivateKey

	mu      sync.Mutex // guards those below
	claims  map[string]any
	lasts   time.Duration
	pending int // polls of a device code until it is approved
	denies  bool
	down    bool
	codes   map[string]code
	refresh map[string]string // token to client
	devices map[string]*int   // device code to polls left
	asked   map[string]int    // by path
}

type code struct{ client, challenge, redirect string }

var key = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// Start runs a provider until the test ends, at which alice of the group sre signs in.
func Start(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{
		t: t, key: key(), lasts: time.Hour,
		claims: map[string]any{"sub": "u-1", "email": "alice@example.com", "email_verified": true, "groups": []string{"sre", "all"}},
		codes:  map[string]code{}, refresh: map[string]string{}, devices: map[string]*int{}, asked: map[string]int{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.describe)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /device", p.device)
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		p.mu.Lock()
		p.asked[q.URL.Path]++
		down := p.down
		p.mu.Unlock()
		if down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, q)
	}))
	t.Cleanup(p.Close)
	return p
}

// As changes who signs in from now on: claims that are set, or with nil taken away.
func (p *Provider) As(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := maps.Clone(p.claims)
	for k, v := range claims {
		if next[k] = v; v == nil {
			delete(next, k)
		}
	}
	p.claims = next
}

// Lasting changes how long ID tokens count.
func (p *Provider) Lasting(d time.Duration) { p.set(func() { p.lasts = d }) }

// Approving changes how often a device has to ask until its user has approved, or denied.
func (p *Provider) Approving(after int, denies bool) {
	p.set(func() { p.pending, p.denies = after, denies })
}

// Down makes the provider answer nothing but 503.
func (p *Provider) Down(down bool) { p.set(func() { p.down = down }) }

// Asked is how often a path was called.
func (p *Provider) Asked(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func (p *Provider) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// IDToken makes one for a client. Changes as of [Provider.As], for this token only.
func (p *Provider) IDToken(client string, changes map[string]any) string {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sign(client, changes)
}

func (p *Provider) sign(client string, changes map[string]any) string {
	c := maps.Clone(p.claims)
	c["iss"], c["aud"], c["iat"], c["exp"] = p.URL, client, time.Now().Unix(), time.Now().Add(p.lasts).Unix()
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: p.key}, (&jose.SignerOptions{}).WithHeader("kid", "k1"))
	if err != nil {
		panic(err)
	}
	token, err := jwt.Signed(s).Claims(c).Serialize()
	if err != nil {
		panic(err)
	}
	return token
}

func (p *Provider) describe(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
		"device_authorization_endpoint": p.URL + "/device", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}})
}

// authorize sends the browser back with a code at once (RFC 6749, 4.1), if it has a challenge.
func (p *Provider) authorize(w http.ResponseWriter, q *http.Request) {
	v := q.URL.Query()
	if v.Get("response_type") != "code" || v.Get("code_challenge_method") != "S256" || v.Get("code_challenge") == "" || v.Get("state") == "" || v.Get("client_id") != Console {
		http.Error(w, "this provider wants a code, PKCE by S256, a state and a client that it knows", http.StatusBadRequest)
		return
	}
	made := rand.Text()
	p.set(func() { p.codes[made] = code{v.Get("client_id"), v.Get("code_challenge"), v.Get("redirect_uri")} })
	back, err := url.Parse(v.Get("redirect_uri"))
	if err != nil {
		http.Error(w, "no redirect_uri", http.StatusBadRequest)
		return
	}
	back.RawQuery = url.Values{"code": {made}, "state": {v.Get("state")}}.Encode()
	http.Redirect(w, q, back.String(), http.StatusFound)
}

// device begins a sign-in of a device (RFC 8628).
func (p *Provider) device(w http.ResponseWriter, q *http.Request) {
	if q.FormValue("client_id") != CLI {
		refuse(w, "invalid_client")
		return
	}
	made := rand.Text()
	p.set(func() {
		left := p.pending
		p.devices[made] = &left
	})
	reply(w, http.StatusOK, map[string]any{
		"device_code": made, "user_code": "WDJB-MJHT", "verification_uri": p.URL + "/activate", "expires_in": 300, "interval": 1,
	})
}

func (p *Provider) token(w http.ResponseWriter, q *http.Request) {
	client, secret, basic := q.BasicAuth()
	if !basic {
		client, secret = q.FormValue("client_id"), q.FormValue("client_secret")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if client != CLI && (client != Console || secret != Secret) {
		refuse(w, "invalid_client")
		return
	}
	switch q.FormValue("grant_type") {
	case "authorization_code":
		c, ok := p.codes[q.FormValue("code")]
		delete(p.codes, q.FormValue("code"))
		sum := sha256.Sum256([]byte(q.FormValue("code_verifier")))
		if !ok || c.client != client || c.redirect != q.FormValue("redirect_uri") || c.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
			refuse(w, "invalid_grant")
			return
		}
	case "refresh_token":
		if p.refresh[q.FormValue("refresh_token")] != client {
			refuse(w, "invalid_grant")
			return
		}
		delete(p.refresh, q.FormValue("refresh_token"))
	case "urn:ietf:params:oauth:grant-type:device_code":
		left := p.devices[q.FormValue("device_code")]
		switch {
		case left == nil:
			refuse(w, "expired_token")
			return
		case *left > 0:
			*left--
			refuse(w, "authorization_pending")
			return
		case p.denies:
			refuse(w, "access_denied")
			return
		}
	default:
		refuse(w, "unsupported_grant_type")
		return
	}
	next := rand.Text()
	p.refresh[next] = client
	reply(w, http.StatusOK, map[string]any{
		"access_token": rand.Text(), "token_type": "Bearer", "expires_in": int(p.lasts.Seconds()), "id_token": p.sign(client, nil), "refresh_token": next,
	})
}

func refuse(w http.ResponseWriter, code string) {
	reply(w, http.StatusBadRequest, map[string]string{"error": code})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // whoever asked may be gone
}
