package rest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

func TestLifeOfAResource(t *testing.T) {
	d := newDouble(t)
	created := d.do("operator", "POST", "/v1/tenants", doc("Tenant", "acme", "{tier: top, residency: []}"), yaml, "X-Anabranch-Reason: contract").want(201, "")
	if created.header.Get("Location") != "/v1/tenants/acme" || created.header.Get("ETag") != `"2"` {
		t.Errorf("headers %v", created.header)
	}
	got := d.do("viewer", "GET", "/v1/tenants/acme", "").want(200, "")
	if string(got.body) != string(created.body) || got.spec() != `{"residency":[],"tier":"top"}` {
		t.Errorf("GET %s after POST %s", got.body, created.body)
	}
	var r policy.Resource
	got.into(&r)
	if r.Metadata.Revision != 2 || !r.Metadata.CreatedAt.Equal(epoch) || r.APIVersion != "anabranch/v1" || r.Kind != "Tenant" {
		t.Errorf("got %+v", r)
	}

	d.do("operator", "POST", "/v1/tenants", doc("Tenant", "acme", "{}"), yaml).want(409, "exists")
	d.do("operator", "PUT", "/v1/tenants/acme", doc("Tenant", "acme", "{}"), yaml).want(428, "precondition_required")
	d.do("operator", "PUT", "/v1/tenants/acme", doc("Tenant", "acme", "{}"), yaml, `If-Match: "1"`).want(412, "precondition")
	replaced := d.do("operator", "PUT", "/v1/tenants/acme", doc("Tenant", "acme", "{}"), yaml, `If-Match: "2"`).want(200, "")
	if replaced.header.Get("ETag") == `"2"` || replaced.spec() != "{}" {
		t.Errorf("PUT answered %v %s", replaced.header, replaced.body)
	}
	if got := d.do("viewer", "GET", "/v1/tenants/acme", ""); string(got.body) != string(replaced.body) {
		t.Errorf("GET %s after PUT %s", got.body, replaced.body)
	}

	tag := "If-Match: " + replaced.header.Get("ETag")
	patched := d.do("operator", "PATCH", "/v1/tenants/acme", `{"spec":{"tier":"batch"},"metadata":{"labels":{"a":"b"}}}`, "Content-Type: application/merge-patch+json", tag).want(200, "")
	if patched.spec() != `{"tier":"batch"}` || !strings.Contains(string(patched.body), `"labels":{"a":"b"}`) {
		t.Errorf("PATCH answered %s", patched.body)
	}
	d.do("operator", "PATCH", "/v1/tenants/acme", `{}`, tag).want(412, "precondition")

	d.do("operator", "DELETE", "/v1/tenants/acme", "").want(428, "precondition_required")
	d.do("operator", "DELETE", "/v1/tenants/acme", "", tag).want(412, "precondition")
	gone := d.do("operator", "DELETE", "/v1/tenants/acme", "", "If-Match: "+patched.header.Get("ETag")).want(204, "")
	if len(gone.body) != 0 {
		t.Errorf("204 with %q", gone.body)
	}
	d.do("viewer", "GET", "/v1/tenants/acme", "").want(404, "not_found")
	d.do("operator", "DELETE", "/v1/tenants/acme", "", `If-Match: "9"`).want(404, "not_found")

	var trail []string
	for _, e := range d.current().Audit(1, 0) {
		trail = append(trail, fmt.Sprintf("%s by %s: %s", e.GetAction(), e.GetActor(), e.GetReason()))
	}
	if want := []string{"create by operator: contract", "update by operator: ", "update by operator: ", "delete by operator: "}; !slices.Equal(trail, want) {
		t.Errorf("audit %q", trail)
	}
}

