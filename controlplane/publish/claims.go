package publish

import (
	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
)

// within keeps of a report what a router of a region may say: of clusters of other regions only what its
// own requests met there, not how they are. Members that every router reaches itself are nobody's
// region. A cluster that is not configured is left as it is: nothing is planned with it. struck is how
// many signals said more; without any the report itself is returned, which is never changed.
func within(r *routerpb.Report, region fleet.RegionID, view *state.View) (kept *routerpb.Report, struck int) {
	for i, c := range r.GetClusters() {
		if !claims(c) || !foreign(c.GetCluster(), region, view) {
			continue
		}
		if struck++; struck == 1 {
			kept = shallow(r)
		}
		kept.Clusters[i] = met(c)
	}
	if struck == 0 {
		return r, 0
	}
	return kept, struck
}

// claims says whether a signal tells of a cluster what only the routers of its region can measure.
func claims(c *routerpb.ClusterSignal) bool {
	return c.GetScraped() || c.GetEndpointsTotal() > 0 || c.GetEndpointsReady() > 0 || c.GetCapacityWork() != 0
}

// foreign says whether a cluster stands in another region and is reached by way of the routers there.
func foreign(cluster string, region fleet.RegionID, view *state.View) bool {
	r, ok := view.Get(policy.KindCluster, cluster)
	if !ok {
		return false
	}
	spec, ok := r.Spec.(*policy.ClusterSpec)
	return ok && spec.Region != string(region) && spec.Type != policy.TypeProvider && spec.Type != policy.TypeRouter
}

// shallow is a report with a list of clusters of its own.
func shallow(r *routerpb.Report) *routerpb.Report {
	return &routerpb.Report{
		AtUnixMs: r.GetAtUnixMs(), Applied: r.GetApplied(), Demand: r.GetDemand(), InFlight: r.GetInFlight(), QuotaStoreOk: r.GetQuotaStoreOk(),
		Requests: r.GetRequests(), Failures: r.GetFailures(), WindowMs: r.GetWindowMs(),
		Clusters: append([]*routerpb.ClusterSignal(nil), r.GetClusters()...),
	}
}

// met is what the requests of the router itself met at a cluster.
func met(c *routerpb.ClusterSignal) *routerpb.ClusterSignal {
	return &routerpb.ClusterSignal{
		Cluster: c.GetCluster(), Model: c.GetModel(), AgeMs: -1, LoadWork: c.GetLoadWork(),
		Requests: c.GetRequests(), Failures: c.GetFailures(), TtftP50Ms: c.GetTtftP50Ms(), TtftP95Ms: c.GetTtftP95Ms(),
		Ejected: c.GetEjected(), EjectReason: c.GetEjectReason(),
	}
}

// reported takes in a report, as far as it is the router's to make.
func (x *session) reported(r *routerpb.Report) {
	kept, struck := within(r, x.region, x.s.o.View())
	x.seen.Report, x.seen.Received = kept, x.s.o.Now()
	if struck > 0 {
		x.s.metrics.struck(struck)
		if !x.overreached {
			x.overreached = true
			x.s.logger.Warn("router reports on clusters of another region; what it says of their load is left out", "router", x.router, "region", x.region)
		}
	}
	if applied := kept.GetApplied(); applied != nil && newer(applied, x.holds) {
		x.holds, x.digest = applied, nil // never back: the report may have been written before the last table
	}
}
