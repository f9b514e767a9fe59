package dataplane

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
)

// Peer serves the routers of other regions. It must stand behind mutual TLS that lets only routers
// in: what their headers say is believed.
func (r *Router) Peer() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.URL.Path == probePath && q.Method == http.MethodGet:
			r.serveProbe(w, q)
		case q.URL.Path == prefixesPath && q.Method == http.MethodGet:
			r.servePrefixes(w, q)
		case strings.HasPrefix(q.URL.Path, "/v1/") && q.Method == http.MethodPost && q.Header.Get(proxy.HeaderHop) == "1":
			n := r.hops.Add(1)
			defer r.hops.Add(-1)
			if n > r.o.MaxInFlight {
				r.turnBack(w, q)
				return
			}
			r.serveHop(w, q)
		default:
			notFound(q.Method, q.URL.Path).Write(w)
		}
	})
}

// turnBack answers a peer that this router has as many requests open as it may.
func (r *Router) turnBack(w http.ResponseWriter, q *http.Request) {
	_, x := r.begin(w, q, true)
	defer r.end(x)
	x.refuse(noCapacity())
}

// trust takes over what the peer says of a request that it has authenticated. False: it has been
// answered.
func (x *trip) trust(q *http.Request) bool {
	tenant, ok := x.table.Tenant(fleet.TenantID(q.Header.Get(proxy.HeaderTenant)))
	if !ok {
		// The peer's table is newer or older: it shall go elsewhere.
		x.refuse(unroutable(route.NoLegalTarget))
		return false
	}
	x.tenant = tenant
	x.record.Tenant = tenant.ID
	x.priority = tenant.Priority
	if p, err := strconv.ParseInt(q.Header.Get(proxy.HeaderPriority), 10, 32); err == nil {
		x.priority = int32(p)
	}
	x.fairness = q.Header.Get(proxy.HeaderFairness)
	if x.fairness == "" {
		x.fairness = string(tenant.ID)
	}
	x.wanted = fleet.ClassID(q.Header.Get(proxy.HeaderClass))
	x.drilled.told, _ = strconv.ParseUint(q.Header.Get(headerDrill), 10, 64) // 0: in none
	return true
}

// tellLoad tells the asking router how full the cluster is that it chose; not where it has said itself
// that it has no room, which no figure stands for.
func (r *Router) tellLoad(x *trip, cluster fleet.ClusterID) {
	delete(x.w.Header(), proxy.HeaderSaturation)
	if saturation, ok := r.sight.Told(cluster); ok {
		x.w.Header()[proxy.HeaderSaturation] = []string{strconv.FormatFloat(saturation, 'f', 3, 64)}
	}
}

// codeEjected tells a peer that the cluster it chose is dead, and not merely full.
const codeEjected = "cluster_ejected"

// unroutable words an empty choice. A peer is told apart a cluster that this router has found dead.
func (r *Router) unroutable(x *trip, c *route.Choice) *proxy.Error {
	e := unroutable(c.Code)
	if !x.hop || c.Code != route.NoCapacity {
		return e
	}
	cluster := r.places.Cluster(fleet.ClusterID(x.q.Header.Get(proxy.HeaderClusterHint)))
	if cluster == nil {
		return e
	}
	if dead, _ := cluster.Ejected(); dead {
		e.Code = codeEjected
	}
	return e
}

// serveProbe says whether a cluster of this region can be used, on this router's own evidence. When
// something has just failed there, it first waits for what the canaries find, within bounds: the
// peer asks because a request of its own was what failed, and would be told too early.
func (r *Router) serveProbe(w http.ResponseWriter, q *http.Request) {
	id := fleet.ClusterID(q.URL.Query().Get("cluster"))
	cluster := r.places.Cluster(id)
	if cluster != nil && cluster.Region == r.region && cluster.Spec().Kind == table.KindRouter {
		cluster = r.usable(cluster.Spec())
	}
	switch {
	case r.draining.Load():
		http.Error(w, "this router is draining", http.StatusServiceUnavailable)
		return
	case cluster == nil || cluster.Remote:
		http.Error(w, "the cluster is not of this region", http.StatusNotFound)
		return
	}
	deadline := time.NewTimer(dispatch.DoubtFor)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if dead, why := cluster.Ejected(); dead {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		if a := cluster.Answering("", r.now()); a.Unanswered && !a.Trial { // otherwise the peer's may be the trial
			http.Error(w, "requests go without an answer", http.StatusServiceUnavailable)
			return
		}
		if !r.doubts.Fresh(cluster.ID, r.now()) {
			w.WriteHeader(http.StatusOK)
			return
		}
		select {
		case <-deadline.C:
			w.WriteHeader(http.StatusOK)
			return
		case <-q.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// usable is a cluster of this region that can be used for a member that stands for the whole region,
// or one that can't; nil: there is none at all.
func (r *Router) usable(member *table.Cluster) *endpoint.Cluster {
	t := r.tables.Load()
	if t == nil || t.Regions[r.region] == nil {
		return nil
	}
	var found *endpoint.Cluster
	for _, spec := range t.Regions[r.region].Clusters {
		c := r.places.Cluster(spec.ID)
		if c == nil || spec.Kind == table.KindRouter || !slices.ContainsFunc(member.Models, spec.Serves) {
			continue
		}
		if dead, _ := c.Ejected(); !dead {
			return c
		}
		found = c
	}
	return found
}
