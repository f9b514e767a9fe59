package rest

import (
	"fmt"
	"testing"

	"anabranch/api/routerpb"
	"anabranch/controlplane/access"
	"anabranch/controlplane/state/statepb"
)

// TestALimitThatIsLookedAtIsToldInAnyCase has one limit more than a stream tells of, none of which is used.
func TestALimitThatIsLookedAtIsToldInAnyCase(t *testing.T) {
	d := newDouble(t)
	d.seed("Region us {}", "Model m {}", "Tenant acme {}", "Tenant globex {}")
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}})
	d.token("of-globex", "viewer", access.Scope{Tenants: []string{"globex"}})
	table := &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "us"}}, Clusters: []*routerpb.Cluster{{Id: "c"}}, Models: []*routerpb.Model{{Id: "m"}},
		Tenants:       []*routerpb.Tenant{{Id: "acme", Organisation: "works"}, {Id: "globex"}},
		Organisations: []*routerpb.Organisation{{Id: "works", Shares: []*routerpb.Share{{Region: "us", Parts: 1_000_000}}}, {Id: "globex"}},
	}
	quota := func(id, organisation, tenant string) *routerpb.Quota {
		return &routerpb.Quota{Id: id, Organisation: organisation, Tenant: tenant, Kind: "requests", Limit: 60, PeriodMs: 60_000, Burst: 60, Degraded: "share"}
	}
	for i := range mostUsage {
		table.Quotas = append(table.Quotas, quota(fmt.Sprintf("acme-%03d/requests", i), "works", "acme"))
	}
	table.Quotas = append(table.Quotas, quota("acme-last/requests", "works", "acme"), quota("globex/requests", "globex", "globex"))
	d.apply(&statepb.Command{Format: 1, AtUnixMs: epoch.UnixMilli(), Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: table}}})

	for _, tt := range []struct {
		name, who, query string
		told, left       int
		last             bool // acme-last is told, with its regions
	}{
		{"nobody looks at it", "viewer", "", mostUsage, 2, false},
		{"somebody looks at it", "viewer", "&usageOf=acme-last/requests", mostUsage, 2, true},
		{"somebody looks at one that is not there", "viewer", "&usageOf=acme-none/requests", mostUsage, 2, false},
		{"who may not see it looks at it", "of-globex", "&usageOf=acme-last/requests", 1, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got LiveUsage
			d.watchAs(tt.who, "/v1/events?topics=usage"+tt.query).named("usage", &got)
			last, ok := got.Limits["acme-last/requests"]
			if len(got.Limits) != tt.told || got.Left != tt.left || ok != tt.last || (len(last.Regions) > 0) != tt.last {
				t.Errorf("%d told and %d left, acme-last: %v %+v", len(got.Limits), got.Left, ok, last.Regions)
			}
			if other := got.Limits["acme-000/requests"]; len(other.Regions) > 0 {
				t.Errorf("regions of another limit are told: %+v", other.Regions)
			}
		})
	}
}
