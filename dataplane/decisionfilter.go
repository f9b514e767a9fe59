package dataplane

import (
	"slices"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// How a request ended, for filters.
const (
	outcomeAnswered = "answered" // whole, with a status below 400
	outcomeRefused  = "refused"  // with a status of 400 to 499
	outcomeFailed   = "failed"   // with one of 500 and above, or broken off
	outcomeGone     = "gone"     // its client left before the end
)

// outcome says how the request ended.
func (r *Record) outcome() string {
	switch {
	case r.ClientGone:
		return outcomeGone
	case r.fault():
		return outcomeFailed
	case r.Status >= 400:
		return outcomeRefused
	}
	return outcomeAnswered
}

// decisionFilter says which records a tail wants. Empty lists want any.
type decisionFilter struct {
	tenants  []fleet.TenantID
	models   []fleet.ModelID
	clusters []fleet.ClusterID
	regions  []fleet.RegionID
	classes  []fleet.ClassID
	outcomes []string
	attempts int // at least
}

func newDecisionFilter(f *routerpb.DecisionFilter) decisionFilter {
	return decisionFilter{
		tenants: named[fleet.TenantID](f.GetTenants()), models: named[fleet.ModelID](f.GetModels()),
		clusters: named[fleet.ClusterID](f.GetClusters()), regions: named[fleet.RegionID](f.GetRegions()),
		classes: named[fleet.ClassID](f.GetClasses()), outcomes: f.GetOutcomes(), attempts: int(f.GetMinAttempts()),
	}
}

func named[T ~string](from []string) []T {
	out := make([]T, len(from))
	for i, s := range from {
		out[i] = T(s)
	}
	return out
}

func (f *decisionFilter) fits(r *Record) bool {
	switch {
	case len(r.Attempts) < f.attempts, !among(f.tenants, r.Tenant), !among(f.classes, r.Class), !among(f.regions, r.Region),
		len(f.outcomes) > 0 && !slices.Contains(f.outcomes, r.outcome()):
		return false
	}
	return f.fitsModel(r) && f.fitsCluster(r)
}

// among says whether a list that is not empty holds x.
func among[T comparable](list []T, x T) bool { return len(list) == 0 || slices.Contains(list, x) }

// fitsModel: by any of the names that a model goes by.
func (f *decisionFilter) fitsModel(r *Record) bool {
	return len(f.models) == 0 || slices.ContainsFunc(f.models, func(m fleet.ModelID) bool {
		return m == r.Model || string(m) == r.Adapter || string(m) == r.Asked
	})
}

// fitsCluster: one that was tried.
func (f *decisionFilter) fitsCluster(r *Record) bool {
	return len(f.clusters) == 0 || slices.ContainsFunc(r.Attempts, func(t Tried) bool { return slices.Contains(f.clusters, t.Cluster) })
}
