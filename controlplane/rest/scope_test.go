package rest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"anabranch/controlplane/access"
	"anabranch/controlplane/audit"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// ofAcme starts a node with two tenants and a quota of each, and a token for one of them: "acme-viewer"
// and "acme-operator".
func ofAcme(t *testing.T) *double {
	t.Helper()
	d := newIssuer(t)
	for _, role := range []string{"viewer", "operator"} {
		d.token("acme-"+role, role, access.Scope{Tenants: []string{"acme"}})
	}
	d.seed("Tenant acme {}", "Tenant other {}",
		"Quota mine {tenant: acme, limits: [{kind: requests, perMinute: 1}]}", "Quota theirs {tenant: other, limits: [{kind: requests, perMinute: 1}]}")
	return d
}

// tells reads events written as "event Kind name".
func (s *sse) tells(want ...string) {
	s.t.Helper()
	for _, w := range want {
		e, _ := s.next()
		var body Event
		if err := json.Unmarshal([]byte(e.data), &body); err != nil {
			s.t.Fatalf("%+v: %v", e, err)
		}
		if got := strings.TrimSpace(fmt.Sprint(e.name, " ", body.Kind, " ", body.Name)); got != w {
			s.t.Fatalf("got %q, want %q", got, w)
		}
	}
}

const (
	toAcme  = `{"spec":{"tenant":"acme"}}`
	toOther = `{"spec":{"tenant":"other"}}`
)

func TestAWatchTellsATenantsTokenWhatItSees(t *testing.T) {
	d := ofAcme(t)
	w := d.watchAs("acme-viewer", "/v1/watch")
	w.tells("put Tenant acme", "put Quota mine", "synced")
	d.do("admin", "PATCH", "/v1/quotas/theirs", toAcme, "If-Match: *").want(200, "")
	w.tells("put Quota theirs")
	d.do("admin", "PATCH", "/v1/quotas/mine", toOther, "If-Match: *").want(200, "")
	w.tells("delete Quota mine") // to this client it is gone
	d.do("admin", "DELETE", "/v1/quotas/mine", "", "If-Match: *").want(204, "")
	d.do("admin", "DELETE", "/v1/tenants/other", "", "If-Match: *").want(204, "")
	d.do("admin", "DELETE", "/v1/quotas/theirs", "", "If-Match: *").want(204, "")
	w.tells("delete Quota theirs") // and nothing of what it never saw
	d.seed("Region us {}")
	w.tells("put Region us")
}

func TestAWatchThatGoesOnForgetsNothingThatItsClientMayHoldAndTellsNothingElse(t *testing.T) {
	d := ofAcme(t)
	at := d.current().Index()
	d.do("admin", "PATCH", "/v1/quotas/mine", toOther, "If-Match: *").want(200, "")
	d.do("admin", "PATCH", "/v1/quotas/theirs", `{"spec":{"degraded":"open"}}`, "If-Match: *").want(200, "")
	d.seed("Tenant third {}", "Quota passing {tenant: acme, limits: [{kind: requests, perMinute: 1}]}")
	d.do("admin", "DELETE", "/v1/quotas/passing", "", "If-Match: *").want(204, "")
	d.do("admin", "DELETE", "/v1/tenants/third", "", "If-Match: *").want(204, "")
	d.seed("Region us {}")
	last := "Last-Event-ID: " + strconv.FormatUint(at, 10)
	w := d.watchAs("acme-viewer", "/v1/watch", last)
	w.tells("delete Quota mine", "put Region us")
	// From here on it knows what it has told.
	d.do("admin", "PATCH", "/v1/quotas/mine", toAcme, "If-Match: *").want(200, "")
	w.tells("put Quota mine")
	d.do("admin", "DELETE", "/v1/quotas/theirs", "", "If-Match: *").want(204, "")
	d.do("admin", "DELETE", "/v1/quotas/mine", "", "If-Match: *").want(204, "")
	d.do("admin", "DELETE", "/v1/regions/us", "", "If-Match: *").want(204, "")
	w.tells("delete Quota mine", "delete Region us")
	d.watchAs("acme-viewer", "/v1/watch", last).tells("delete Quota mine", "delete Region us")
	d.watchAs("viewer", "/v1/watch", last).tells("delete Quota passing", "delete Tenant third", "delete Quota theirs", "delete Quota mine", "delete Region us")
}

