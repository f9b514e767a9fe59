package plan

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

// keepQuotas gives a table the quotas of another, and whose they are and where they are kept. Routers of both
// count in the same buckets, by the same numbers. What the table can't have is left out: quotas of tenants
// and keys that it doesn't know, and shares of such regions.
func keepQuotas(t, from *routerpb.Table) {
	keepStores(t, from)
	theirs := map[string]string{}
	for _, x := range from.GetTenants() {
		theirs[x.GetId()] = x.GetOrganisation()
	}
	tenants := map[string]map[string]bool{} // and their keys
	for _, x := range t.GetTenants() {
		if of, known := theirs[x.GetId()]; known {
			x.Organisation = of
		}
		keys := map[string]bool{}
		for _, sum := range x.GetKeySha256() {
			keys[string(sum)] = true
		}
		for _, k := range x.GetExpiringKeys() {
			keys[string(k.GetSha256())] = true
		}
		tenants[x.GetId()] = keys
	}
	t.Quotas = nil
	for _, q := range from.GetQuotas() {
		keys, there := tenants[q.GetTenant()]
		if q.GetTenant() != "" && !there {
			continue
		}
		if slices.ContainsFunc(q.GetKeySha256(), func(sum []byte) bool { return !keys[string(sum)] }) {
			q = proto.CloneOf(q)
			q.KeySha256 = slices.DeleteFunc(q.GetKeySha256(), func(sum []byte) bool { return !keys[string(sum)] })
			if len(q.GetKeySha256()) == 0 {
				continue // it would be for all requests
			}
		}
		t.Quotas = append(t.Quotas, q)
	}
	regions := map[string]bool{}
	for _, r := range t.GetRegions() {
		regions[r.GetId()] = true
	}
	t.Organisations = nil
	for _, o := range from.GetOrganisations() {
		gone := func(s *routerpb.Share) bool { return !regions[s.GetRegion()] }
		if slices.ContainsFunc(o.GetShares(), gone) {
			o = proto.CloneOf(o)
			o.Shares = slices.DeleteFunc(o.GetShares(), gone)
		}
		t.Organisations = append(t.Organisations, o)
	}
}

// keepStores gives a table the quota stores of another. A region that is some organisation's home there is
// kept, bare, if the table lacks it.
func keepStores(t, from *routerpb.Table) {
	stores := map[string]*routerpb.QuotaStore{}
	for _, r := range from.GetRegions() {
		stores[r.GetId()] = r.GetQuotaStore()
	}
	there := map[string]bool{}
	for _, r := range t.GetRegions() {
		there[r.GetId()] = true
		if store, known := stores[r.GetId()]; known {
			r.QuotaStore = store
		}
	}
	for _, o := range from.GetOrganisations() {
		home := o.GetHome()
		if home == "" || there[home] {
			continue
		}
		there[home] = true
		for _, r := range from.GetRegions() {
			if r.GetId() == home {
				t.Regions = append(t.Regions, &routerpb.Region{Id: home, Zone: r.GetZone(), RttMs: r.GetRttMs(), QuotaStore: r.GetQuotaStore()})
			}
		}
	}
	slices.SortStableFunc(t.Regions, func(a, b *routerpb.Region) int { return cmp.Compare(a.GetId(), b.GetId()) })
}
