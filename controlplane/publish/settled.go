package publish

import "anabranch/api/routerpb"

// settled is a table as it is sent to routers that take part in no drill: without the drill that is under way. It
// shares the rest with the table, or is the table; neither may be changed afterwards.
func settled(t *routerpb.Table) *routerpb.Table {
	if t.GetDrill() == nil {
		return t
	}
	return &routerpb.Table{
		Ref: t.GetRef(), CreatedUnixMs: t.GetCreatedUnixMs(), Region: t.GetRegion(), Regions: t.GetRegions(), Clusters: t.GetClusters(),
		Models: t.GetModels(), Tenants: t.GetTenants(), Quotas: t.GetQuotas(), Classes: t.GetClasses(), Weights: t.GetWeights(), Rules: t.GetRules(),
		Organisations: t.GetOrganisations(),
	}
}