// TestAWatchThatCannotKnowWhatItsClientHolds: of what has changed more often than is remembered.
func TestAWatchThatCannotKnowWhatItsClientHolds(t *testing.T) {
	d := ofAcme(t)
	last := "Last-Event-ID: " + strconv.FormatUint(d.current().Index(), 10)
	for i := range state.MaxRevisions + 1 {
		d.do("admin", "PATCH", "/v1/quotas/mine", fmt.Sprintf(`{"spec":{"tenant":"other","limits":[{"kind":"requests","perMinute":%d}]}}`, i+1), "If-Match: *").want(200, "")
	}
	w := d.watchAs("acme-viewer", "/v1/watch", last)
	w.tells("relist")
	d.seed("Region us {}")
	w.tells("put Region us")
	d.do("admin", "DELETE", "/v1/quotas/mine", "", "If-Match: *").want(204, "")
	d.do("admin", "DELETE", "/v1/regions/us", "", "If-Match: *").want(204, "")
	w.tells("delete Region us") // who listed anew saw no such quota
}

func TestARefusalDoesNotTellWhetherATenantExists(t *testing.T) {
	d := ofAcme(t)
	for _, method := range []string{"PUT", "PATCH", "DELETE"} {
		var answers []string
		for _, name := range []string{"other", "nobody"} {
			p := d.do("acme-operator", method, "/v1/tenants/"+name, doc("Tenant", name, "{}"), yaml, `If-Match: "5"`).want(403, "out_of_scope").problem()
			if len(p.Errors) != 1 || p.Errors[0].Field != "metadata.name" {
				t.Errorf("%s %s: %+v", method, name, p)
			}
			answers = append(answers, p.Errors[0].Fix)
		}
		if answers[0] != answers[1] {
			t.Errorf("%s tells them apart: %q", method, answers)
		}
	}
	// A document that is wrong in itself is told so, but nothing is looked up for it.
	p := d.do("acme-operator", "POST", "/v1/quotas", doc("Quota", "q", "{tenant: othr, limts: []}"), yaml).want(422, "invalid").problem()
	for _, e := range p.Errors {
		if e.Field == "spec.tenant" {
			t.Errorf("it tells of tenants: %+v", e)
		}
	}
}

func TestAQuotaIsNeitherTakenNorGiven(t *testing.T) {
	d := ofAcme(t)
	for _, tt := range [][3]string{{"mine", toOther, "spec.tenant"}, {"theirs", toAcme, "metadata.name"}} {
		p := d.do("acme-operator", "PATCH", "/v1/quotas/"+tt[0], tt[1], "If-Match: *").want(403, "out_of_scope").problem()
		if len(p.Errors) != 1 || p.Errors[0].Field != tt[2] {
			t.Errorf("%s: %+v", tt[0], p)
		}
	}
	d.do("acme-operator", "PATCH", "/v1/quotas/mine", `{"spec":{"degraded":"open"}}`, "If-Match: *").want(200, "")
	d.do("acme-operator", "PATCH", "/v1/quotas/mine", toOther, "If-Match: *", "X-Anabranch-Reason: dry").want(403, "out_of_scope")
	d.do("acme-operator", "PATCH", "/v1/quotas/mine?dry_run=true", toOther, "If-Match: *").want(403, "out_of_scope")
}

func TestATenantsPolicyHasAClassOfItsOwn(t *testing.T) {
	d := ofAcme(t)
	d.seed("Model m {}", "TrafficPolicy general {models: [m], class: gold}")
	const mine = "{models: [m], match: [{tenants: [acme]}]}"
	p := d.do("acme-operator", "POST", "/v1/policies", doc("TrafficPolicy", "gold", mine), yaml).want(403, "out_of_scope").problem()
	if len(p.Errors) != 1 || p.Errors[0].Field != "spec.class" {
		t.Errorf("%+v", p)
	}
	d.do("acme-operator", "POST", "/v1/policies", doc("TrafficPolicy", "acme-first", mine), yaml).want(201, "")
	d.do("acme-operator", "PATCH", "/v1/policies/acme-first", `{"spec":{"spill":"never"}}`, "If-Match: *").want(200, "")
}

func TestEntriesOfTheTrailThatAScopeShows(t *testing.T) {
	d := ofAcme(t)
	acme := access.Scope{Tenants: []string{"acme"}}
	for _, tt := range []struct {
		kind, name string
		want       bool
	}{
		{"Tenant", "acme", true},
		{"Tenant", "other", false},
		{"Quota", "mine", true},
		{"Quota", "theirs", false},
		{"Quota", "gone", false},
		{"Token", "acme-viewer", false},
		{"Region", "us", true},
		{"SafetyRule", "gone", true},
		{"Member", "n1", true},
		{"", "/v1/status", true},
	} {
		e := &statepb.AuditEntry{Kind: tt.kind, Name: tt.name}
		if got := seesEntry(acme, d.current(), e); got != tt.want {
			t.Errorf("%s %s: %v", tt.kind, tt.name, got)
		}
		if !seesEntry(access.Scope{Regions: []string{"eu"}}, d.current(), e) || !seesEntry(access.Scope{}, d.current(), e) {
			t.Errorf("%s %s is hidden from who sees all tenants", tt.kind, tt.name)
		}
	}
	if policy.Plural("Member") != "" {
		t.Error("members are resources by now")
	}
}

