package rest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/controlplane/access"
	"anabranch/controlplane/oidc"
	"anabranch/controlplane/oidc/oidctest"
	"anabranch/controlplane/state/statepb"
)

// browser is one that keeps cookies, and says with each request which page sends it.
type browser struct {
	*double
	jar    *cookiejar.Jar
	client *http.Client
	site   string // Sec-Fetch-Site
	cookie []*http.Cookie
}

func (d *double) browser() *browser {
	d.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return &browser{d, jar, &http.Client{Jar: jar}, "same-origin", nil}
}

// do sends JSON, unless a header says otherwise.
func (b *browser) do(method, path, body string, headers ...string) answer {
	b.t.Helper()
	req, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if b.site != "" {
		req.Header.Set("Sec-Fetch-Site", b.site)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	b.cookie = resp.Cookies()
	a := answer{b.t, resp.StatusCode, resp.Header, text}
	keepsContract(b.t, method, path, a)
	return a
}

func (b *browser) signIn(role string) Session {
	b.t.Helper()
	var s Session
	b.do("POST", "/v1/session", `{"token":"secret-`+role+`"}`).want(200, "").into(&s)
	return s
}

// session is what the server says of it.
func (b *browser) session() Session {
	b.t.Helper()
	var s Session
	b.do("GET", "/v1/session", "").want(200, "").into(&s)
	return s
}

func TestASessionIsACredentialThatScriptsCannotRead(t *testing.T) {
	d := newDouble(t)
	b := d.browser()
	if s := b.session(); s.SignedIn || s.Code != "none" || s.Detail == "" {
		t.Errorf("before: %+v", s)
	}
	b.do("GET", "/v1/status", "").want(401, "unauthenticated")
	s := b.signIn("operator")
	if !s.SignedIn || s.Kind != access.KindToken || s.Name != "operator" || s.Role != "operator" || s.By != "cookie" || !s.ExpiresAt.Equal(epoch.Add(SessionLifetime)) || !s.Refreshable {
		t.Errorf("signed in: %+v", s)
	}
	for _, c := range b.cookie {
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Domain != "" {
			t.Errorf("cookie %+v", c)
		}
		if c.Name == "anabranch_session" && (c.Path != "/" || c.MaxAge != 12*3600) || c.Name == "anabranch_refresh" && (c.Path != "/v1/session/refresh" || c.MaxAge >= 0) {
			t.Errorf("cookie %+v", c)
		}
	}
	if len(b.cookie) != 2 {
		t.Errorf("cookies %v", b.cookie)
	}
	if again := b.session(); again.ExpiresAt != s.ExpiresAt || again.Name != "operator" || !again.Refreshable {
		t.Errorf("asked again: %+v", again)
	}
	b.do("GET", "/v1/status", "").want(200, "")
	b.do("POST", "/v1/regions", doc("Region", "eu", "{}"), yaml).want(201, "")
	b.do("GET", "/v1/tokens", "").want(403, "forbidden")
	b.do("GET", "/v1/status", "", "Authorization: Bearer wrong").want(401, "unauthenticated") // the header goes first
	b.do("DELETE", "/v1/session", "").want(204, "")
	b.do("GET", "/v1/status", "").want(401, "unauthenticated")
	b.do("DELETE", "/v1/session", "").want(204, "")
}

// TestTheAuditTrailDoesNotKnowHowATokenCame: a cookie is the same credential.
func TestTheAuditTrailDoesNotKnowHowATokenCame(t *testing.T) {
	d := newDouble(t)
	b := d.browser()
	b.signIn("operator")
	said := func() string {
		all := d.current().Audit(0, 0)
		e := all[len(all)-1]
		return fmt.Sprint(e.GetActor(), e.GetRole(), e.GetAction(), e.GetReason(), e.GetRequestId())
	}
	const reason, id = "X-Anabranch-Reason: because", "X-Request-Id: r-1"
	d.do("operator", "POST", "/v1/regions", doc("Region", "eu", "{}"), yaml, reason, id).want(201, "")
	byHeader := said()
	b.do("POST", "/v1/regions", doc("Region", "us", "{}"), yaml, reason, id).want(201, "")
	if byCookie := said(); byCookie != byHeader || !strings.Contains(byCookie, "because") {
		t.Errorf("by cookie %q, by header %q", byCookie, byHeader)
	}
}

// TestPagesOfOtherOriginsChangeNothing sends what browsers send for them, with the cookie, as if SameSite did not
// keep it: a page of another port is of the same site.
func TestPagesOfOtherOriginsChangeNothing(t *testing.T) {
	d := newDouble(t)
	b := d.browser()
	b.signIn("admin")
	before := d.current().Index()
	form := "Content-Type: application/x-www-form-urlencoded"
	for name, sent := range map[string][]string{
		"cross-site form":                {"Sec-Fetch-Site: cross-site", form},
		"a page of another port":         {"Sec-Fetch-Site: same-site", form},
		"an old browser":                 {"Sec-Fetch-Site: ", "Origin: https://evil.example", form},
		"an old browser, a sandbox":      {"Sec-Fetch-Site: ", "Origin: null", form},
		"what needs no preflight":        {"Sec-Fetch-Site: cross-site", "Content-Type: text/plain"},
		"what does need one, unanswered": {"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []string{"POST /v1/regions", "PUT /v1/freeze", "POST /v1/drills/1:start", "DELETE /v1/tokens/viewer", "PATCH /v1/regions/eu", "POST /v1/tokens", "DELETE /v1/session", "POST /v1/session", "POST /v1/session/refresh"} {
				method, path, _ := strings.Cut(r, " ")
				a := b.do(method, path, "a=b", sent...).want(403, "cross_origin")
				if len(a.header["Set-Cookie"]) > 0 {
					t.Errorf("%s sets %v", r, a.header["Set-Cookie"])
				}
			}
		})
	}
	if now := d.current().Index(); now != before {
		t.Errorf("%d commands came of it", now-before)
	}
	if !b.session().SignedIn {
		t.Error("the session is gone")
	}
	// Whoever proves by a header who they are needs no origin: no browser sends that by itself.
	b.do("POST", "/v1/regions", doc("Region", "eu", "{}"), yaml, "Authorization: Bearer secret-admin", "Sec-Fetch-Site: cross-site").want(201, "")
	b.site = ""
	b.do("POST", "/v1/regions", doc("Region", "us", "{}"), yaml).want(201, "") // no browser at all
	b.do("POST", "/v1/regions", doc("Region", "ap", "{}"), yaml, "Origin: "+d.url).want(201, "")
}

