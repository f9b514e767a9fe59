package plan

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/routerpb"
)

// stocked is a table with something in every list.
func stocked() *routerpb.Table {
	return &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "us"}, {Id: "eu"}},
		Clusters: []*routerpb.Cluster{
			{Id: "us-1", Health: "HEALTHY", Endpoints: []*routerpb.Endpoint{{Id: "e1", Url: "http://a"}, {Id: "e2", Url: "http://b"}}},
			{Id: "eu-1", Endpoints: []*routerpb.Endpoint{{Id: "e1", Url: "http://c"}}},
		},
		Models:        []*routerpb.Model{{Id: "m"}},
		Tenants:       []*routerpb.Tenant{{Id: "acme", Tier: "top"}, {Id: "globex"}},
		Quotas:        []*routerpb.Quota{{Id: "q/requests", Limit: 60}},
		Classes:       []*routerpb.Class{{Id: "interactive", Policy: "p"}, {Id: "interactive", Policy: "r"}, {Id: "batch"}},
		Organisations: []*routerpb.Organisation{{Id: "acme", Shares: []*routerpb.Share{{Region: "us", Parts: 1}}}},
		Rules:         []*routerpb.Rule{{Id: "p"}, {Id: "r"}, {Id: "s"}},
		Weights:       []*routerpb.Weights{{Model: "m", Class: "interactive", Source: "us", Clusters: []*routerpb.ClusterWeight{{Cluster: "us-1", Weight: 1}}}},
	}
}

func TestListsTellWhatDiffers(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*routerpb.Table)
		want   string
	}{
		"nothing":               {func(*routerpb.Table) {}, "[]"},
		"weights are others'":   {func(t *routerpb.Table) { t.GetWeights()[0].GetClusters()[0].Weight = 0.5 }, "[]"},
		"a region more":         {func(t *routerpb.Table) { t.Regions = append(t.GetRegions(), &routerpb.Region{Id: "ap"}) }, "[{regions [ap] [] [] false}]"},
		"a cluster's health":    {func(t *routerpb.Table) { t.GetClusters()[0].Health = "EVACUATED" }, "[{clusters [] [] [us-1] false}]"},
		"an endpoint less":      {func(t *routerpb.Table) { t.GetClusters()[0].Endpoints = t.GetClusters()[0].GetEndpoints()[:1] }, "[{endpoints [] [us-1/e2] [] false}]"},
		"an endpoint elsewhere": {func(t *routerpb.Table) { t.GetClusters()[1].GetEndpoints()[0].Url = "http://d" }, "[{endpoints [] [] [eu-1/e1] false}]"},
		"a cluster less":        {func(t *routerpb.Table) { t.Clusters = t.GetClusters()[:1] }, "[{clusters [] [eu-1] [] false} {endpoints [] [eu-1/e1] [] false}]"},
		"a tenant's key":        {func(t *routerpb.Table) { t.GetTenants()[0].KeySha256 = [][]byte{{1}} }, "[{tenants [] [] [acme] false}]"},
		"a model, a quota":      {func(t *routerpb.Table) { t.Models = nil; t.GetQuotas()[0].Limit = 90 }, "[{models [] [m] [] false} {quotas [] [] [q/requests] false}]"},
		"a share":               {func(t *routerpb.Table) { t.GetOrganisations()[0].Shares = nil }, "[{organisations [] [] [acme] false}]"},
		"a class of one policy": {func(t *routerpb.Table) { t.GetClasses()[1].Spill = true }, "[{classes [] [] [interactive/r] false}]"},
		"a class of none":       {func(t *routerpb.Table) { t.Classes = t.GetClasses()[:2] }, "[{classes [] [batch] [] false}]"},
		"rules in another order": {
			func(t *routerpb.Table) { r := t.GetRules(); r[0], r[2] = r[2], r[0] }, "[{rules [] [] [] true}]",
		},
		"tenants in another order": {func(t *routerpb.Table) { r := t.GetTenants(); r[0], r[1] = r[1], r[0] }, "[]"},
		"a rule in between": {
			func(t *routerpb.Table) {
				t.Rules = []*routerpb.Rule{{Id: "p"}, {Id: "new"}, {Id: "s"}}
			}, "[{rules [new] [r] [] false}]",
		},
	} {
		after := stocked()
		tt.change(after)
		if got := fmt.Sprint(Lists(stocked(), after)); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	if first := Lists(nil, stocked()); len(first) != 9 || len(first[0].Added) != 2 {
		t.Errorf("a first table: %v", first)
	}
	if none := Lists(nil, nil); none == nil || len(none) > 0 {
		t.Errorf("no tables: %v", none)
	}
}

// What is added one way is removed the other, and what changed is the same both ways.
func TestListsAreTheSameBothWays(t *testing.T) {
	draw := func(rt *rapid.T, label string) *routerpb.Table {
		t := &routerpb.Table{}
		for _, id := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.ID[string]).Draw(rt, label) {
			t.Tenants = append(t.GetTenants(), &routerpb.Tenant{Id: id, Tier: rapid.SampledFrom([]string{"top", "batch"}).Draw(rt, "tier")})
		}
		return t
	}
	rapid.Check(t, func(rt *rapid.T) {
		a, b := draw(rt, "a"), draw(rt, "b")
		there, back := differ(entries(a.GetTenants(), (*routerpb.Tenant).GetId), entries(b.GetTenants(), (*routerpb.Tenant).GetId)),
			differ(entries(b.GetTenants(), (*routerpb.Tenant).GetId), entries(a.GetTenants(), (*routerpb.Tenant).GetId))
		if fmt.Sprint(there.Added, there.Removed, there.Changed, there.Reordered) != fmt.Sprint(back.Removed, back.Added, back.Changed, back.Reordered) {
			rt.Fatalf("%v and back %v", there, back)
		}
		if len(there.Added)+len(a.GetTenants())-len(there.Removed) != len(b.GetTenants()) {
			rt.Fatalf("%v between %d and %d entries", there, len(a.GetTenants()), len(b.GetTenants()))
		}
		if proto.Equal(a, b) && len(there.Added)+len(there.Removed)+len(there.Changed) > 0 {
			rt.Fatalf("equal tables differ: %v", there)
		}
	})
}
