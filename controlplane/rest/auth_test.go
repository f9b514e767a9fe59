package rest

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/access"
	"anabranch/controlplane/store"
)

func TestTokensAreReadFromTheHeader(t *testing.T) {
	d := newDouble(t)
	for value, want := range map[string]int{
		"Bearer secret-viewer": 200, "bearer  secret-viewer": 200, "Bearer secret-viewer2": 401, "Bearer ": 401,
		"Bearer": 401, "secret-viewer": 401, "Basic secret-viewer": 401,
	} {
		if got := d.do("", "GET", "/v1/status", "", "Authorization: "+value).status; got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
}

func TestBeforeInitTheAPISaysSo(t *testing.T) {
	d := bare(t)
	a := d.do("admin", "GET", "/v1/regions", "").want(503, "not_initialised")
	if a.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
	}
	d.do("", "GET", "/healthz", "").want(200, "")
}

func TestRefusalsAreAuditedButCannotFloodTheTrail(t *testing.T) {
	d := newDouble(t)
	for range 50 {
		d.do("viewer", "DELETE", "/v1/regions/us", "", "X-Anabranch-Reason: trying").want(403, "forbidden")
	}
	entries := d.current().Audit(1, 0)
	if len(entries) != denialBurst {
		t.Fatalf("%d entries", len(entries))
	}
	e := entries[0]
	if e.GetAction() != "denied" || e.GetActor() != "viewer" || e.GetKind() != "Region" || e.GetName() != "us" || e.GetCode() != "forbidden" || e.GetReason() != "trying; delete" {
		t.Errorf("got %v", e)
	}
	d.do("approver", "POST", "/v1/regions", "").want(403, "forbidden")
	if len(d.current().Audit(1, 0)) != denialBurst+1 {
		t.Error("one token uses up the allowance of another")
	}
	d.advance(25 * time.Second)
	for range 5 {
		d.do("viewer", "DELETE", "/v1/regions/us", "")
	}
	if got := len(d.current().Audit(1, 0)); got != denialBurst+3 {
		t.Errorf("%d entries after 25 s more", got)
	}
	// A missing token names nobody, a failed precondition is no offence.
	d.do("", "DELETE", "/v1/regions/us", "").want(401, "")
	d.do("nobody", "DELETE", "/v1/regions/us", "").want(401, "")
	d.do("operator", "DELETE", "/v1/regions/us", "").want(428, "")
	if got := len(d.current().Audit(1, 0)); got != denialBurst+3 {
		t.Errorf("%d entries", got)
	}
}

func TestBytesThatAreNoTextEscapeNoAudit(t *testing.T) {
	d := newDouble(t)
	d.do("viewer", "DELETE", "/v1/regions/%ff", "", "X-Anabranch-Reason: \xff"+strings.Repeat("x", 4096)).want(403, "forbidden")
	entries := d.current().Audit(1, 0)
	if len(entries) != 1 || entries[0].GetName() != "\uFFFD" || !strings.HasPrefix(entries[0].GetReason(), "\uFFFDxxx") {
		t.Errorf("audited: %v", entries)
	}
	d.do("operator", "POST", "/v1/regions", doc("Region", "us", "{}"), yaml, "X-Anabranch-Reason: caf\xe9").want(201, "")
}

func TestARefusalStandsAlsoWhenItCannotBeAudited(t *testing.T) {
	d := newDouble(t)
	d.failing(errors.New("no quorum"))
	d.do("viewer", "POST", "/v1/regions", "").want(403, "forbidden")
}

func TestSecretsAreNotRepeated(t *testing.T) {
	d := newDouble(t)
	a := d.do("", "GET", "/v1/regions", "", "Authorization: Bearer my-secret").want(401, "")
	if strings.Contains(string(a.body), "my-secret") {
		t.Errorf("%s", a.body)
	}
	b := d.do("operator", "POST", "/v1/tenants", doc("Tenant", "x", "{apiKeys: [{id: k, sha256: sk-my-secret}]}"), yaml).want(422, "invalid")
	if strings.Contains(string(b.body), "sk-my-secret") {
		t.Errorf("%s", b.body)
	}
}

func TestErrorsOfTheStore(t *testing.T) {
	tests := []struct {
		err    error
		status int
		code   string
		retry  string
	}{
		{fmt.Errorf("propose: %w", store.ErrNotLeader{}), 503, "no_leader", "1"},
		{fmt.Errorf("propose: %w", store.ErrClosed), 503, "no_leader", "1"},
		{fmt.Errorf("propose: %w", store.ErrUnknownOutcome), 503, "unknown_outcome", ""},
		{store.ErrReadOnly, 503, "read_only", "30"},
		{store.ErrBusy, 503, "busy", "1"},
		{fmt.Errorf("leader: %w", store.ErrTooNew), 503, "upgrade_needed", "60"},
		{store.ErrTooLarge, 413, "too_large", ""},
		{errors.New("surprise with details"), 500, "internal", ""},
	}
	for _, tt := range tests {
		t.Run(tt.code, func(t *testing.T) {
			d := newDouble(t)
			d.failing(tt.err)
			a := d.do("operator", "POST", "/v1/tenants", doc("Tenant", "x", "{}"), yaml).want(tt.status, tt.code)
			if a.header.Get("Retry-After") != tt.retry {
				t.Errorf("Retry-After %q, want %q", a.header.Get("Retry-After"), tt.retry)
			}
			if strings.Contains(string(a.body), "surprise") {
				t.Errorf("an internal error is told: %s", a.body)
			}
		})
	}
}

// TestAnOperationForTheWholeIsForNobodyWithAScope, also where it says so in so many words.
func TestAnOperationForTheWholeIsForNobodyWithAScope(t *testing.T) {
	d := newIssuer(t)
	d.token("narrow", "viewer", access.Scope{Tenants: []string{"acme"}})
	for reach, want := range map[reach]bool{whole: false, anyScope: true, filtered: true, within: true} {
		c := d.server.echo.NewContext(httptest.NewRequest(http.MethodGet, "/", http.NoBody), httptest.NewRecorder())
		c.Request().Header.Set("Authorization", "Bearer secret-narrow")
		err := d.server.may(read, reach)(func(echo.Context) error { return nil })(c)
		if (err == nil) != want {
			t.Errorf("reach %d: %v", reach, err)
		}
	}
}
