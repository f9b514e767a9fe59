package publish

import (
	"slices"

	"anabranch/api/routerpb"
)

// patient is a table as it is sent to routers that shed nothing by it: without what they would take no notice of.
// It shares the rest with the table, or is the table; neither may be changed afterwards.
func patient(t *routerpb.Table) *routerpb.Table {
	if !slices.ContainsFunc(t.GetWeights(), func(w *routerpb.Weights) bool { return len(w.GetShed()) > 0 }) {
		return t
	}
	p := &routerpb.Table{
		Ref: t.GetRef(), CreatedUnixMs: t.GetCreatedUnixMs(), Region: t.GetRegion(), Regions: t.GetRegions(), Clusters: t.GetClusters(),
		Models: t.GetModels(), Tenants: t.GetTenants(), Quotas: t.GetQuotas(), Classes: t.GetClasses(), Rules: t.GetRules(),
		Organisations: t.GetOrganisations(), Drill: t.GetDrill(),
	}
	for _, w := range t.GetWeights() {
		if len(w.GetShed()) > 0 {
			w = &routerpb.Weights{Model: w.GetModel(), Class: w.GetClass(), Source: w.GetSource(), Clusters: w.GetClusters()}
		}
		p.Weights = append(p.Weights, w)
	}
	return p
}