func TestPUTCreatesAndRepeatsHarmlessly(t *testing.T) {
	d := newDouble(t)
	body := doc("Tenant", "acme", "{tier: top}")
	created := d.do("admin", "PUT", "/v1/tenants/acme", body, yaml, "If-None-Match: *").want(201, "")
	if created.header.Get("Location") != "/v1/tenants/acme" {
		t.Error("no Location")
	}
	d.do("admin", "PUT", "/v1/tenants/acme", body, yaml, "If-None-Match: *").want(412, "precondition")
	again := d.do("admin", "PUT", "/v1/tenants/acme", body, yaml, "If-Match: "+created.header.Get("ETag")).want(200, "")
	if again.header.Get("ETag") != created.header.Get("ETag") || string(again.body) != string(created.body) {
		t.Errorf("the same again gives %v %s", again.header, again.body)
	}
	if n := len(d.current().Audit(1, 0)); n != 1 {
		t.Errorf("%d audit entries", n)
	}
	d.do("admin", "PUT", "/v1/tenants/other", doc("Tenant", "other", "{}"), yaml, `If-Match: "2"`).want(404, "not_found")
}

func TestWhatIsPUTIsWhatIsGot(t *testing.T) {
	d := newDouble(t)
	d.seed("Region us {}", "Model m {}")
	body := `{"apiVersion":"anabranch/v1","kind":"TrafficPolicy","metadata":{"name":"p","labels":{"z":"1","a":"2"}},
		"spec":{"regions":[{"region":"us","weight":0,"maxShare":1}],"models":["m"],"costPreference":0,"spill":"allowed","failover":{}}}`
	d.do("operator", "PUT", "/v1/policies/p", body, "If-None-Match: *").want(201, "")
	var sent, got map[string]any
	if err := json.Unmarshal([]byte(body), &sent); err != nil {
		t.Fatal(err)
	}
	d.do("viewer", "GET", "/v1/policies/p", "").into(&got)
	if fmt.Sprint(got["spec"]) != fmt.Sprint(sent["spec"]) {
		t.Errorf("got %v, sent %v", got["spec"], sent["spec"])
	}
	if fmt.Sprint(got["metadata"].(map[string]any)["labels"]) != fmt.Sprint(sent["metadata"].(map[string]any)["labels"]) {
		t.Errorf("labels %v", got["metadata"])
	}
	// What was got can be put as it is.
	whole := d.do("viewer", "GET", "/v1/policies/p", "")
	d.do("operator", "PUT", "/v1/policies/p", string(whole.body), "If-Match: "+whole.header.Get("ETag"), "Content-Type: application/json").want(200, "")
}

func TestListsKeepTheirOrder(t *testing.T) {
	d := newDouble(t)
	d.seed("Model z {}", "Model a {}", "Region us {}")
	d.seed("Cluster c {region: us, models: [z, a], endpoints: [{id: q, url: 'http://q', class: x}, {id: b, url: 'http://b', class: x}]}")
	spec := d.do("viewer", "GET", "/v1/clusters/c", "").spec()
	if !strings.Contains(spec, `"models":["z","a"]`) || strings.Index(spec, `"q"`) > strings.Index(spec, `"b"`) {
		t.Errorf("got %s", spec)
	}
}

func TestModelsWithSlashes(t *testing.T) {
	d := newDouble(t)
	const name = "meta-llama/Llama-3.1-8B"
	made := d.do("operator", "POST", "/v1/models", doc("Model", name, "{}"), yaml).want(201, "")
	if got := made.header.Get("Location"); got != "/v1/models/"+url.PathEscape(name) {
		t.Fatalf("Location %s", got)
	}
	var r policy.Resource
	d.do("viewer", "GET", made.header.Get("Location"), "").want(200, "").into(&r)
	if r.Metadata.Name != name {
		t.Errorf("got %s", r.Metadata.Name)
	}
	d.do("operator", "DELETE", made.header.Get("Location"), "", "If-Match: *").want(204, "")
	d.do("viewer", "GET", "/v1/models/100%2525", "").want(404, "not_found")
}

