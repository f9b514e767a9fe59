package rest

import (
	"fmt"
	"strings"
	"testing"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

const sizer = headerManager + ": sizer"

func patchOf(tier string) string { return fmt.Sprintf(`{"spec":{"tier":%q}}`, tier) }

func managersOf(a answer) string {
	a.t.Helper()
	var r policy.Resource
	a.into(&r)
	return fmt.Sprint(r.Metadata.Managers)
}

func TestAutomationGivesWayToPeople(t *testing.T) {
	d := newChronicler(t)
	d.seed("Region eu {}", "Tenant acme {tier: top}")
	const path = "/v1/tenants/acme"
	p := d.do("operator", "PATCH", path, patchOf("batch"), sizer, "If-Match: *").want(409, "field_owned").problem()
	if len(p.Errors) != 1 || p.Errors[0].Field != "spec.tier" || p.Errors[0].Reason != "was set by human" || !strings.Contains(p.Errors[0].Fix, "force=true") || p.Detail != "spec.tier was set by human." {
		t.Errorf("problem %+v", p)
	}
	d.do("operator", "PUT", path, doc("Tenant", "acme", "{}"), yaml, sizer, "If-Match: *").want(409, "field_owned")
	d.do("operator", "PATCH", path+"?dry_run=true", patchOf("batch"), sizer, "If-Match: *").want(409, "field_owned")
	d.do("operator", "DELETE", path, "", sizer, "If-Match: *").want(409, "field_owned")
	d.do("operator", "DELETE", path+"?dry_run=true&manager=sizer", "", "If-Match: *").want(409, "field_owned")

	added := d.do("operator", "PATCH", path+"?manager=sizer", `{"spec":{"residency":["eu"]}}`, "If-Match: *").want(200, "")
	const both = "[{human [spec.tier]} {sizer [spec.residency]}]"
	if got := managersOf(added); got != both {
		t.Errorf("managers %s", got)
	}
	whole := d.do("viewer", "GET", path, "").want(200, "")
	if managersOf(whole) != both || !strings.Contains(string(whole.body), `"updatedBy":"operator"`) {
		t.Errorf("GET answers %s", whole.body)
	}
	d.do("operator", "PUT", path, string(whole.body), sizer, "If-Match: *").want(200, "") // what was got may be put

	dry := d.do("operator", "PATCH", path+"?dry_run=true&force=true", patchOf("batch"), sizer, "If-Match: *").want(200, "")
	if !strings.Contains(string(dry.body), `"managers":[{"name":"sizer","fields":["spec.residency","spec.tier"]}]`) {
		t.Errorf("a forced dry run answers %s", dry.body)
	}
	forced := d.do("operator", "PATCH", path+"?force=true", patchOf("batch"), sizer, "If-Match: *", key("k")).want(200, "")
	if got := managersOf(forced); got != "[{sizer [spec.residency spec.tier]}]" {
		t.Errorf("managers %s", got)
	}
	sameAnswer(t, "the same again", forced, d.do("operator", "PATCH", path+"?force=true", patchOf("batch"), sizer, "If-Match: *", key("k")))
	d.do("operator", "PATCH", path+"?force=true", patchOf("batch"), "If-Match: *", key("k")).want(422, codeKeyReused) // a person's would be another write

	d.do("operator", "PATCH", path, patchOf("top"), headerManager+": human", "If-Match: *").want(200, "")
	d.do("operator", "PATCH", path, patchOf("batch"), sizer, "If-Match: *").want(409, "field_owned")
	newest := d.versions(path + "/history?limit=1")[0]
	if newest.Manager != "human" || d.versions(path + "/history?limit=2")[1].Manager != "sizer" {
		t.Errorf("the newest is %+v", newest)
	}
	d.do("operator", "DELETE", path+"?force=true", "", sizer, "If-Match: *").want(204, "")
}

func TestARollbackByAutomationIsJudgedToo(t *testing.T) {
	d := newChronicler(t)
	at := d.threeTiers("acme")
	d.do("operator", "POST", "/v1/tenants/acme/rollback", back(at[0]), sizer, "If-Match: *").want(409, "field_owned")
	a := d.do("operator", "POST", "/v1/tenants/acme/rollback?force=true", back(at[0]), sizer, "If-Match: *").want(200, "")
	if got := managersOf(a); got != "[{sizer [spec.tier]}]" {
		t.Errorf("managers %s", got)
	}
}

// The state judges again: what another node has changed meanwhile counts.
func TestAFieldTakenMeanwhileIsNotChanged(t *testing.T) {
	d := newChronicler(t)
	d.do("operator", "POST", "/v1/tenants", doc("Tenant", "acme", "{tier: top}"), yaml, sizer).want(201, "")
	d.before = func(d *double, cmd *statepb.Command) {
		cmd.GetPut().IfRevision, cmd.GetPut().AnyRevision = 0, true // or the revision would say it first
		d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Put{Put: &statepb.Put{
			Kind: "Tenant", Name: "acme", Doc: []byte(`{"spec":{"tier":"standard"}}`), AnyRevision: true,
		}}})
	}
	p := d.do("operator", "PATCH", "/v1/tenants/acme", patchOf("batch"), sizer, "If-Match: *").want(409, "field_owned").problem()
	if len(p.Errors) != 1 || p.Errors[0].Field != "spec.tier" || p.Detail != "spec.tier was set by human." {
		t.Errorf("problem %+v", p)
	}
}

func TestNamesOfManagersInRequests(t *testing.T) {
	d := newChronicler(t)
	acme := doc("Tenant", "acme", "{}")
	for _, bad := range []string{"?manager=Two+Words", "?manager=" + strings.Repeat("x", 200)} {
		d.do("operator", "POST", "/v1/tenants"+bad, acme, yaml).want(400, "invalid_request")
	}
	d.do("operator", "POST", "/v1/tenants?manager=mover", acme, yaml, sizer).want(400, "invalid_request")
	d.do("operator", "POST", "/v1/tenants?force=true", acme, yaml).want(400, "invalid_request")
	d.do("operator", "POST", "/v1/tenants?manager=sizer", acme, yaml, sizer).want(201, "")
	d.do("operator", "DELETE", "/v1/tenants/acme?force=perhaps", "", "If-Match: *").want(400, "invalid_request")
}

func TestDuringAnUpgradeAllFieldsArePeoples(t *testing.T) {
	d := newKeeper(t)
	d.seed("Tenant acme {tier: top}")
	a := d.do("operator", "PATCH", "/v1/tenants/acme?dry_run=true", patchOf("batch"), sizer, "If-Match: *").want(200, "")
	if strings.Contains(string(a.body), "managers") {
		t.Errorf("answered %s", a.body)
	}
}