func TestASessionEndsWithItsTokenOrItsTime(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*double)
		code string
	}{
		"its twelve hours are over": {func(d *double) { d.advance(SessionLifetime) }, "expired"},
		"its token expires":         {func(d *double) { d.advance(time.Hour) }, "expired"},
		"its token is revoked": {func(d *double) {
			d.order(&statepb.Command_RevokeToken{RevokeToken: &statepb.RevokeToken{Name: "mine"}})
		}, "revoked"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDouble(t)
			d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}})
			d.token("mine", "viewer", access.Scope{}, func(p *statepb.PutToken) {
				if name == "its token expires" {
					p.Token.ExpiresUnixMs = d.now().Add(time.Hour).UnixMilli()
				}
			})
			b := d.browser()
			s := b.signIn("mine")
			if name == "its token expires" && (!s.ExpiresAt.Equal(epoch.Add(time.Hour)) || s.Refreshable) {
				t.Errorf("signed in: %+v", s)
			}
			b.do("GET", "/v1/status", "").want(200, "")
			held := b.jar.Cookies(mustURL(t, d.url))
			tt.end(d)
			b.jar.SetCookies(mustURL(t, d.url), held) // a browser whose clock is late
			b.do("GET", "/v1/status", "").want(401, "unauthenticated")
			if got := b.session(); got.SignedIn || got.Code != tt.code {
				t.Errorf("then: %+v", got)
			}
			if got := b.session(); got.Code != "none" {
				t.Errorf("the cookie is kept: %+v", got)
			}
		})
	}
}

