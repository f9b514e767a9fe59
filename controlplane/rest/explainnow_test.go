package rest

import (
	"encoding/json"
	"strings"
	"testing"

	"anabranch/api/routerpb"
	"anabranch/controlplane/access"
	"anabranch/controlplane/inquiry"
	"anabranch/controlplane/state/statepb"
)

// asking is a pair of clusters, of which a table sends three of four requests from us to us-1, and a router that
// remembers a request of acme that eu-1 answered by an earlier table.
func asking(t *testing.T, change ...func(*routerpb.Table)) (*double, *routersDouble) {
	t.Helper()
	r := &routersDouble{}
	d := newDouble(t, planning(nil), func(o *Options) { o.Inquiries = r })
	d.seed("Region us {peerURLs: ['https://us'], rttMs: {eu: 70}}", "Region eu {peerURLs: ['https://eu']}", "Region ap {}", "Model m {}", "Model other {}",
		"Cluster us-1 {region: us, models: [m], endpoints: [{id: p, url: 'http://p', class: x}]}",
		"Cluster eu-1 {region: eu, models: [m], endpoints: [{id: p, url: 'http://q', class: x}]}",
		"Cluster ap-1 {region: ap, models: [other], endpoints: [{id: p, url: 'http://r', class: x}]}",
		"Tenant acme {}")
	table := &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "us"}, {Id: "eu"}}, Clusters: []*routerpb.Cluster{{Id: "us-1", Region: "us", HealthCap: 1}, {Id: "eu-1", Region: "eu", HealthCap: 1}},
		Models: []*routerpb.Model{{Id: "m"}}, Tenants: []*routerpb.Tenant{{Id: "acme"}},
		Weights: []*routerpb.Weights{{Model: "m", Class: "interactive", Source: "us", Clusters: []*routerpb.ClusterWeight{
			{Cluster: "us-1", Weight: 0.75, Reason: "nearest"}, {Cluster: "eu-1", Weight: 0.25, Reason: "overflow"},
		}}},
	}
	for _, f := range change {
		f(table)
	}
	if out := d.apply(&statepb.Command{Format: 1, AtUnixMs: epoch.UnixMilli(), Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: table}}}); out.GetCode() != "" {
		t.Fatal(out)
	}
	record, err := json.Marshal(map[string]any{
		"id": aRequest, "at": epoch, "region": "us", "tenant": "acme", "model": "m", "class": "interactive", "policy": "p", "epoch": 1, "revision": 3, "status": 200,
		"candidates": []any{map[string]any{"cluster": "eu-1", "region": "eu", "weight": 0.5, "reason": "weight"}},
		"removed":    []any{map[string]any{"cluster": "us-1", "reason": "health"}},
		"attempts":   []any{map[string]any{"cluster": "eu-1", "region": "eu"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.explanation = inquiry.Explanation{Node: "n3", Router: "us-r1", Region: "us", Record: record, Most: 4096}
	return d, r
}

func (d *double) nowOf(query string) ExplainedNow {
	d.t.Helper()
	var out ExplainedNow
	d.do("viewer", "GET", "/v1/explain/"+aRequest+"/now"+query, "").want(200, "").into(&out)
	return out
}

func TestARequestIsComparedWithNow(t *testing.T) {
	d, _ := asking(t)
	got := d.nowOf("")
	if got.Request != aRequest || got.Tenant != "acme" || got.Source != "us" || !got.Changed || got.TableRevision != d.current().Table().GetRef().GetRevision() || got.Then != (DecidedThen{At: epoch, TableEpoch: 1, TableRevision: 3, Cluster: "eu-1", Region: "eu", Status: 200}) {
		t.Errorf("%+v", got)
	}
	if len(got.Places) != 2 { // ap-1 does not serve the model, and nobody thought of it
		t.Fatalf("places %+v", got.Places)
	}
	us, eu := got.Places[0], got.Places[1]
	if us.Cluster != "us-1" || us.Chance != 0.75 || us.Weight != 0.75 || us.Reason != "nearest" || us.Then == nil || *us.Then != (PlaceThen{Removed: "health"}) || len(us.Excluded) != 0 || us.AgeMs != -1 || us.Health != "UNKNOWN" {
		t.Errorf("us-1 %+v", us)
	}
	if eu.Cluster != "eu-1" || eu.Chance != 0.25 || *eu.Then != (PlaceThen{Tried: true, Weight: 0.5, Reason: "weight"}) || !strings.Contains(eu.WhyNot, "25 %") || eu.Cost == nil {
		t.Errorf("eu-1 %+v", eu)
	}
	if got := d.nowOf("?region=eu"); len(got.Places) != 1 || got.Places[0].Cluster != "eu-1" || got.Places[0].Chance != 0.25 {
		t.Errorf("why not eu: %+v", got.Places)
	}
	if got := d.nowOf("?region=ap"); len(got.Places) != 0 {
		t.Errorf("why not ap: %+v", got.Places)
	}
}

func TestWhyAClusterIsNotUsedNow(t *testing.T) {
	for name, tt := range map[string]struct {
		table  func(*routerpb.Table)
		happen func(*double)
		want   string // of eu-1
		chance float64
	}{
		"the tenant stays elsewhere": {func(x *routerpb.Table) { x.Tenants[0].Residency = []string{"us"} }, nil, "may not be used: residency: requests of acme stay in us.", 0},
		"the policy narrows it":      {func(x *routerpb.Table) { x.Rules = []*routerpb.Rule{{Id: "p", Residency: []string{"us", "ap"}}} }, nil, "policy p keeps its requests in us, ap", 0},
		"the policy pins it":         {func(x *routerpb.Table) { x.Rules = []*routerpb.Rule{{Id: "p", Clusters: []string{"us-1"}}} }, nil, "policy p pins its requests to us-1", 0},
		"another policy does":        {func(x *routerpb.Table) { x.Rules = []*routerpb.Rule{{Id: "q", Clusters: []string{"us-1"}}} }, nil, "25 %", 0.25},
		"it is drained": {nil, func(d *double) {
			d.do("operator", "PATCH", "/v1/clusters/eu-1", `{"spec":{"drained":true}}`, "If-Match: *").want(200, "")
		}, "it is drained", 0},
		"its health allows nothing": {func(x *routerpb.Table) { x.Clusters[1].HealthCap = 0 }, nil, "its health allows it nothing", 0},
		"no table names it":         {func(x *routerpb.Table) { x.Clusters, x.Weights[0].Clusters = x.Clusters[:1], x.Weights[0].Clusters[:1] }, nil, "no table names it yet", 0},
		"it is too dear":            {func(x *routerpb.Table) { x.Weights[0].Clusters = x.Weights[0].Clusters[:1] }, nil, "It has no weight: ", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var change []func(*routerpb.Table)
			if tt.table != nil {
				change = append(change, tt.table)
			}
			d, _ := asking(t, change...)
			if tt.happen != nil {
				tt.happen(d)
			}
			got := d.nowOf("?region=eu").Places
			if len(got) != 1 || !strings.Contains(got[0].WhyNot, tt.want) || got[0].Chance != tt.chance {
				t.Errorf("%+v, want %q", got, tt.want)
			}
		})
	}
}

// Where rules leave nothing that has a weight, routers use what has none.
func TestWhatHasNoWeightIsUsedWhereNothingElseMayBe(t *testing.T) {
	third := func(standby bool) func(*routerpb.Table) {
		return func(x *routerpb.Table) {
			x.Tenants[0].Residency = []string{"eu", "ap"}
			x.Regions = append(x.Regions, &routerpb.Region{Id: "ap"})
			x.Clusters = append(x.Clusters, &routerpb.Cluster{Id: "ap-1", Region: "ap", HealthCap: 0.25})
			x.Weights[0].Clusters = []*routerpb.ClusterWeight{{Cluster: "us-1", Weight: 1}, {Cluster: "eu-1"}, {Cluster: "ap-1", Standby: standby}}
		}
	}
	for name, c := range map[string]struct {
		change []func(*routerpb.Table)
		eu, ap float64
	}{
		"by what health allows":           {[]func(*routerpb.Table){third(false)}, 0.8, 0.2},
		"standby only if nothing is left": {[]func(*routerpb.Table){third(true)}, 1, 0},
		"what is on standby":              {[]func(*routerpb.Table){third(true), func(x *routerpb.Table) { x.Tenants[0].Residency = []string{"ap"} }}, 0, 1},
		"none":                            {[]func(*routerpb.Table){third(false), func(x *routerpb.Table) { x.Tenants[0].Residency = []string{"mars"} }}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := asking(t, c.change...)
			d.do("operator", "PATCH", "/v1/clusters/ap-1", `{"spec":{"models":["other","m"]}}`, "If-Match: *").want(200, "")
			got := map[string]PlaceNow{}
			for _, p := range d.nowOf("").Places {
				got[string(p.Cluster)] = p
			}
			if got["us-1"].Chance != 0 || got["eu-1"].Chance != c.eu || got["ap-1"].Chance != c.ap || len(got) != 3 {
				t.Errorf("%+v", got)
			}
			if c.eu > 0 && !strings.Contains(got["eu-1"].WhyNot, "nothing that has any may be used") {
				t.Errorf("it says %q", got["eu-1"].WhyNot)
			}
		})
	}
}

func TestAQuestionAboutNowThatHasNoAnswer(t *testing.T) {
	d, r := asking(t)
	for query, code := range map[string]string{"?region=nowhere": "invalid_request", "?region=a%20b": "invalid_request", "?router=a%20b": "invalid_request"} {
		d.do("viewer", "GET", "/v1/explain/"+aRequest+"/now"+query, "").want(400, code)
	}
	d.do("viewer", "GET", "/v1/explain/none/now", "").want(404, "unknown_request")
	r.explanation.Record = []byte(`{"id":7}`)
	d.do("viewer", "GET", "/v1/explain/"+aRequest+"/now", "").want(500, "internal")
	r.err = inquiry.ErrNotConnected
	d.do("viewer", "GET", "/v1/explain/"+aRequest+"/now", "").want(503, "router_not_connected")
}

func TestNobodyLearnsOfARequestOfATenantThatTheirScopeHides(t *testing.T) {
	d, _ := asking(t)
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}})
	d.token("other", "viewer", access.Scope{Tenants: []string{"other"}})
	d.do("other", "GET", "/v1/explain/"+aRequest+"/now", "").want(404, "unknown_request")
	d.token("acme", "viewer", access.Scope{Tenants: []string{"acme"}})
	d.do("acme", "GET", "/v1/explain/"+aRequest+"/now", "").want(200, "")
}

// TestARequestThatWentNowhereIsComparedToo: refused before a model was known.
func TestARequestThatWentNowhereIsComparedToo(t *testing.T) {
	d, r := asking(t)
	r.explanation.Record = []byte(`{"id":"` + aRequest + `","region":"us","status":404}`)
	if got := d.nowOf(""); len(got.Places) != 0 || got.Then.Cluster != "" || got.Then.Status != 404 || got.Summary != "" {
		t.Errorf("%+v", got)
	}
}