func TestATenantsTokenGetsIntoNoOthersTokens(t *testing.T) {
	d := ofAcme(t)
	rule := func(issuer, org string) string {
		return fmt.Sprintf(`{"spec":{"jwt":[{"issuer":%q,"audiences":["llm"],"jwksURL":"https://id.example/keys","claims":{"org":%q}}]}}`, issuer, org)
	}
	const path = "/v1/tenants/acme"
	d.do("admin", "PATCH", "/v1/tenants/other", rule("https://shared", "other"), "If-Match: *").want(200, "")
	d.do("acme-operator", "PATCH", path, rule("https://own", "acme"), "If-Match: *").want(200, "")
	p := d.do("acme-operator", "PATCH", path, rule("https://shared", "other"), "If-Match: *").want(403, "out_of_scope").problem()
	if len(p.Errors) != 1 || p.Errors[0].Field != "spec.jwt[0].issuer" || strings.Contains(p.Detail+p.Errors[0].Reason, `"other"`) {
		t.Errorf("%+v", p)
	}
	// What somebody else has written may stay, and go.
	d.do("admin", "PATCH", path, rule("https://shared", "acme"), "If-Match: *").want(200, "")
	d.do("acme-operator", "PATCH", path, `{"spec":{"tier":"batch"}}`, "If-Match: *").want(200, "")
	d.do("acme-operator", "PATCH", path, rule("https://shared", "wider"), "If-Match: *").want(403, "out_of_scope")
	d.do("acme-operator", "PATCH", path, `{"spec":{"jwt":null}}`, "If-Match: *").want(200, "")
}

// TestTheTrailOfAQuotaBeginsWhereItBecameATenants: what it was before is another's.
func TestTheTrailOfAQuotaBeginsWhereItBecameATenants(t *testing.T) {
	d := ofAcme(t)
	limits := func(perMinute int) string {
		return fmt.Sprintf(`{"spec":{"limits":[{"kind":"requests","perMinute":%d}]}}`, perMinute)
	}
	d.do("admin", "PATCH", "/v1/quotas/theirs", limits(4711), "If-Match: *").want(200, "")
	d.do("admin", "PATCH", "/v1/quotas/theirs", toAcme, "If-Match: *").want(200, "")
	d.do("admin", "PATCH", "/v1/quotas/theirs", limits(2), "If-Match: *").want(200, "")
	d.do("admin", "DELETE", "/v1/quotas/mine", "", "If-Match: *").want(204, "")
	d.do("admin", "POST", "/v1/quotas", doc("Quota", "mine", "{tenant: acme, limits: [{kind: requests, perMinute: 3}]}"), yaml).want(201, "")
	for name, want := range map[string]string{"theirs": "update", "mine": "create delete create"} {
		var page List[audit.Entry]
		a := d.do("acme-viewer", "GET", "/v1/audit?order=asc&kind=Quota&name="+name, "").want(200, "")
		a.into(&page)
		var got []string
		for _, e := range page.Items {
			got = append(got, e.Action)
		}
		if strings.Join(got, " ") != want || strings.Contains(string(a.body), "other") {
			t.Errorf("%s: %q, want %q: %s", name, got, want, a.body)
		}
	}
	// Who sees all tenants sees all of it.
	if a := d.do("viewer", "GET", "/v1/audit?name=theirs", "").want(200, ""); !strings.Contains(string(a.body), "4711") {
		t.Errorf("%s", a.body)
	}
}

func TestTheTenantThatAChangeNames(t *testing.T) {
	for _, tt := range [][3]string{
		{"spec.tenant", `"acme"`, "acme"},
		{"spec", `{"model":"m","tenant":"acme"}`, "acme"},
		{"spec", "", ""},
		{"spec.tenant", "", ""},
		{"spec.model", `"acme"`, ""},
		{"spec", `{"tenant":7}`, ""},
		{"spec.tenant", `{`, ""},
	} {
		if got := tenantIn(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%s %s: %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
}
