package rest

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/access"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// published commits a table with a share of one model for each of two clusters, and gives its revision.
func (d *double) published(share float64, change ...func(*routerpb.Table)) uint64 {
	d.t.Helper()
	t := &routerpb.Table{
		CreatedUnixMs: epoch.UnixMilli(),
		Regions:       []*routerpb.Region{{Id: "us"}}, Clusters: []*routerpb.Cluster{{Id: "a"}, {Id: "b"}},
		Tenants: []*routerpb.Tenant{{Id: "acme", KeySha256: [][]byte{[]byte("secret")}}, {Id: "globex"}},
		Quotas:  []*routerpb.Quota{{Id: "q/requests", Tenant: "globex"}},
		Weights: []*routerpb.Weights{{Model: "m", Class: "interactive", Source: "us", Clusters: []*routerpb.ClusterWeight{{Cluster: "a", Weight: share}, {Cluster: "b", Weight: 1 - share}}}},
	}
	for _, f := range change {
		f(t)
	}
	if out := d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: t}}}); out.GetCode() != "" {
		d.t.Fatalf("publish: %v", out)
	}
	return d.current().Table().GetRef().GetRevision()
}

func noGlobex(t *routerpb.Table) { t.Tenants, t.Quotas = t.GetTenants()[:1], nil }

func TestTablesTellWhatEachDidDifferently(t *testing.T) {
	d := newDouble(t)
	if empty := d.do("viewer", "GET", "/v1/tables", "").want(200, ""); string(empty.body) != "{\"items\":[],\"nextCursor\":\"\"}\n" {
		t.Errorf("without any: %s", empty.body)
	}
	first, second, third := d.published(0.5), d.published(0.75), d.published(0.75, noGlobex)
	var got []string
	for next := ""; ; {
		var page List[TableVersion]
		d.do("viewer", "GET", "/v1/tables?limit=2&cursor="+next, "").want(200, "").into(&page)
		for _, v := range page.Items {
			line := fmt.Sprint(v.Revision, v.Epoch, v.CreatedAt.Equal(epoch))
			if v.Change != nil {
				line += fmt.Sprintf(" %+v", *v.Change)
			}
			got = append(got, line)
		}
		if next = page.NextCursor; next == "" {
			break
		}
	}
	want := []string{
		fmt.Sprintf("%d 1 true {Since:%d Weights:0 Largest:[] Lists:[{List:tenants Added:0 Removed:1 Changed:0 Reordered:false} {List:quotas Added:0 Removed:1 Changed:0 Reordered:false}]}", third, second),
		fmt.Sprintf("%d 1 true {Since:%d Weights:1 Largest:[{Model:m Class:interactive Source:us Cluster:a From:0.5 To:0.75} {Model:m Class:interactive Source:us Cluster:b From:0.5 To:0.25}] Lists:[]}", second, first),
		fmt.Sprintf("%d 1 true", first),
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	d.do("viewer", "GET", "/v1/tables?limit=-1", "").want(400, "invalid_request")
	d.do("viewer", "GET", "/v1/tables?cursor=x", "").want(400, "invalid_request")
	d.do("viewer", "GET", "/v1/tables?consistency=x", "").want(400, "invalid_request")
}

func TestAnOldTableIsReadWithoutHashesOfKeys(t *testing.T) {
	d := newDouble(t)
	first := d.published(0.5)
	d.published(0.75)
	a := d.do("viewer", "GET", fmt.Sprintf("/v1/tables/%d", first), "").want(200, "")
	if !strings.Contains(string(a.body), `"weight":0.5`) || strings.Contains(string(a.body), "keySha256") || a.header.Get("ETag") != etag(first) {
		t.Errorf("got %v %s", a.header, a.body)
	}
	if len(d.current().Tables()[0].GetTenants()[0].GetKeySha256()) != 1 {
		t.Error("the state was changed")
	}
	d.do("viewer", "GET", "/v1/tables/1", "").want(404, "not_found")
	d.do("viewer", "GET", "/v1/tables/newest", "").want(400, "invalid_request")
}

func TestTablesAreCompared(t *testing.T) {
	d := newDouble(t)
	first, second, third := d.published(0.5), d.published(0.75), d.published(0.75, noGlobex)
	for query, want := range map[string]string{
		fmt.Sprintf("%d/diff", third):                  fmt.Sprintf("%d-%d [] [{quotas [] [q/requests] [] false}]", second, third),
		fmt.Sprintf("%d/diff?from=%d", third, first):   fmt.Sprintf("%d-%d [{m interactive us 0 [{a 0.5 0.75} {b 0.5 0.25}]}]", first, third),
		fmt.Sprintf("%d/diff?from=%d", first, third):   fmt.Sprintf("%d-%d [{m interactive us 0 [{a 0.75 0.5} {b 0.25 0.5}]}]", third, first),
		fmt.Sprintf("%d/diff?from=%d", second, second): fmt.Sprintf("%d-%d [] []", second, second),
	} {
		var diff TableDiff
		d.do("viewer", "GET", "/v1/tables/"+query, "").want(200, "").into(&diff)
		got := fmt.Sprintf("%d-%d %v %v", diff.From, diff.To, diff.Weights, diff.Lists)
		if want = strings.Replace(want, "[] [{quotas", "[] [{tenants [] [globex] [] false} {quotas", 1); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	d.do("viewer", "GET", fmt.Sprintf("/v1/tables/%d/diff", first), "").want(404, "not_found")
	d.do("viewer", "GET", fmt.Sprintf("/v1/tables/%d/diff?from=1", third), "").want(404, "not_found")
	d.do("viewer", "GET", fmt.Sprintf("/v1/tables/%d/diff?from=x", third), "").want(400, "invalid_request")
}

func TestAScopeShowsOnlyItsTenantsInTables(t *testing.T) {
	d := bare(t)
	init := &statepb.Init{ClusterId: "c-1"}
	for name, scope := range map[string]*statepb.TokenScope{"viewer": nil, "acme": {Tenants: []string{"acme"}}} {
		sum := sha256.Sum256([]byte("secret-" + name))
		init.Tokens = append(init.Tokens, &statepb.Token{Name: name, Role: "viewer", Sha256: sum[:], Scope: scope})
	}
	d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Init{Init: init}})
	d.published(0.5)
	second := d.published(0.75, noGlobex)
	for _, path := range []string{"/v1/tables", fmt.Sprintf("/v1/tables/%d/diff", second), fmt.Sprintf("/v1/tables/%d", d.current().Tables()[0].GetRef().GetRevision())} {
		all, some := d.do("viewer", "GET", path, "").want(200, ""), d.do("acme", "GET", path, "").want(200, "")
		for _, hidden := range []string{"globex", "tenants\",\"added", "quotas\",\"added", "q/requests"} {
			if strings.Contains(string(some.body), hidden) {
				t.Errorf("%s shows %s: %s", path, hidden, some.body)
			}
		}
		if string(all.body) == string(some.body) || !strings.Contains(string(some.body), "0.") {
			t.Errorf("%s answers %s", path, some.body)
		}
	}
}

