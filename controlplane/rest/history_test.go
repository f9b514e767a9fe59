package rest

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// newChronicler starts a node of a cluster that keeps the history of resources.
func newChronicler(t *testing.T, change ...func(*Options)) *double {
	t.Helper()
	d := newDouble(t, change...)
	d.apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	return d
}

// tag is the If-Match of a tenant as it is.
func (d *double) tag(name string) string {
	r, _ := d.current().Get(policy.KindTenant, name)
	return "If-Match: " + etag(r.Metadata.Revision)
}

// threeTiers makes a tenant of three revisions, and gives their numbers, oldest first.
func (d *double) threeTiers(name string) (revisions [3]uint64) {
	d.t.Helper()
	for i, tier := range []string{"top", "batch", "standard"} {
		when := "If-None-Match: *"
		if i > 0 {
			when = d.tag(name)
		}
		d.do([]string{"operator", "admin"}[i%2], "PUT", "/v1/tenants/"+name, doc("Tenant", name, "{tier: "+tier+"}"), yaml, when, "X-Anabranch-Reason: "+tier, "X-Request-Id: r-"+tier)
		revisions[i] = d.current().Index()
	}
	return revisions
}

func (d *double) versions(path string) (all []Version) {
	d.t.Helper()
	for next := ""; ; {
		var page List[Version]
		d.do("viewer", "GET", path+next, "").want(200, "").into(&page)
		all = append(all, page.Items...)
		if page.NextCursor == "" {
			return all
		}
		next = "&cursor=" + page.NextCursor
	}
}

