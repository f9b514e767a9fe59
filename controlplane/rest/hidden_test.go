package rest

import (
	"strings"
	"testing"

	"anabranch/controlplane/state/statepb"

	"anabranch/controlplane/access"
)

// besides gives a node with what ofAcme has, two regions, and a token for tenant acme and the region eu:
// "acme-eu". What it may change in eu has consequences for others, of whom it is to be told nothing.
func besides(t *testing.T) *double {
	t.Helper()
	d := newIssuer(t, planning(nil))
	d.token("acme-eu", "operator", access.Scope{Tenants: []string{"acme"}, Regions: []string{"eu"}, Models: []string{"m", "spare"}})
	d.token("acme-operator", "operator", access.Scope{Tenants: []string{"acme", "secretives"}})
	d.seed("Region us {peerURLs: ['https://us'], rttMs: {eu: 70}}", "Region eu {peerURLs: ['https://eu'], zone: europe}",
		"Model m {}", "Model spare {adapters: [fine-tuned]}",
		"Cluster us-1 {region: us, models: [m], endpoints: [{id: p, url: 'http://p', class: x}]}",
		"Cluster eu-1 {region: eu, models: [m], endpoints: [{id: p, url: 'http://q', class: x}]}",
		"Tenant acme {residency: [europe]}",
		"Tenant secretive {residency: [europe], apiKeys: [{id: k, sha256: "+strings.Repeat("ab", 32)+"}]}",
		"Quota secret-quota {tenant: secretive, model: spare, limits: [{kind: requests, perMinute: 1}]}")
	// Of an adapter, from before they were refused.
	d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Put{Put: &statepb.Put{
		Kind: "Quota", Name: "secret-older", Doc: []byte(`{"spec":{"limits":[{"kind":"requests","perMinute":1}],"model":"fine-tuned","tenant":"secretive"}}`),
	}}})
	return d
}

func TestWhatIsInTheWayIsNotNamedToThoseWhoMayNotKnowOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		token, method, path, body string
		headers                   []string
		status                    int
		code, told                string
	}{
		"a quota of another tenant is taken":     {"acme-operator", "PATCH", "/v1/quotas/secret-quota", `{"spec":{"tenant":"acme"}}`, []string{"If-Match: *"}, 403, "out_of_scope", ""},
		"deleted":                                {"acme-operator", "DELETE", "/v1/quotas/secret-quota", "", []string{"If-Match: *"}, 403, "out_of_scope", ""},
		"deleted in a dry run":                   {"acme-operator", "DELETE", "/v1/quotas/secret-quota?dry_run=true", "", []string{"If-Match: *"}, 403, "out_of_scope", ""},
		"rolled back":                            {"acme-operator", "POST", "/v1/quotas/secret-quota/rollback", `{"revision":5}`, []string{"If-Match: *"}, 403, "out_of_scope", ""},
		"its name is taken":                      {"acme-operator", "POST", "/v1/quotas", doc("Quota", "secret-quota", "{tenant: acme, limits: [{kind: requests, perMinute: 1}]}"), []string{yaml}, 403, "out_of_scope", ""},
		"put over":                               {"acme-operator", "PUT", "/v1/quotas/secret-quota", doc("Quota", "secret-quota", "{tenant: acme, limits: [{kind: requests, perMinute: 1}]}"), []string{yaml, "If-None-Match: *"}, 403, "out_of_scope", ""},
		"a key of another tenant":                {"acme-operator", "PATCH", "/v1/tenants/acme", `{"spec":{"apiKeys":[{"id":"k","sha256":"` + strings.Repeat("ab", 32) + `"}]}}`, []string{"If-Match: *"}, 422, "invalid", "spec.apiKeys[0].sha256"},
		"a name near another tenant's":           {"acme-operator", "POST", "/v1/quotas", doc("Quota", "q", "{tenant: secretives, limits: [{kind: requests, perMinute: 1}]}"), []string{yaml}, 422, "invalid", `there is no Tenant "secretives"`},
		"a zone that others must be served in":   {"acme-eu", "PATCH", "/v1/regions/eu", `{"spec":{"zone":"asia"}}`, []string{"If-Match: *"}, 422, "invalid", `tenant "acme"`},
		"an adapter that others have a quota of": {"acme-eu", "PATCH", "/v1/models/spare", `{"spec":{"adapters":[]}}`, []string{"If-Match: *"}, 422, "invalid", "spec.adapters"},
		"a model that others have a quota of":    {"acme-eu", "DELETE", "/v1/models/spare", "", []string{"If-Match: *"}, 409, "in_use", ""},
		"a drain that others suffer from":        {"acme-eu", "PATCH", "/v1/clusters/eu-1?dry_run=true", `{"spec":{"drained":true}}`, []string{"If-Match: *"}, 200, "", "tenants/acme"},
	} {
		t.Run(name, func(t *testing.T) {
			d := besides(t)
			a := d.do(c.token, c.method, c.path, c.body, c.headers...).want(c.status, c.code)
			text := strings.NewReplacer("secretives", "", "secret-quota", "").Replace(string(a.body))
			if !strings.Contains(c.path+c.body, "secret-quota") {
				text = strings.ReplaceAll(string(a.body), "secretives", "")
			}
			if strings.Contains(text, "secret") {
				t.Errorf("it tells of others: %s", a.body)
			}
			if !strings.Contains(strings.ReplaceAll(string(a.body), `\"`, `"`), c.told) {
				t.Errorf("it does not tell %s: %s", c.told, a.body)
			}
			// Who may see them is told.
			if c.status != 403 && name != "a name near another tenant's" {
				all := d.do("operator", c.method, c.path, c.body, c.headers...).want(c.status, c.code)
				if !strings.Contains(string(all.body), "secret") {
					t.Errorf("it does not tell who may know: %s", all.body)
				}
			}
		})
	}
}

func TestRefusalsOfOthersAreNotToldToATenantsToken(t *testing.T) {
	d := besides(t)
	d.do("operator", "DELETE", "/v1/models/spare", "", "If-Match: *").want(409, "in_use")
	d.do("operator", "PATCH", "/v1/tenants/acme", `{"spec":{"apiKeys":[{"id":"k","sha256":"`+strings.Repeat("ab", 32)+`"}]}}`, "If-Match: *").want(422, "invalid")
	for token, want := range map[string]bool{"acme-eu": false, "viewer": true} {
		a := d.do(token, "GET", "/v1/audit?action=refused", "").want(200, "")
		if got := strings.Contains(string(a.body), "secret"); got != want {
			t.Errorf("%s is told of others: %v: %s", token, got, a.body)
		}
	}
}