func TestAStreamEndsWithTheSession(t *testing.T) {
	d := newDouble(t)
	b := d.browser()
	b.signIn("viewer")
	resp, err := b.client.Get(d.url + "/v1/fleet/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}
	d.advance(SessionLifetime)
	for lines.Scan() { // to its end
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}

func TestASessionOfAStaticTokenIsRefreshed(t *testing.T) {
	d := newDouble(t)
	b := d.browser()
	b.do("POST", "/v1/session/refresh", "").want(409, "no_session")
	b.do("POST", "/v1/session/refresh", "", "Authorization: Bearer secret-viewer").want(409, "no_session")
	b.signIn("viewer")
	d.advance(11 * time.Hour)
	var s Session
	b.do("POST", "/v1/session/refresh", "").want(200, "").into(&s)
	if !s.ExpiresAt.Equal(epoch.Add(23*time.Hour)) || s.Name != "viewer" {
		t.Errorf("refreshed: %+v", s)
	}
	d.advance(SessionLifetime)
	b.jar.SetCookies(mustURL(t, d.url), b.cookie)
	b.do("POST", "/v1/session/refresh", "").want(401, "unauthenticated")
}

func TestWaysToSignInThatAreNone(t *testing.T) {
	d := newDouble(t)
	b := d.browser()
	for body, want := range map[string]string{
		`{}`:                              "422 invalid",
		`{"token":"a","code":"b"}`:        "422 invalid",
		`{"signIn":{"code":"x"}}`:         "422 invalid",
		`{"signIn":{"refreshToken":"x"}}`: "422 invalid",
		`{"signIn":{"code":"x","codeVerifier":"y","redirectUri":"z"}}`: "404 not_found",
		`{"token":"nobody"}`:    "401 unauthenticated",
		`{"token":"anb_short"}`: "401 unauthenticated",
		`{"code":"nobody"}`:     "401 code_spent",
		`{"password":"x"}`:      "400 malformed",
		`token=a`:               "400 malformed",
		`{"token":"` + strings.Repeat("x", maxGrant+1) + `"}`: "422 invalid",
	} {
		d.advance(2 * time.Second) // for those who are slowed down
		a := b.do("POST", "/v1/session", body)
		if got := fmt.Sprintf("%d %s", a.status, a.problem().Code); got != want || len(b.cookie) > 0 {
			t.Errorf("%.60s: %s, %v; want %s", body, got, b.cookie, want)
		}
	}
	b.do("POST", "/v1/session", `{"token":"secret-viewer"}`, "Content-Type: text/plain").want(415, "unsupported_media_type")
}

func TestWhoTriesToSignInIsSlowedDown(t *testing.T) {
	for _, body := range []string{`{"token":"guess-%d"}`, `{"code":"guess-%d"}`} {
		d := newDouble(t)
		b := d.browser()
		for i := range int(attemptBurst) {
			b.do("POST", "/v1/session", fmt.Sprintf(body, i)).want(401, "")
		}
		a := b.do("POST", "/v1/session", fmt.Sprintf(body, -1)).want(429, "too_many_requests")
		if a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		b.do("POST", "/v1/session", `{"token":"secret-viewer"}`).want(429, "too_many_requests")
		d.advance(time.Second)
		b.signIn("viewer")
	}
}

func TestACodeSignsInOnceWithinAMinute(t *testing.T) {
	d := newDouble(t)
	fresh := func() (out SessionCode) {
		d.do("operator", "POST", "/v1/session/codes", "").want(201, "").into(&out)
		return out
	}
	use := func(code string) answer { return d.browser().do("POST", "/v1/session", `{"code":"`+code+`"}`) }
	first := fresh()
	if first.Path != "/#code="+first.Code || len(first.Code) != 32 || !first.ExpiresAt.Equal(epoch.Add(time.Minute)) {
		t.Errorf("%+v", first)
	}
	var s Session
	use(first.Code).want(200, "").into(&s)
	if s.Name != "operator" || s.By != "cookie" {
		t.Errorf("%+v", s)
	}
	use(first.Code).want(401, "code_spent")
	late := fresh()
	d.advance(time.Minute)
	use(late.Code).want(401, "code_spent")
	d.do("", "POST", "/v1/session/codes", "").want(401, "unauthenticated")
	b := d.browser()
	b.signIn("operator")
	b.do("POST", "/v1/session/codes", "").want(403, "forbidden") // a session is not to be carried away
	for range maxCodesEach {
		fresh()
	}
	d.do("operator", "POST", "/v1/session/codes", "").want(429, "too_many_requests")
	d.do("viewer", "POST", "/v1/session/codes", "").want(201, "")
	d.advance(time.Minute)
	fresh()
}

func TestACodeOfATokenThatWasRevokedSinceIsNoGood(t *testing.T) {
	d := newDouble(t)
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}})
	d.token("mine", "viewer", access.Scope{})
	var code SessionCode
	d.do("mine", "POST", "/v1/session/codes", "").want(201, "").into(&code)
	d.order(&statepb.Command_RevokeToken{RevokeToken: &statepb.RevokeToken{Name: "mine"}})
	d.browser().do("POST", "/v1/session", `{"code":"`+code.Code+`"}`).want(401, "unauthenticated")
}

