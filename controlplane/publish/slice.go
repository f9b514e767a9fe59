package publish

import (
	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
)

// Slice is what the routers of a region can use of a table. It leaves out the weights of other
// sources, round trips between other regions, and how clusters are reached that only the routers of
// other regions call. It shares the rest with the table; neither may be changed afterwards. Slicing a
// slice of the same region gives an equal one.
func Slice(t *routerpb.Table, region fleet.RegionID) *routerpb.Table {
	own := string(region)
	s := &routerpb.Table{
		Ref: t.GetRef(), CreatedUnixMs: t.GetCreatedUnixMs(), Region: own,
		Models: t.GetModels(), Tenants: t.GetTenants(), Quotas: t.GetQuotas(), Classes: t.GetClasses(), Rules: t.GetRules(), Organisations: t.GetOrganisations(),
		Drill: sliceDrill(t.GetDrill(), own),
	}
	for _, r := range t.GetRegions() {
		s.Regions = append(s.Regions, sliceRegion(r, own))
	}
	for _, c := range t.GetClusters() {
		s.Clusters = append(s.Clusters, sliceCluster(c, own))
	}
	s.Weights = ofSource(t.GetWeights(), own)
	return s
}

func ofSource(all []*routerpb.Weights, own string) (of []*routerpb.Weights) {
	for _, w := range all {
		if w.GetSource() == own {
			of = append(of, w)
		}
	}
	return of
}

// sliceDrill keeps of a drill the weights of the region's own requests.
func sliceDrill(d *routerpb.Drill, own string) *routerpb.Drill {
	if d == nil {
		return nil
	}
	return &routerpb.Drill{
		Id: d.GetId(), Kind: d.GetKind(), Clusters: d.GetClusters(), Models: d.GetModels(), Tenants: d.GetTenants(),
		Weights: ofSource(d.GetWeights(), own), BaseSha256: d.GetBaseSha256(), Protected: d.GetProtected(),
	}
}

// sliceRegion keeps of another region how far it is and where its routers are entered.
func sliceRegion(r *routerpb.Region, own string) *routerpb.Region {
	if r.GetId() == own {
		return r
	}
	out := &routerpb.Region{Id: r.GetId(), Zone: r.GetZone(), PeerUrls: r.GetPeerUrls(), QuotaStore: r.GetQuotaStore()}
	if ms, told := r.GetRttMs()[own]; told {
		out.RttMs = map[string]float64{own: ms}
	}
	return out
}

// sliceCluster keeps of a cluster that is reached through another region's routers what choosing it
// needs. Providers are called from everywhere.
func sliceCluster(c *routerpb.Cluster, own string) *routerpb.Cluster {
	if c.GetRegion() == own || c.GetKind() == policy.TypeProvider {
		return c
	}
	return &routerpb.Cluster{
		Id: c.GetId(), Region: c.GetRegion(), Kind: c.GetKind(), Models: c.GetModels(),
		Health: c.GetHealth(), HealthCap: c.GetHealthCap(), Drained: c.GetDrained(),
		ModelHealth: c.GetModelHealth(),
	}
}
