package publish

import (
	"cmp"
	"sync"

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
		Clusters: append([]*routerpb.ClusterSignal(nil), r.GetClusters()...), Quotas: r.GetQuotas(),
		Drill: r.GetDrill(), Orders: r.GetOrders(), Brownout: r.GetBrownout(), ClockUnixMs: r.GetClockUnixMs(),
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
	view := x.s.o.View()
	kept, struck := within(r, x.region, view)
	kept = rehearsed(x.s.limits.of(view.Table()).inForce(kept), view)
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

// known are the limits of a table: the organisation of each, by id.
type known map[string]string

// limitCache has what is known of the table that was asked for last. The zero cache is empty.
type limitCache struct {
	mu    sync.Mutex // guards what is below
	table *routerpb.Table
	known known
}

// of gives the limits of a table; it is not to be written to.
func (l *limitCache) of(t *routerpb.Table) known {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.table != t || l.known == nil {
		l.table, l.known = t, make(known, len(t.GetQuotas()))
		for _, q := range t.GetQuotas() {
			l.known[q.GetId()] = cmp.Or(q.GetOrganisation(), q.GetTenant()) // a tenant of none is its own
		}
	}
	return l.known
}

// inForce keeps of what a report says of limits that of those in force, and no more of it than there are:
// what is kept of routers does not grow with what they make up. A router that has not taken the table yet
// may speak of limits that are gone. The report itself is never changed, and returned if nothing has to go.
func (k known) inForce(r *routerpb.Report) *routerpb.Report {
	var kept []*routerpb.QuotaSignal
	for _, q := range r.GetQuotas() {
		if organisation, ok := k[q.GetLimit()]; ok && organisation == q.GetOrganisation() && len(kept) < len(k) {
			kept = append(kept, q)
		}
	}
	if len(kept) == len(r.GetQuotas()) {
		return r
	}
	out := shallow(r)
	out.Quotas = kept
	return out
}