func TestPagesCoverTheListWhateverChangesBetween(t *testing.T) {
	d := newDouble(t)
	for i := range 7 {
		d.seed(fmt.Sprintf("Tenant t%d {}", i))
	}
	var names []string
	next := ""
	for page := 0; ; page++ {
		var list List[policy.Resource]
		a := d.do("viewer", "GET", "/v1/tenants?limit=3&cursor="+next, "").want(200, "")
		a.into(&list)
		for _, r := range list.Items {
			names = append(names, r.Metadata.Name)
		}
		if page == 0 { // one that was listed goes, one that was not yet comes
			d.do("operator", "DELETE", "/v1/tenants/t2", "", "If-Match: *").want(204, "")
			d.seed("Tenant t2a {}")
		}
		if next = list.NextCursor; next == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "t0 t1 t2 t2a t3 t4 t5 t6" {
		t.Errorf("got %s", got)
	}
	empty := d.do("viewer", "GET", "/v1/quotas", "").want(200, "")
	if string(empty.body) != "{\"items\":[],\"nextCursor\":\"\"}\n" {
		t.Errorf("an empty list is %s", empty.body)
	}
	for _, bad := range []string{"limit=0", "limit=1001", "limit=x", "cursor=%21", "cursor=e30", "consistency=eventual", "watch=1"} {
		d.do("viewer", "GET", "/v1/tenants?"+bad, "").want(400, "invalid_request")
	}
}

func TestWrongDocumentsNameThePlaceAndChangeNothing(t *testing.T) {
	d := newDouble(t)
	d.seed("Region us {}", "Tenant acme {}", "Quota q {tenant: acme, limits: [{kind: requests, perMinute: 1}]}")
	index, etag := d.current().Index(), d.do("viewer", "GET", "/v1/tenants/acme", "").header.Get("ETag")
	tests := []struct {
		name, method, path, body string
		status                   int
		code, field              string
		headers                  []string
	}{
		{"bad YAML", "POST", "/v1/tenants", "kind: [", 400, "malformed", "", []string{yaml}},
		{"bad JSON", "POST", "/v1/tenants", `{"kind":}`, 400, "malformed", "", nil},
		{"empty", "POST", "/v1/tenants", "", 400, "malformed", "", nil},
		{"unknown field", "POST", "/v1/tenants", doc("Tenant", "x", "{teir: top}"), 422, "invalid", "spec.teir", nil},
		{"unknown kind", "POST", "/v1/tenants", doc("Tennant", "x", "{}"), 422, "invalid", "kind", nil},
		{"another kind", "POST", "/v1/tenants", doc("Region", "x", "{}"), 422, "invalid", "kind", nil},
		{"another name", "PUT", "/v1/tenants/acme", doc("Tenant", "x", "{}"), 422, "invalid", "metadata.name", []string{"If-Match: " + etag}},
		{"negative weight", "POST", "/v1/policies", doc("TrafficPolicy", "x", "{regions: [{region: us, weight: -1}]}"), 422, "invalid", "spec.regions[0].weight", nil},
		{"policy for a missing region", "POST", "/v1/policies", doc("TrafficPolicy", "x", "{regions: [{region: mars}]}"), 422, "invalid", "spec.regions[0].region", nil},
		{"patch with a wrong type", "PATCH", "/v1/tenants/acme", `{"spec":{"tier":7}}`, 422, "invalid", "spec.tier", []string{"If-Match: " + etag}},
		{"patch that is no object", "PATCH", "/v1/tenants/acme", `[]`, 400, "malformed", "", []string{"If-Match: " + etag}},
		{"still referred to", "DELETE", "/v1/tenants/acme", "", 409, "in_use", "metadata.name", []string{"If-Match: " + etag}},
		{"both preconditions", "PUT", "/v1/tenants/acme", "", 400, "invalid_request", "", []string{"If-Match: " + etag, "If-None-Match: *"}},
		{"an ETag of another kind", "PUT", "/v1/tenants/acme", "", 400, "invalid_request", "", []string{`If-Match: W/"abc"`}},
		{"an If-None-Match that is no star", "PUT", "/v1/tenants/acme", "", 400, "invalid_request", "", []string{`If-None-Match: "3"`}},
		{"PATCH creating", "PATCH", "/v1/tenants/x", "{}", 400, "invalid_request", "", []string{"If-None-Match: *"}},
		{"too large", "POST", "/v1/tenants", strings.Repeat("#", MaxBody+1), 413, "too_large", "", nil},
		{"XML", "POST", "/v1/tenants", "<x/>", 415, "unsupported_media_type", "", []string{"Content-Type: text/xml"}},
		{"a reason too long", "POST", "/v1/tenants", doc("Tenant", "x", "{}"), 400, "invalid_request", "", []string{"X-Anabranch-Reason: " + strings.Repeat("x", 513)}},
		{"dry_run=maybe", "POST", "/v1/tenants?dry_run=maybe", doc("Tenant", "x", "{}"), 400, "invalid_request", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d.t = t
			a := d.do("operator", tt.method, tt.path, tt.body, tt.headers...).want(tt.status, tt.code)
			p := a.problem()
			if tt.field != "" && (len(p.Errors) == 0 || p.Errors[0].Field != tt.field || p.Errors[0].Reason == "" || p.Errors[0].Fix == "") {
				t.Errorf("errors %+v, want the field %s", p.Errors, tt.field)
			}
			if p.Detail == "" {
				t.Error("no detail")
			}
		})
	}
	if d.current().Index() != index {
		t.Error("something changed")
	}
}

