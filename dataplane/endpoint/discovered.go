package endpoint

import (
	"slices"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// maxFound bounds the endpoints that are taken of one cluster's discovery.
const maxFound = 10_000

// Discovered takes in the endpoints that have been found of a cluster, all of them each time. They
// are used beside those of the table; of two with one name or one address the found one counts, and of
// two found the first: a server that is there twice would look half as busy as it is. What was there
// before keeps its state. They may come before the table that has the cluster, and are forgotten with a
// table that doesn't say that its endpoints are to be found. Until the first come, a cluster of which the
// table lists none keeps those that it had.
func (r *Registry) Discovered(cluster fleet.ClusterID, endpoints []table.Endpoint) {
	r.syncing.Lock()
	defer r.syncing.Unlock()
	c := r.Cluster(cluster)
	wanted := c != nil && discovers(c.Spec())
	if len(endpoints) == 0 && !wanted { // the end of a search has found nothing out
		delete(r.found, cluster)
		return
	}
	if r.found == nil {
		r.found = make(map[fleet.ClusterID][]table.Endpoint)
	}
	r.found[cluster] = distinct(endpoints[:min(len(endpoints), maxFound)])
	if !wanted {
		return
	}
	r.update(c, c.Spec(), r.newest)
	r.counted(r.current.Load().here)
}

// discovers: endpoints of the cluster are to be found.
func discovers(c *table.Cluster) bool {
	return c != nil && c.Kind == table.KindEndpoints && c.Discovery != nil
}

// forget drops what was found of clusters of which nothing is to be found by a new table. The caller
// holds the lock.
func (r *Registry) forget(t *table.Table) {
	for id := range r.found {
		if !discovers(t.Clusters[id]) {
			delete(r.found, id)
		}
	}
}

// merged are a cluster's endpoints: those that were found and those of the table.
func merged(found, table []table.Endpoint) []table.Endpoint {
	if len(found) == 0 {
		return table
	}
	return distinct(slices.Concat(found, table))
}

// described are endpoints as a table would list them.
func described(list []*Endpoint) []table.Endpoint {
	out := make([]table.Endpoint, 0, len(list))
	for _, e := range list {
		out = append(out, table.Endpoint{ID: e.ID, URL: e.URL, Class: e.Class, KVEventsURL: e.eventsURL})
	}
	return out
}

// distinct keeps the first of each name and address.
func distinct(list []table.Endpoint) []table.Endpoint {
	out := make([]table.Endpoint, 0, len(list))
	ids, urls := make(map[fleet.EndpointID]bool, len(list)), make(map[string]bool, len(list))
	for _, e := range list {
		if !ids[e.ID] && !urls[e.URL] {
			ids[e.ID], urls[e.URL] = true, true
			out = append(out, e)
		}
	}
	return out
}
