package publish

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

// plainKinds are the kinds of limit of the first version of the contract.
var plainKinds = []string{"requests", "input-tokens", "output-tokens", "total-tokens"}

// plain is a table as routers can use it that know nothing of organisations: they refuse one with a quota of a
// kind that they don't know, and would take one that is narrower, of several tenants or in shadow for
// one of all of a tenant's requests. It shares the rest with the table, or is the table; neither may be
// changed afterwards.
func plain(t *routerpb.Table) *routerpb.Table {
	if len(t.GetOrganisations()) == 0 {
		return t
	}
	p := &routerpb.Table{
		Ref: t.GetRef(), CreatedUnixMs: t.GetCreatedUnixMs(), Region: t.GetRegion(), Clusters: t.GetClusters(),
		Models: t.GetModels(), Classes: t.GetClasses(), Weights: t.GetWeights(), Rules: t.GetRules(),
		Drill: t.GetDrill(),
	}
	for _, r := range t.GetRegions() {
		if r.GetQuotaStore() != nil {
			r = proto.CloneOf(r)
			r.QuotaStore = nil
		}
		p.Regions = append(p.Regions, r)
	}
	for _, x := range t.GetTenants() {
		if x.GetOrganisation() != "" {
			x = proto.CloneOf(x)
			x.Organisation = ""
		}
		p.Tenants = append(p.Tenants, x)
	}
	for _, q := range t.GetQuotas() {
		if q.GetTenant() == "" || q.GetShadow() || len(q.GetKeySha256()) > 0 || !slices.Contains(plainKinds, q.GetKind()) {
			continue
		}
		p.Quotas = append(p.Quotas, &routerpb.Quota{
			Id: q.GetId(), Tenant: q.GetTenant(), Kind: q.GetKind(), Limit: q.GetLimit(), PeriodMs: q.GetPeriodMs(), Burst: q.GetBurst(),
			Degraded: q.GetDegraded(), Model: q.GetModel(), Share: q.GetShare(),
		})
	}
	return p
}