func TestAScopeShowsOnlyItsOrganisationsInTables(t *testing.T) {
	full := &routerpb.Table{
		Tenants:       []*routerpb.Tenant{{Id: "acme", Organisation: "group"}, {Id: "globex"}, {Id: "solo"}},
		Organisations: []*routerpb.Organisation{{Id: "globex"}, {Id: "group"}, {Id: "solo"}},
		Quotas:        []*routerpb.Quota{{Id: "g", Organisation: "group"}, {Id: "a", Organisation: "group", Tenant: "acme"}, {Id: "s", Organisation: "solo", Tenant: "solo"}},
	}
	got := inScope(full, access.Scope{Tenants: []string{"acme", "globex"}})
	if len(got.GetTenants()) != 2 || len(got.GetQuotas()) != 1 || got.GetQuotas()[0].GetId() != "a" {
		t.Errorf("shows %v", got)
	}
	if o := got.GetOrganisations(); len(o) != 2 || o[0].GetId() != "globex" || o[1].GetId() != "group" {
		t.Errorf("shows organisations %v", o)
	}
	if len(full.GetOrganisations()) != 3 || len(full.GetQuotas()) != 3 {
		t.Error("the table itself was changed")
	}
}

func TestWhatIsKnownOfTablesIsForgottenWithThem(t *testing.T) {
	var k tableChanges
	var kept []*routerpb.Table
	for i := range state.MaxTables {
		kept = append(kept, &routerpb.Table{Ref: &routerpb.TableRef{Revision: uint64(i + 1)}})
	}
	for i := range len(kept) - 1 {
		k.between(kept[i], kept[i+1], access.Scope{})
	}
	known := k.between(kept[0], kept[1], access.Scope{})
	if len(k.known) != len(kept)-1 || k.between(kept[0], kept[1], access.Scope{}) != known {
		t.Errorf("%d are known", len(k.known))
	}
	k.forget(kept[40:])
	if len(k.known) != len(kept)-40 {
		t.Errorf("%d are known", len(k.known))
	}
	// A restore may leave other tables before one that is known.
	other := proto.CloneOf(kept[0])
	other.Ref.Revision = 9
	if got := k.between(other, kept[45], access.Scope{}); got.Since != 9 {
		t.Errorf("compared with %d", got.Since)
	}
}