// TestManyCodesAreBounded: each is a secret in memory.
func TestManyCodesAreBounded(t *testing.T) {
	var k codes
	taken := 0
	for i := range 2 * maxCodes {
		if k.put(fmt.Sprint(i), heldCode{"t", fmt.Sprint(i), epoch.Add(codeLifetime)}, epoch) {
			taken++
		}
	}
	if taken != maxCodes {
		t.Errorf("%d were taken", taken)
	}
	if !k.put("new", heldCode{"t", "c", epoch.Add(2 * codeLifetime)}, epoch.Add(codeLifetime)) || k.take("1", epoch) != "" || k.take("new", epoch) != "t" {
		t.Error("what is over stays")
	}
}

func TestBehindTLSTheCookiesAreSecureAndOfThisHostAlone(t *testing.T) {
	d := newDouble(t)
	b := d.browser()
	const proxied = "X-Forwarded-Proto: https"
	b.do("POST", "/v1/session", `{"token":"secret-viewer"}`, proxied).want(200, "")
	names := map[string]string{}
	for _, c := range b.cookie {
		if !c.Secure {
			t.Errorf("%+v", c)
		}
		names[c.Name] = c.Value
	}
	held := "Cookie: __Host-anabranch_session=" + names["__Host-anabranch_session"]
	if _, ok := names["__Secure-anabranch_refresh"]; !ok || len(names) != 2 {
		t.Errorf("%v", names)
	}
	d.do("", "GET", "/v1/status", "", held, proxied).want(200, "")
	// What has no prefix another host may have set.
	d.do("", "GET", "/v1/status", "", strings.Replace(held, "__Host-", "", 1), proxied).want(401, "unauthenticated")
	if r := httptest.NewRequest(http.MethodGet, "/", nil); secure(r) {
		t.Error("plain HTTP is secure")
	} else if r.TLS = (&tls.ConnectionState{}); !secure(r) {
		t.Error("TLS is not secure")
	}
}

// TestTwoSessionsAtOnceAreNone: another port of the same host may set a cookie for a path of this one, which
// browsers then send first.
func TestTwoSessionsAtOnceAreNone(t *testing.T) {
	d := newDouble(t)
	one := func(role string) string {
		return sessionName + "=" + session{token: "secret-" + role, ends: epoch.Add(time.Hour)}.String()
	}
	d.do("", "GET", "/v1/status", "", "Cookie: "+one("viewer")+"; "+one("viewer")).want(200, "")
	a := d.do("", "GET", "/v1/status", "", "Cookie: "+one("admin")+"; "+one("viewer")).want(401, "unauthenticated")
	if a.header.Get("WWW-Authenticate") == "" {
		t.Error("no challenge")
	}
	d.do("", "GET", "/v1/session", "", "Cookie: "+one("admin")+"; "+one("viewer")).want(200, "")
}