func TestAllProblemsAreToldAtOnce(t *testing.T) {
	d := newDouble(t)
	a := d.do("operator", "POST", "/v1/quotas", doc("Quota", "Q", "{tenant: x, limits: [{kind: y, perMinute: -1}], colour: 1}"), yaml).want(422, "invalid")
	var fields []string
	for _, e := range a.problem().Errors {
		fields = append(fields, e.Field)
	}
	if want := []string{"spec.colour", "metadata.name", "spec.limits[0].kind", "spec.limits[0].perMinute", "spec.tenant"}; !slices.Equal(fields, want) {
		t.Errorf("got %q, want %q", fields, want)
	}
}

func TestDryRunTellsTheDifferenceAndChangesNothing(t *testing.T) {
	d := newDouble(t)
	d.seed("Tenant acme {tier: top}")
	index := d.current().Index()
	tag := "If-Match: " + d.do("viewer", "GET", "/v1/tenants/acme", "").header.Get("ETag")
	type dry struct {
		Resource *policy.Resource `json:"resource"`
		Diff     []struct {
			Field    string
			From, To json.RawMessage
		} `json:"diff"`
	}
	tests := []struct {
		name, method, path, body string
		headers                  []string
		tier, diff               string
	}{
		{"create", "POST", "/v1/tenants?dry_run=true", doc("Tenant", "new", "{tier: batch}"), nil, "batch", `spec:→{"tier":"batch"}`},
		{"replace", "PUT", "/v1/tenants/acme?dry_run=true", doc("Tenant", "acme", "{tier: batch}"), []string{tag}, "batch", `spec.tier:"top"→"batch"`},
		{"patch", "PATCH", "/v1/tenants/acme?dry_run=true", `{"spec":{"tier":null}}`, []string{tag}, "standard", `spec.tier:"top"→`},
		{"nothing", "PUT", "/v1/tenants/acme?dry_run=true", doc("Tenant", "acme", "{tier: top}"), []string{tag}, "top", ``},
		{"delete", "DELETE", "/v1/tenants/acme?dry_run=true", "", []string{tag}, "", `spec:{"tier":"top"}→`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d.t = t
			var got dry
			d.do("operator", tt.method, tt.path, tt.body, tt.headers...).want(200, "").into(&got)
			var diff []string
			for _, c := range got.Diff {
				diff = append(diff, fmt.Sprintf("%s:%s→%s", c.Field, c.From, c.To))
			}
			if strings.Join(diff, " ") != tt.diff || got.Diff == nil {
				t.Errorf("diff %q, want %q", diff, tt.diff)
			}
			if tt.tier == "" {
				if got.Resource != nil {
					t.Errorf("resource %v", got.Resource)
				}
			} else if got.Resource.Spec.(*policy.TenantSpec).Tier != tt.tier {
				t.Errorf("resource %+v", got.Resource.Spec)
			}
		})
	}
	d.do("operator", "PUT", "/v1/tenants/acme?dry_run=true", doc("Tenant", "acme", "{}"), `If-Match: "1"`).want(412, "precondition")
	d.do("operator", "POST", "/v1/tenants?dry_run=true", doc("Tenant", "acme", "{}")).want(409, "exists")
	d.do("operator", "POST", "/v1/tenants?dry_run=true", doc("Tenant", "b", "{tier: gold}")).want(422, "invalid")
	if d.current().Index() != index || d.propose != 1 {
		t.Errorf("index %d, %d proposals", d.current().Index(), d.propose)
	}
}