func TestHistoryTellsWhoChangedWhatAndWhy(t *testing.T) {
	d := newChronicler(t)
	at := d.threeTiers("acme")
	d.do("operator", "DELETE", "/v1/tenants/acme", "", d.tag("acme"), "X-Anabranch-Reason: gone").want(204, "")
	var got []string
	for _, v := range d.versions("/v1/tenants/acme/history?diff=true&limit=3") {
		got = append(got, fmt.Sprintf("%d %s %s %s %s %s", v.Revision, v.Action, v.Author, v.Role, v.Manager, v.Reason))
		for _, c := range v.Diff {
			got = append(got, fmt.Sprintf("%s: %s → %s", c.Field, c.From, c.To))
		}
		if !v.At.Equal(epoch) || v.RequestID == "" {
			t.Errorf("revision %d at %s by %q", v.Revision, v.At, v.RequestID)
		}
	}
	want := []string{
		fmt.Sprintf("%d delete operator operator human gone", at[2]+1), `spec: {"tier":"standard"} → `,
		fmt.Sprintf("%d update operator operator human standard", at[2]), `spec.tier: "batch" → "standard"`,
		fmt.Sprintf("%d update admin admin human batch", at[1]), `spec.tier: "top" → "batch"`,
		fmt.Sprintf("%d create operator operator human top", at[0]), `spec:  → {"tier":"top"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("history:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if all := d.versions("/v1/tenants/acme/history?limit=4"); len(all) != 4 || all[0].Diff != nil {
		t.Errorf("%d without differences: %+v", len(all), all[0])
	}
	d.do("viewer", "GET", "/v1/tenants/nobody/history", "").want(404, "not_found")
	d.do("viewer", "GET", "/v1/tenants/acme/history?diff=yes", "").want(400, "invalid_request")
	d.do("viewer", "GET", "/v1/tenants/acme/history?limit=0", "").want(400, "invalid_request")
	d.do("viewer", "GET", "/v1/tenants/acme/history?cursor=x", "").want(400, "invalid_request")
	d.do("viewer", "GET", "/v1/tenants/acme/history?consistency=maybe", "").want(400, "invalid_request")
}

func TestARevisionIsReadAsItWas(t *testing.T) {
	d := newChronicler(t)
	at := d.threeTiers("acme")
	was := d.do("viewer", "GET", fmt.Sprintf("/v1/tenants/acme/history/%d", at[1]), "").want(200, "")
	var r policy.Resource
	was.into(&r)
	if was.spec() != `{"tier":"batch"}` || r.Metadata.Revision != at[1] || r.Metadata.UpdatedBy != "admin" || was.header.Get("ETag") != etag(at[1]) {
		t.Errorf("got %v %s", was.header, was.body)
	}
	d.do("operator", "DELETE", "/v1/tenants/acme", "", d.tag("acme")).want(204, "")
	d.do("viewer", "GET", fmt.Sprintf("/v1/tenants/acme/history/%d", at[0]), "").want(200, "")
	for revision, want := range map[string]string{
		"1":                          fmt.Sprintf("the oldest is %d", at[0]),
		fmt.Sprint(at[2] + 1):        fmt.Sprintf("the one before it is %d", at[2]),
		"99":                         "no revision 99",
		"18446744073709551615":       "no revision",
		fmt.Sprint(at[0]) + "?diff=": "",
	} {
		a := d.do("viewer", "GET", "/v1/tenants/acme/history/"+revision, "")
		if want != "" && (a.status != 404 || !strings.Contains(a.problem().Detail, want)) {
			t.Errorf("revision %s: %d %s", revision, a.status, a.body)
		}
	}
	d.do("viewer", "GET", "/v1/tenants/acme/history/first", "").want(400, "invalid_request")
	d.do("viewer", "GET", "/v1/tenants/acme/history/0", "").want(400, "invalid_request")
}

func TestDifferencesBetweenRevisions(t *testing.T) {
	d := newChronicler(t)
	at := d.threeTiers("acme")
	for query, want := range map[string]string{
		"":                                       fmt.Sprintf(`%d-%d: "batch" → "standard"`, at[1], at[2]),
		fmt.Sprintf("from=%d", at[0]):            fmt.Sprintf(`%d-%d: "top" → "standard"`, at[0], at[2]),
		fmt.Sprintf("from=%d&to=current", at[0]): fmt.Sprintf(`%d-%d: "top" → "standard"`, at[0], at[2]),
		fmt.Sprintf("to=%d", at[1]):              fmt.Sprintf(`%d-%d: "top" → "batch"`, at[0], at[1]),
		fmt.Sprintf("from=%d&to=%d", at[1], at[0]):                   fmt.Sprintf(`%d-%d: "batch" → "top"`, at[1], at[0]),
		fmt.Sprintf("from=%d&to=%d&consistency=stale", at[0], at[0]): fmt.Sprintf("%d-%d", at[0], at[0]),
	} {
		var diff ResourceDiff
		d.do("viewer", "GET", "/v1/tenants/acme/diff?"+query, "").want(200, "").into(&diff)
		got := fmt.Sprintf("%d-%d", diff.From, diff.To)
		for _, c := range diff.Diff {
			got += fmt.Sprintf(": %s → %s", c.From, c.To)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for query, status := range map[string]int{"from=0": 400, "to=now": 400, "from=current": 400, "from=1": 404, "to=99": 404, fmt.Sprintf("to=%d", at[0]): 404} {
		if a := d.do("viewer", "GET", "/v1/tenants/acme/diff?"+query, ""); a.status != status {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
}

func back(revision uint64) string { return fmt.Sprintf(`{"revision":%d}`, revision) }

func TestARollbackIsANewRevisionWithTheOldContent(t *testing.T) {
	d := newChronicler(t)
	at := d.threeTiers("acme")
	const path = "/v1/tenants/acme/rollback"
	d.do("operator", "POST", path, back(at[0])).want(428, "precondition_required")
	d.do("operator", "POST", path, back(at[0]), `If-Match: "1"`).want(412, "precondition")
	d.do("operator", "POST", path, back(at[0]), "If-None-Match: *").want(412, "precondition")
	d.do("viewer", "POST", path, back(at[0]), d.tag("acme")).want(403, "forbidden")
	before := d.current().ResourcesRevision()
	dry := d.do("operator", "POST", path+"?dry_run=true", back(at[0]), d.tag("acme")).want(200, "")
	if !strings.Contains(string(dry.body), `"from":"standard","to":"top"`) {
		t.Errorf("a dry run answers %s", dry.body)
	}
	if d.current().ResourcesRevision() != before {
		t.Error("a dry run changed something")
	}
	done := d.do("operator", "POST", path, back(at[0]), d.tag("acme"), "X-Anabranch-Reason: too slow", key("k")).want(200, "")
	if done.spec() != `{"tier":"top"}` || done.header.Get("ETag") != etag(d.current().Index()) {
		t.Errorf("answered %v %s", done.header, done.body)
	}
	sameAnswer(t, "the same again", done, d.do("operator", "POST", path, back(at[0]), `If-Match: `+etag(at[2]), key("k")))
	newest := d.versions("/v1/tenants/acme/history?limit=1")[0]
	if newest.Action != "rollback" || newest.RollbackTo != at[0] || newest.Reason != "too slow" {
		t.Errorf("the newest is %+v", newest)
	}
	if n := len(d.versions("/v1/tenants/acme/history?limit=9")); n != 4 {
		t.Errorf("%d revisions", n)
	}
	d.do("operator", "POST", path, back(at[0]), d.tag("acme")).want(200, "") // as it is already
	for body, want := range map[string]struct {
		status int
		code   string
	}{
		back(7777): {404, "not_found"}, "{}": {422, "invalid"}, "": {422, "invalid"}, "[": {400, "malformed"}, `{"revision":1,"x":2}`: {400, "malformed"}, `{"revision":-1}`: {400, "malformed"},
	} {
		d.do("operator", "POST", path, body, d.tag("acme")).want(want.status, want.code)
	}
	d.do("operator", "POST", path, back(at[0]), d.tag("acme"), yaml).want(415, "unsupported_media_type")
	d.do("operator", "POST", path, back(at[0]), d.tag("acme"), "X-Anabranch-Reason: "+strings.Repeat("x", 600)).want(400, "invalid_request")
}

func TestADeletedResourceComesBack(t *testing.T) {
	d := newChronicler(t)
	at := d.threeTiers("acme")
	d.do("operator", "DELETE", "/v1/tenants/acme", "", d.tag("acme")).want(204, "")
	deleted := d.current().Index()
	const path = "/v1/tenants/acme/rollback"
	d.do("operator", "POST", path, back(at[0]), "If-Match: *").want(428, "precondition_required")
	if p := d.do("operator", "POST", path, back(deleted), "If-None-Match: *").want(404, "not_found").problem(); !strings.Contains(p.Detail, "deleted") {
		t.Errorf("to its deletion: %s", p.Detail)
	}
	made := d.do("operator", "POST", path, back(at[1]), "If-None-Match: *").want(201, "")
	if made.header.Get("Location") != "/v1/tenants/acme" || made.spec() != `{"tier":"batch"}` {
		t.Errorf("answered %v %s", made.header, made.body)
	}
	d.do("operator", "POST", "/v1/tenants/nobody/rollback", back(at[1]), "If-None-Match: *").want(404, "not_found")
}

func TestARollbackToWhatIsNotValidAnyMoreIsRefused(t *testing.T) {
	d := newChronicler(t)
	d.seed("Region us {}", "Region eu {}", "Tenant acme {residency: [us]}")
	at := d.current().Index()
	d.do("operator", "PUT", "/v1/tenants/acme", doc("Tenant", "acme", "{residency: [eu]}"), yaml, d.tag("acme")).want(200, "")
	d.do("operator", "DELETE", "/v1/regions/us", "", "If-Match: *").want(204, "")
	for _, query := range []string{"", "?dry_run=true"} {
		p := d.do("operator", "POST", "/v1/tenants/acme/rollback"+query, back(at), d.tag("acme")).want(422, "invalid").problem()
		if len(p.Errors) != 1 || p.Errors[0].Field != "spec.residency[0]" || p.Errors[0].Fix == "" ||
			!strings.Contains(p.Detail, fmt.Sprintf(`Revision %d is not valid any more: spec.residency[0] there is no zone or region "us"`, at)) {
			t.Errorf("problem %+v", p)
		}
	}
	if got := d.do("viewer", "GET", "/v1/tenants/acme", "").spec(); got != `{"residency":["eu"]}` {
		t.Errorf("it is %s", got)
	}
}

func TestBeforeTheUpgradeIsDoneThereIsNoHistory(t *testing.T) {
	d := newKeeper(t)
	d.seed("Tenant acme {}")
	if p := d.do("viewer", "GET", "/v1/tenants/acme/history", "").want(404, "not_found").problem(); !strings.Contains(p.Detail, "upgraded") {
		t.Errorf("says %s", p.Detail)
	}
	d.do("viewer", "GET", "/v1/tenants/acme/history/2", "").want(404, "not_found")
	d.do("viewer", "GET", "/v1/tenants/acme/diff", "").want(404, "not_found")
	d.do("operator", "POST", "/v1/tenants/acme/rollback", back(2), "If-Match: *").want(404, "not_found")
	if got := string(d.do("viewer", "GET", "/v1/tenants/acme", "").body); strings.Contains(got, "updatedBy") {
		t.Errorf("got %s", got)
	}
	d.apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	if all := d.versions("/v1/tenants/acme/history?diff=true"); len(all) != 1 || all[0].Action != "known" || all[0].Author != "" || all[0].Diff != nil {
		t.Errorf("after it: %+v", all)
	}
}

func TestEveryKindHasAHistory(t *testing.T) {
	d := newChronicler(t)
	d.seed("Region us {}", "Model meta/llama {}", "Cluster c {region: us, models: [meta/llama], endpoints: [{id: e, url: 'http://e', class: x}]}", "Tenant acme {}",
		"TrafficPolicy p {}", "Quota q {tenant: acme, limits: [{kind: requests, perMinute: 5}]}", "RateCard r {gpus: [{class: x, region: us, usdPerHour: 1}]}")
	d.do("admin", "POST", "/v1/safetyrules", doc("SafetyRule", "s", "{changeLimit: {maxMovedShare: 0.25}}"), yaml).want(201, "")
	for path, kind := range map[string]policy.Kind{
		"regions/us": policy.KindRegion, "models/" + url.PathEscape("meta/llama"): policy.KindModel, "clusters/c": policy.KindCluster, "tenants/acme": policy.KindTenant,
		"policies/p": policy.KindTrafficPolicy, "quotas/q": policy.KindQuota, "ratecards/r": policy.KindRateCard,
		"safetyrules/s": policy.KindSafetyRule,
	} {
		all := d.versions("/v1/" + path + "/history?limit=5")
		if len(all) != 1 {
			t.Fatalf("%s has %d revisions", kind, len(all))
		}
		var r policy.Resource
		d.do("viewer", "GET", fmt.Sprintf("/v1/%s/history/%d", path, all[0].Revision), "").want(200, "").into(&r)
		if r.Kind != kind {
			t.Errorf("%s is of kind %s", path, r.Kind)
		}
		d.do("operator", "POST", "/v1/"+path+"/rollback", back(all[0].Revision), "If-Match: *").want(200, "")
	}
	d.do("viewer", "POST", "/v1/models/"+url.PathEscape("meta/llama")+"/rollback", back(2), "If-Match: *").want(403, "forbidden")
	entries := d.current().Audit(0, 0)
	if e := entries[len(entries)-1]; e.GetKind() != "Model" || e.GetName() != "meta/llama" {
		t.Errorf("the refusal is audited as %v", e)
	}
}

func TestAScopeShowsOnlyItsTenantsPast(t *testing.T) {
	d := bare(t)
	init := &statepb.Init{ClusterId: "c-1"}
	for name, scope := range map[string]*statepb.TokenScope{"operator": nil, "viewer": nil, "acme": {Tenants: []string{"acme"}}} {
		sum := sha256.Sum256([]byte("secret-" + name))
		init.Tokens = append(init.Tokens, &statepb.Token{Name: name, Role: "operator", Sha256: sum[:], Scope: scope})
	}
	d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Init{Init: init}})
	d.apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	d.seed("Tenant acme {tier: top}", "Tenant globex {}", "Quota q {tenant: globex, limits: [{kind: requests, perMinute: 5}]}", "Quota r {tenant: globex, limits: [{kind: requests, perMinute: 5}]}")
	put := func(tenant string, rate int) uint64 {
		t.Helper()
		d.do("operator", "PUT", "/v1/quotas/q", doc("Quota", "q", fmt.Sprintf("{tenant: %s, limits: [{kind: requests, perMinute: %d}]}", tenant, rate)), yaml, "If-Match: *").want(200, "")
		return d.current().Index()
	}
	mine := put("acme", 6)
	theirs := put("globex", 7)
	again := put("acme", 8)
	var page List[Version]
	d.do("acme", "GET", "/v1/quotas/q/history", "").want(200, "").into(&page)
	if len(page.Items) != 2 || page.Items[0].Revision != again || page.Items[1].Revision != mine {
		t.Errorf("shown: %+v", page.Items)
	}
	d.do("acme", "GET", fmt.Sprintf("/v1/quotas/q/history/%d", theirs), "").want(404, "not_found")
	d.do("acme", "GET", fmt.Sprintf("/v1/quotas/q/diff?from=%d", theirs), "").want(404, "not_found")
	d.do("acme", "POST", "/v1/quotas/q/rollback", back(theirs), "If-Match: *").want(404, "not_found")
	d.do("acme", "POST", "/v1/quotas/q/rollback", back(mine), "If-Match: *").want(200, "")
	for _, path := range []string{"/v1/quotas/r", "/v1/tenants/globex"} {
		d.do("acme", "GET", path+"/history", "").want(404, "not_found")
		d.do("acme", "GET", path+"/diff", "").want(404, "not_found")
		if a := d.do("acme", "POST", path+"/rollback", back(mine), "If-Match: *"); a.status != 403 {
			t.Errorf("rollback of %s: %d %s", path, a.status, a.body)
		}
	}
	d.do("operator", "DELETE", "/v1/quotas/q", "", "If-Match: *").want(204, "")
	d.do("acme", "GET", "/v1/quotas/q/history", "").want(200, "").into(&page)
	if page.Items[0].Action != "delete" {
		t.Errorf("its deletion is not shown: %+v", page.Items)
	}
	d.do("acme", "GET", fmt.Sprintf("/v1/quotas/q/history/%d", page.Items[0].Revision), "").want(404, "not_found")
}
