package access

import (
	"reflect"

	"anabranch/controlplane/policy"
)

// joins says that a change would bring a tenant under the limits of an organisation, or out from under them.
// Whoever is bound by limits would else choose whose they are.
func joins(old, next *policy.Resource) []policy.Problem {
	from, to := organization(old), organization(next)
	if from == to {
		return nil
	}
	return []policy.Problem{{
		Field: "spec.organization", Reason: "would change whose limits hold for the tenant, which no scope allows",
		Fix: "use a token whose scope is everything; the rest of the tenant may be changed",
	}}
}

// organization is that of a tenant; empty: it is one of its own, or there is no tenant.
func organization(r *policy.Resource) string {
	if r == nil || r.Kind != policy.KindTenant {
		return ""
	}
	if of := policy.OrganizationOf(r); of != r.Metadata.Name {
		return of
	}
	return ""
}

// stores says that a change would have the routers of all regions keep quotas somewhere else, with a password
// of theirs.
func stores(old, next *policy.Resource) []policy.Problem {
	if reflect.DeepEqual(quotaStore(old), quotaStore(next)) {
		return nil
	}
	return []policy.Problem{{
		Field: "spec.quotaStore", Reason: "would change where the quotas of organisations are kept, which no scope allows",
		Fix: "use a token whose scope is everything; the rest of the region may be changed",
	}}
}

// quotaStore is that of a region; nil: it has none, or there is no region.
func quotaStore(r *policy.Resource) *policy.QuotaStoreSpec {
	if r == nil {
		return nil
	}
	s, ok := r.Spec.(*policy.RegionSpec)
	if !ok {
		return nil
	}
	return s.QuotaStore
}
