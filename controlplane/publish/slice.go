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
	}
	for _, r := range t.GetRegions() {
		s.Regions = append(s.Regions, sliceRegion(r, own))
	}
	for _, c := range t.GetClusters() {
		s.Clusters = append(s.Clusters, sliceCluster(c, own))
	}
	for _, w := range t.GetWeights() {
		if w.GetSource() == own {
			s.Weights = append(s.Weights, w)
		}
	}
	return s
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
	}
}
