package rest

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/controlplane/access"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// withSecret gives a token a secret of its own.
func withSecret(secret string) func(*statepb.PutToken) {
	return func(p *statepb.PutToken) { p.Token.Sha256, p.Token.Prefix = access.Hash(secret), access.Shown(secret) }
}

// newIssuer starts a node whose feature level allows tokens; its clock shows whole seconds.
func newIssuer(t *testing.T, change ...func(*Options)) *double {
	t.Helper()
	d := newDouble(t, change...)
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}})
	return d
}

func with(secret string) string { return "Authorization: Bearer " + secret }

func (a answer) issued() IssuedToken {
	a.t.Helper()
	var i IssuedToken
	a.into(&i)
	if !regexp.MustCompile(`^anb_[a-z2-7]{59}$`).MatchString(i.Secret) || i.Prefix != i.Secret[:10] {
		a.t.Fatalf("no secret of ours: %s", a.body)
	}
	return i
}

func TestATokenIsMadeUsedAndRevoked(t *testing.T) {
	var log bytes.Buffer
	d := newIssuer(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	a := d.do("admin", "POST", "/v1/tokens", `{"name":"ci","role":"operator","scope":{"tenants":["acme"]},"expiresAt":"2026-11-29T13:00:00Z"}`, "X-Anabranch-Reason: for the pipeline").want(201, "")
	ci := a.issued()
	if a.header.Get("Location") != "/v1/tokens/ci" || ci.State != "active" || ci.CreatedBy != "admin" || !ci.ExpiresAt.Equal(epoch.Add(time.Hour)) {
		t.Errorf("made: %v %s", a.header, a.body)
	}
	var me Whoami
	d.do("", "GET", "/v1/whoami", "", with(ci.Secret)).want(200, "").into(&me)
	want := Whoami{Kind: "token", Name: "ci", Role: "operator", Scope: access.Scope{Tenants: []string{"acme"}}, Rights: []access.Right{read, write}, Credential: ci.Prefix, ExpiresAt: ci.ExpiresAt}
	if fmt.Sprint(me) != fmt.Sprint(want) {
		t.Errorf("whoami %+v, want %+v", me, want)
	}
	d.do("", "POST", "/v1/tenants", doc("Tenant", "acme", "{}"), yaml, with(ci.Secret)).want(201, "")
	p := d.do("", "POST", "/v1/tenants", doc("Tenant", "other", "{}"), yaml, with(ci.Secret)).want(403, "out_of_scope").problem()
	if len(p.Errors) != 1 || p.Errors[0].Field != "metadata.name" || p.Errors[0].Fix == "" {
		t.Errorf("the field is not named: %+v", p)
	}
	// The audit trail names the token and what may be shown of its secret.
	entries := d.current().Audit(0, 0)
	if e := entries[len(entries)-1]; e.GetActor() != "ci" || e.GetAction() != "denied" || e.GetCode() != "out_of_scope" || e.GetKind() != "Tenant" || e.GetCredential() != ci.Prefix || e.GetActorKind() != "token" {
		t.Errorf("audited: %v", e)
	}
	d.do("admin", "DELETE", "/v1/tokens/ci", "").want(204, "")
	d.do("admin", "DELETE", "/v1/tokens/ci", "").want(204, "") // harmless when repeated
	if p := d.do("", "GET", "/v1/whoami", "", with(ci.Secret)).want(401, "unauthenticated").problem(); !strings.Contains(p.Detail, "revoked") {
		t.Errorf("%+v", p)
	}
	var told Token
	d.do("admin", "GET", "/v1/tokens/ci", "").want(200, "").into(&told)
	if told.State != "revoked" || told.RevokedBy != "admin" || told.Prefix != ci.Prefix {
		t.Errorf("%+v", told)
	}
	if strings.Contains(log.String(), ci.Secret) || !strings.Contains(log.String(), "token issued") {
		t.Errorf("logged: %s", &log)
	}
	var kept bytes.Buffer
	if err := state.Encode(d.current(), &kept); err != nil || bytes.Contains(kept.Bytes(), []byte(ci.Secret)) {
		t.Errorf("the state holds the secret (%v)", err)
	}
}

func TestTokensExpire(t *testing.T) {
	d := newIssuer(t)
	s := d.do("admin", "POST", "/v1/tokens", `{"name":"brief","role":"viewer","expiresAt":"2026-11-29T12:01:00Z"}`).want(201, "").issued()
	d.advance(59 * time.Second)
	d.do("", "GET", "/v1/whoami", "", with(s.Secret)).want(200, "")
	d.advance(time.Second)
	if p := d.do("", "GET", "/v1/whoami", "", with(s.Secret)).want(401, "unauthenticated").problem(); !strings.Contains(p.Detail, "expired") {
		t.Errorf("%+v", p)
	}
	var told Token
	d.do("admin", "GET", "/v1/tokens/brief", "").want(200, "").into(&told)
	if told.State != "expired" {
		t.Errorf("%+v", told)
	}
	// It comes back to life with a new secret and expiry only.
	d.do("admin", "POST", "/v1/tokens/brief/rotate", "").want(422, "invalid")
	s = d.do("admin", "POST", "/v1/tokens/brief/rotate", `{"expiresAt":"2026-11-29T14:00:00Z"}`).want(200, "").issued()
	d.do("", "GET", "/v1/whoami", "", with(s.Secret)).want(200, "")
}

func TestTokensAreRotatedWithOverlap(t *testing.T) {
	d := newIssuer(t)
	first := d.do("admin", "POST", "/v1/tokens", `{"name":"ci","role":"viewer"}`).want(201, "").issued()
	a := d.do("admin", "POST", "/v1/tokens/ci/rotate", `{"overlapSeconds":60}`).want(200, "")
	second := a.issued()
	if !second.PreviousUntil.Equal(epoch.Add(time.Minute)) || !second.RotatedAt.Equal(epoch) || second.Secret == first.Secret {
		t.Errorf("%s", a.body)
	}
	for _, secret := range []string{first.Secret, second.Secret} {
		var me Whoami
		d.do("", "GET", "/v1/whoami", "", with(secret)).want(200, "").into(&me)
		if me.Name != "ci" || me.Credential != access.Shown(secret) {
			t.Errorf("%+v", me)
		}
	}
	d.advance(time.Minute)
	if p := d.do("", "GET", "/v1/whoami", "", with(first.Secret)).want(401, "unauthenticated").problem(); !strings.Contains(p.Detail, "rotated") {
		t.Errorf("%+v", p)
	}
	d.do("", "GET", "/v1/whoami", "", with(second.Secret)).want(200, "")
	third := d.do("admin", "POST", "/v1/tokens/ci/rotate", "").want(200, "").issued()
	d.do("", "GET", "/v1/whoami", "", with(second.Secret)).want(401, "")
	d.do("", "GET", "/v1/whoami", "", with(third.Secret)).want(200, "")
	d.do("admin", "POST", "/v1/tokens/nobody/rotate", "").want(404, "not_found")
	d.do("admin", "POST", "/v1/tokens/ci/rotate", `{"overlapSeconds":604801}`).want(422, "invalid")
	d.before = func(d *double, _ *statepb.Command) {
		d.order(&statepb.Command_PutToken{PutToken: &statepb.PutToken{Token: &statepb.Token{Name: "ci", Sha256: access.Hash("x")}, Rotate: true, IfRevision: d.current().Token("ci").GetRevision()}})
	}
	d.do("admin", "POST", "/v1/tokens/ci/rotate", "").want(412, "precondition")
}

func TestRequestsForTokensThatAreRefused(t *testing.T) {
	d := newIssuer(t)
	for body, want := range map[string]string{
		`{`:                                    "malformed",
		`{"name":"x","role":"viewer","who":1}`: "malformed",
		`{"name":"x","role":"root"}`:           "invalid role",
		`{"name":"X Y","role":"viewer"}`:       "invalid name",
		``:                                     "invalid name role",
		`{"name":"x","role":"viewer","scope":{"regions":["EU"],"tenants":["a","a"]}}`: "invalid scope.regions[0] scope.tenants[1]",
		`{"name":"x","role":"viewer","expiresAt":"2026-11-29T12:00:00Z"}`:             "invalid expiresAt",
		`{"name":"x","role":"viewer","expiresAt":"2028-11-29T12:00:00Z"}`:             "invalid expiresAt",
		`{"name":"admin","role":"viewer"}`:                                            "exists name",
	} {
		a := d.do("admin", "POST", "/v1/tokens", body)
		p := a.problem()
		got := p.Code
		for _, e := range p.Errors {
			got += " " + e.Field
			if e.Fix == "" {
				t.Errorf("%s: no fix: %+v", body, e)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	d.do("admin", "DELETE", "/v1/tokens/admin", "").want(409, "in_use")
	d.do("admin", "DELETE", "/v1/tokens/nobody", "").want(404, "not_found")
	d.do("admin", "GET", "/v1/tokens/nobody", "").want(404, "not_found")
	d.do("admin", "POST", "/v1/tokens?dry_run=true", `{"name":"x","role":"viewer"}`).want(400, "invalid_request")
}

func TestTokensAreListedByNameInPages(t *testing.T) {
	d := newIssuer(t)
	for _, name := range []string{"zoe", "bob", "eve"} {
		d.do("admin", "POST", "/v1/tokens", `{"name":"`+name+`","role":"viewer"}`).want(201, "")
	}
	var names []string
	for cursor := ""; ; {
		var page List[Token]
		d.do("admin", "GET", "/v1/tokens?limit=2&cursor="+cursor, "").want(200, "").into(&page)
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if want := []string{"admin", "approver", "bob", "eve", "operator", "viewer", "zoe"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

func TestATokenAskedForTwiceIsTheSameSecret(t *testing.T) {
	d := newIssuer(t)
	d.token("second-admin", "admin", access.Scope{})
	const body = `{"name":"ci","role":"viewer"}`
	first := d.do("admin", "POST", "/v1/tokens", body, "Idempotency-Key: k1").want(201, "")
	again := d.do("admin", "POST", "/v1/tokens", body, "Idempotency-Key: k1").want(201, "")
	if !bytes.Equal(first.body, again.body) || again.header.Get("Location") != "/v1/tokens/ci" {
		t.Errorf("first %s\nagain %s", first.body, again.body)
	}
	d.do("", "GET", "/v1/whoami", "", with(again.issued().Secret)).want(200, "")
	d.do("admin", "POST", "/v1/tokens", `{"name":"ci","role":"admin"}`, "Idempotency-Key: k1").want(422, "idempotency_key_reused")
	d.do("second-admin", "POST", "/v1/tokens", body, "Idempotency-Key: k1").want(409, "exists")
	turned := d.do("admin", "POST", "/v1/tokens/ci/rotate", `{"overlapSeconds":5}`, "Idempotency-Key: k2").want(200, "")
	if repeat := d.do("admin", "POST", "/v1/tokens/ci/rotate", `{"overlapSeconds":5}`, "Idempotency-Key: k2").want(200, ""); !bytes.Equal(turned.body, repeat.body) {
		t.Errorf("first %s\nagain %s", turned.body, repeat.body)
	}
	d.do("admin", "DELETE", "/v1/tokens/ci", "", "Idempotency-Key: k3").want(204, "")
	d.do("admin", "DELETE", "/v1/tokens/ci", "", "Idempotency-Key: k3").want(204, "")
	// The state holds the answer, and can't tell the secret.
	kept := d.current().AnswerTo("admin", "k1", d.now())
	if secret := first.issued().Secret; len(kept.GetDoc()) == 0 || bytes.Contains(kept.GetDoc(), []byte(secret)) || bytes.Contains(kept.GetDoc(), access.Hash(secret)) {
		t.Error("the secret is kept where others can read it")
	}
}

func TestASecretIsToldAgainToNobodyElse(t *testing.T) {
	d := newIssuer(t)
	admin := d.do("admin", "POST", "/v1/tokens", `{"name":"chief","role":"admin"}`).want(201, "").issued()
	const body = `{"name":"ci","role":"viewer"}`
	secret := d.do("", "POST", "/v1/tokens", body, "Idempotency-Key: k", with(admin.Secret)).want(201, "").issued().Secret
	turned := d.do("admin", "POST", "/v1/tokens/chief/rotate", `{"overlapSeconds":60}`).want(200, "").issued()
	// The same actor with another secret: it could be somebody else by now.
	a := d.do("", "POST", "/v1/tokens", body, "Idempotency-Key: k", with(turned.Secret)).want(409, "secret_gone")
	if strings.Contains(string(a.body), secret) {
		t.Errorf("%s", a.body)
	}
	if got := d.do("", "POST", "/v1/tokens", body, "Idempotency-Key: k", with(admin.Secret)).want(201, "").issued(); got.Secret != secret {
		t.Error("the secret is lost to who asked for it")
	}
}

func TestTwoRequestsWithOneKeyAtOnceMakeOneToken(t *testing.T) {
	d := newIssuer(t)
	var inner answer
	d.before = func(d *double, _ *statepb.Command) {
		inner = d.do("admin", "POST", "/v1/tokens", `{"name":"ci","role":"viewer"}`, "Idempotency-Key: k")
	}
	outer := d.do("admin", "POST", "/v1/tokens", `{"name":"ci","role":"viewer"}`, "Idempotency-Key: k").want(201, "")
	if inner.want(201, "").issued().Secret != outer.issued().Secret {
		t.Errorf("%s\n%s", inner.body, outer.body)
	}
}

func TestTokensBeginAndMistypedOnesAreTold(t *testing.T) {
	d := newIssuer(t)
	s := d.do("admin", "POST", "/v1/tokens", `{"name":"ci","role":"viewer"}`).want(201, "").issued()
	if p := d.do("", "GET", "/v1/whoami", "", with(s.Secret[:40])).want(401, "unauthenticated").problem(); !strings.Contains(p.Detail, "cut or mistyped") {
		t.Errorf("%+v", p)
	}
	d.do("", "GET", "/v1/whoami", "", with(access.NewSecret([access.SecretBytes]byte{9}))).want(401, "unauthenticated")
	var me Whoami
	d.do("viewer", "GET", "/v1/whoami", "").want(200, "").into(&me)
	if me.Name != "viewer" || me.Credential != "" || !me.ExpiresAt.IsZero() || !me.Scope.Everything() {
		t.Errorf("a token of Init: %+v", me)
	}
}

// TestAWatchEndsWithItsToken: what somebody may not see any more they are not told any more.
func TestAWatchEndsWithItsToken(t *testing.T) {
	for name, end := range map[string]func(*double){
		"revoked": func(d *double) {
			d.order(&statepb.Command_RevokeToken{RevokeToken: &statepb.RevokeToken{Name: "ci"}})
		},
		"rotated": func(d *double) {
			d.order(&statepb.Command_PutToken{PutToken: &statepb.PutToken{Token: &statepb.Token{Name: "ci", Sha256: access.Hash("x")}, Rotate: true, IfRevision: d.current().Token("ci").GetRevision()}})
		},
		"expired": func(d *double) { d.advance(time.Hour) },
	} {
		for _, path := range []string{"/v1/watch", "/v1/fleet/watch", "/v1/audit/watch", "/v1/rollouts?watch=true", "/v1/proposals?watch=true"} {
			t.Run(name+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newUnserved(t)
					d.token("ci", "viewer", access.Scope{}, func(p *statepb.PutToken) { p.Token.ExpiresUnixMs = d.now().Add(time.Minute).UnixMilli() })
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
					if err != nil {
						t.Fatal(err)
					}
					r.Header.Set("Authorization", "Bearer secret-ci")
					ended := make(chan struct{})
					w := &sink{header: http.Header{}}
					go func() {
						defer close(ended)
						d.server.Handler().ServeHTTP(w, r)
					}()
					synctest.Wait()
					<-time.After(time.Minute) // of virtual time
					select {
					case <-ended:
						t.Fatal("it ended before its token")
					default:
					}
					end(d)
					<-time.After(time.Second)
					synctest.Wait()
					select {
					case <-ended:
					default:
						t.Error("it goes on")
						d.server.Drain()
					}
				})
			})
		}
	}
}

// eventSink takes what a handler writes.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Flush()                      {}