func TestPeopleSignInAndStaySignedInByCookiesAlone(t *testing.T) {
	d, idp := signing(t)
	d.advance(time.Since(epoch)) // the provider's clock is the real one
	b := d.browser()
	b.do("POST", "/v1/session", `{"token":`+quoted(idp.IDToken(oidctest.CLI, map[string]any{"groups": nil}))+`}`).want(403, "forbidden")
	var s Session
	b.do("POST", "/v1/session", `{"token":`+quoted(idp.IDToken(oidctest.CLI, nil))+`}`).want(200, "").into(&s)
	if s.Kind != access.KindOIDC || s.Role != "operator" || s.Refreshable {
		t.Errorf("%+v", s)
	}
	code, verifier, back := codeOf(t, d)
	ask, err := json.Marshal(SessionAsk{SignIn: &oidc.Grant{Code: code, CodeVerifier: verifier, RedirectURI: back}})
	if err != nil {
		t.Fatal(err)
	}
	// The two other parts are absent, not empty.
	body := strings.NewReplacer(`"token":"",`, "", `"code":"",`, "", `,"refreshToken":""`, "").Replace(string(ask))
	a := b.do("POST", "/v1/session", body).want(200, "")
	a.into(&s)
	if !s.SignedIn || !s.Refreshable || s.Name == "" || strings.Contains(string(a.body), "oken\"") {
		t.Errorf("%s", a.body)
	}
	b.do("GET", "/v1/status", "").want(200, "")
	for _, c := range b.jar.Cookies(mustURL(t, d.url+"/v1/status")) {
		if c.Name == refreshName {
			t.Error("the refresh token goes everywhere")
		}
	}
	b.do("POST", "/v1/session/refresh", "").want(200, "").into(&s)
	if !s.Refreshable || b.session().By != "cookie" {
		t.Errorf("refreshed: %+v", s)
	}
	b.do("POST", "/v1/session", body).want(400, "sign_in_refused") // a code counts once
	idp.Down(true)
	b.do("POST", "/v1/session/refresh", "").want(503, "sign_in_away")
	idp.Down(false)
	b.jar.SetCookies(mustURL(t, d.url+pathRefresh), []*http.Cookie{{Name: refreshName, Value: "wrong", Path: pathRefresh}})
	b.do("POST", "/v1/session/refresh", "").want(400, "sign_in_refused")
	b.do("POST", "/v1/session/refresh", "").want(200, "") // without: as good as its token
	if s := b.session(); !s.SignedIn || s.Refreshable {
		t.Errorf("%+v", s)
	}
}

// TestNoSecretOfASessionIsLogged reads the node's log.
func TestNoSecretOfASessionIsLogged(t *testing.T) {
	var log lockedText
	d := newDouble(t, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	b := d.browser()
	b.signIn("viewer")
	b.do("GET", "/v1/tokens", "").want(403, "forbidden")
	b.do("POST", "/v1/session", `{"token":"secret-nobody"}`).want(401, "")
	var code SessionCode
	d.do("operator", "POST", "/v1/session/codes", "").want(201, "").into(&code)
	b.do("POST", "/v1/session", `{"code":"`+code.Code+`"}`).want(200, "")
	if text := log.String(); !strings.Contains(text, "signed in by cookie") || strings.Contains(text, "secret-") || strings.Contains(text, code.Code) {
		t.Errorf("the log says %s", text)
	}
}

// lockedText is written by several.
type lockedText struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func FuzzASessionIsReadAsItWasWritten(f *testing.F) {
	f.Add("secret-admin", int64(1790000000), true, "1.5.-.x")
	f.Add("a.b.c;d, \"e\"\\ü", int64(-1), false, "1.05.-.x")
	f.Add("", int64(0), false, "")
	f.Fuzz(func(t *testing.T, token string, ends int64, refreshable bool, text string) {
		held := session{token: token, ends: time.Unix(ends, 0).UTC(), refreshable: refreshable}
		written := held.String()
		switch back, err := parseSession(written); {
		case token == "" || len(written) > maxCookie:
			if err == nil {
				t.Errorf("%q is taken", written)
			}
		case err != nil || back != held:
			t.Errorf("%+v came back as %+v, %v", held, back, err)
		}
		for _, c := range []byte(written) { // what RFC 6265 lets cookies hold
			if c <= ' ' || c >= 0x7f || strings.IndexByte(`",;\`, c) >= 0 {
				t.Errorf("%q holds %q", written, c)
			}
		}
		if other, err := parseSession(text); err == nil && other.String() != text {
			t.Errorf("%q is taken, and written as %q", text, other)
		}
	})
}

// codeOf has the provider send its user back with a code.
func codeOf(t *testing.T, d *double) (code, verifier, back string) {
	t.Helper()
	var ways SignInWays
	d.do("", "GET", "/v1/signin", "").want(200, "").into(&ways)
	verifier, back = strings.Repeat("v", 64), "http://127.0.0.1:7100/"
	sum := sha256.Sum256([]byte(verifier))
	ask := ways.OIDC.AuthorizationEndpoint + "?" + url.Values{
		"response_type": {"code"}, "client_id": {ways.OIDC.ClientID}, "redirect_uri": {back}, "state": {"s1"},
		"scope": {strings.Join(ways.OIDC.Scopes, " ")}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, ask, nil)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sent.Body.Close() }()
	to, err := sent.Location()
	if err != nil || to.Query().Get("state") != "s1" {
		t.Fatalf("sent to %v, %v", to, err)
	}
	return to.Query().Get("code"), verifier, back
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func quoted(s string) string { return `"` + s + `"` }