// Somebody else is quicker between reading and committing: the state judges, not this node.
func TestARaceIsLost(t *testing.T) {
	put := func(d *double, kind, name, spec string) {
		d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Put{Put: &statepb.Put{Kind: kind, Name: name, Doc: []byte(`{"spec":` + spec + `}`), AnyRevision: true}}})
	}
	tests := []struct {
		name, method, path, body string
		header                   string
		other                    func(*double)
		status                   int
		code                     string
	}{
		{"POST of what now exists", "POST", "/v1/tenants", doc("Tenant", "new", "{}"), yaml, func(d *double) { put(d, "Tenant", "new", "{}") }, 409, "exists"},
		{"PUT of what now exists", "PUT", "/v1/tenants/new", doc("Tenant", "new", "{}"), "If-None-Match: *", func(d *double) { put(d, "Tenant", "new", "{}") }, 412, "precondition"},
		{"PUT on what has changed", "PUT", "/v1/tenants/acme", doc("Tenant", "acme", "{tier: batch}"), "If-Match: *", func(d *double) { put(d, "Tenant", "acme", `{"tier":"top"}`) }, 412, "precondition"},
		{"PATCH of what has changed", "PATCH", "/v1/tenants/acme", "{spec: {tier: batch}}", "If-Match: *", func(d *double) { put(d, "Tenant", "acme", `{"tier":"top"}`) }, 412, "precondition"},
		{"DELETE of what is gone", "DELETE", "/v1/tenants/acme", "", "If-Match: *", func(d *double) {
			d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Delete{Delete: &statepb.Delete{Kind: "Tenant", Name: "acme"}}})
		}, 404, "not_found"},
		{"DELETE of what is now used", "DELETE", "/v1/tenants/acme", "", "If-Match: *", func(d *double) {
			put(d, "Quota", "q", `{"tenant":"acme","limits":[{"kind":"requests","perMinute":1}]}`)
		}, 409, "in_use"},
		{"a tenant that is gone", "POST", "/v1/quotas", doc("Quota", "q", "{tenant: acme, limits: [{kind: requests, perMinute: 1}]}"), yaml, func(d *double) {
			d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Delete{Delete: &statepb.Delete{Kind: "Tenant", Name: "acme"}}})
		}, 422, "invalid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDouble(t)
			d.seed("Tenant acme {}")
			d.before = func(d *double, _ *statepb.Command) { tt.other(d) }
			d.do("operator", tt.method, tt.path, tt.body, tt.header).want(tt.status, tt.code)
		})
	}
}

func TestAWriteAnswersWhatItMadeAlsoWhenItIsOverwrittenAtOnce(t *testing.T) {
	d := newDouble(t, func(o *Options) {
		commit := o.Propose
		o.Propose = twice(commit)
	})
	a := d.do("operator", "POST", "/v1/tenants", doc("Tenant", "x", "{tier: top}"), yaml).want(201, "")
	if a.spec() != `{"tier":"top"}` || a.header.Get("ETag") != `"2"` {
		t.Errorf("got %v %s", a.header.Get("ETag"), a.body)
	}
}

func TestRequestIDs(t *testing.T) {
	d := newDouble(t)
	if got := d.do("viewer", "GET", "/v1/status", "", "X-Request-Id: mine-1").header.Get("X-Request-Id"); got != "mine-1" {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{strings.Repeat("x", 129), "a b"} {
		if got := d.do("viewer", "GET", "/v1/status", "", "X-Request-Id: "+bad).header.Get("X-Request-Id"); len(got) != 16 {
			t.Errorf("%q became %q", bad, got)
		}
	}
	d.do("operator", "POST", "/v1/tenants", doc("Tenant", "x", "{}"), "X-Request-Id: mine-2").want(201, "")
	if e := d.current().Audit(1, 0)[0]; e.GetRequestId() != "mine-2" {
		t.Errorf("audited %v", e)
	}
}
