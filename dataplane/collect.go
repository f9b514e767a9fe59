package dataplane

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/subscribe"
)

// standing tells how the router itself stands when it is asked.
type standing struct{ r *Router }

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	inFlightOf  = gauge("anabranch_router_in_flight", "Clients' requests open now.")
	hopsOf      = gauge("anabranch_router_peer_in_flight", "Requests from other regions' routers open now.")
	shadowsOf   = gauge("anabranch_router_shadows_in_flight", "Shadow copies under way now.")
	heldOf      = gauge("anabranch_router_bodies_held_bytes", "Bytes of requests' bodies that are held, beyond the first 64 KiB of each.")
	heldMostOf  = gauge("anabranch_router_bodies_limit_bytes", "How many of them may be held; of one tenant's half as many.")
	readyOf     = gauge("anabranch_router_ready", "1 while new requests may be sent here.")
	drainingOf  = gauge("anabranch_router_draining", "1 from when the router was told to end.")
	revisionOf  = gauge("anabranch_router_table_revision", "Revision of the table in force, 0 if there is none.")
	epochOf     = gauge("anabranch_router_table_epoch", "Epoch of the table in force, 0 if there is none.")
	tableAgeOf  = gauge("anabranch_router_table_age_seconds", "Time since the table in force was computed; absent without a table.")
	sightOf     = gauge("anabranch_router_sight", "1 for how far the control plane's word on health is believed: current, stale or alone.", "sight")
	brownoutOf  = gauge("anabranch_router_brownout_step", "Step of the brown-out that a model has reached, from 0 (nothing is given up) to 6, by base model.", "model")
	entriesOf   = gauge("anabranch_router_prefix_entries", "Entries of the prefix index, each a block of a prompt at an endpoint.")
	capacityOf  = gauge("anabranch_router_prefix_capacity", "Entries that the prefix index has room for.")
	takenOverOf = gauge("anabranch_router_prefix_taken_over", "Entries of the prefix index that a sibling handed over at the start.")
)

// Describe implements [prometheus.Collector].
func (c *standing) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		inFlightOf, hopsOf, shadowsOf, heldOf, heldMostOf, readyOf, drainingOf, revisionOf, epochOf, tableAgeOf, sightOf, brownoutOf, entriesOf, capacityOf, takenOverOf,
	} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *standing) Collect(to chan<- prometheus.Metric) {
	r, now := c.r, c.r.now()
	tell := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	ready, _ := r.Ready()
	tell(inFlightOf, float64(r.inFlight.Load()))
	tell(hopsOf, float64(r.hops.Load()))
	tell(shadowsOf, float64(r.shadows.underWay()))
	tell(heldOf, float64(r.bodies.held.Load()))
	tell(heldMostOf, float64(r.bodies.most))
	tell(readyOf, truth(ready))
	tell(drainingOf, truth(r.draining.Load()))
	revision, epoch := uint64(0), uint64(0)
	if t := r.tables.Load(); t != nil {
		revision, epoch = t.Ref.Revision, t.Ref.Epoch
		tell(tableAgeOf, max(now.Sub(t.Created), 0).Seconds())
	}
	tell(revisionOf, float64(revision))
	tell(epochOf, float64(epoch))
	sight := r.o.Sight(now)
	for _, s := range []subscribe.Sight{subscribe.Current, subscribe.Stale, subscribe.Alone} {
		tell(sightOf, truth(s == sight), s.String())
	}
	for model, step := range r.brown.steps() {
		tell(brownoutOf, float64(step), string(model))
	}
	entries, capacity := r.prefixes.entries(now)
	tell(entriesOf, float64(entries))
	tell(capacityOf, float64(capacity))
	tell(takenOverOf, float64(r.prefixes.takenOver().Entries))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// clusterCollector tells the router's own sight of each cluster in the table when it is asked, so
// that what leaves the table takes its metrics along.
type clusterCollector struct{ r *Router }

var (
	clusterEjected    = gauge("anabranch_router_cluster_ejected", "1 while this router sends nothing to a cluster, on its own evidence.", "cluster")
	modelEjected      = gauge("anabranch_router_cluster_model_ejected", "1 while this router sends no requests for a model to a cluster of its region, on its own evidence.", "cluster", "model")
	clusterBusy       = gauge("anabranch_router_cluster_busy", "1 while a cluster has no room, as it said.", "cluster")
	clusterMute       = gauge("anabranch_router_cluster_unanswered", "1 while requests go without an answer at a cluster, so that others are used instead: to all tenants, or to one whose requests alone these were.", "cluster", "to")
	clusterDrained    = gauge("anabranch_router_cluster_drained", "1 while an operator keeps new requests away from a cluster, by the table.", "cluster")
	clusterCap        = gauge("anabranch_router_cluster_cap", "Share 0 to 1 of its weight that a cluster's health allows, by the table.", "cluster")
	modelCap          = gauge("anabranch_router_cluster_model_cap", "Share 0 to 1 of its weight that the health of a model on a cluster allows, by the table; absent where it is the cluster's.", "cluster", "model")
	clusterInFlight   = gauge("anabranch_router_cluster_in_flight", "This router's requests at a cluster now.", "cluster")
	clusterSaturation = gauge("anabranch_router_cluster_saturation", "Load over capacity of a cluster as this router sees it; absent while it is not known.", "cluster")
	clusterEndpoints  = gauge("anabranch_router_endpoints", "Endpoints that this router sends to directly, by cluster and state: ejected, busy (it said that it has no room), starting (at less than its share) or ready.", "cluster", "state")
	clusterAge        = gauge("anabranch_router_signal_age_seconds", "Age of the newest and of the oldest measurement among a cluster's endpoints; absent where there is none.", "cluster", "which")
	clusterEjections  = gauge("anabranch_router_ejections_total", "Times that this router ejected an endpoint of a cluster, or a cluster of another region.", "cluster")
)

// Describe implements [prometheus.Collector].
func (c *clusterCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		clusterEjected, modelEjected, clusterBusy, clusterMute, clusterDrained, clusterCap, modelCap, clusterInFlight, clusterSaturation, clusterEndpoints, clusterAge, clusterEjections,
	} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *clusterCollector) Collect(to chan<- prometheus.Metric) {
	t := c.r.tables.Load()
	if t == nil {
		return
	}
	now := c.r.now()
	for id, spec := range t.Clusters {
		place := c.r.places.Cluster(id)
		if place == nil {
			continue
		}
		tell := func(d *prometheus.Desc, v float64, more ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{string(id)}, more...)...)
		}
		e := place.Evidence(now)
		tell(clusterEjected, truth(e.Ejected))
		tell(clusterBusy, truth(e.Busy))
		if !place.Remote {
			for _, m := range spec.Models {
				out, _ := place.EjectedOf(m)
				tell(modelEjected, truth(out), string(m))
			}
		}
		if !place.Remote {
			row, mute := place.Unanswered(now)
			tell(clusterMute, truth(mute && row.All), toWhom(true))
			tell(clusterMute, truth(mute && !row.All), toWhom(false))
		}
		tell(clusterDrained, truth(spec.Drained))
		tell(clusterCap, spec.Cap)
		for model, h := range spec.ModelHealth {
			tell(modelCap, h.Cap, string(model))
		}
		tell(clusterInFlight, float64(place.InFlight()))
		if e.Known {
			tell(clusterSaturation, e.Saturation)
		}
		to <- prometheus.MustNewConstMetric(clusterEjections, prometheus.CounterValue, float64(place.Ejections()), string(id))
		if place.Remote {
			continue
		}
		states, newest, oldest := census(place.Endpoints(), now)
		for state, n := range states {
			tell(clusterEndpoints, n, state)
		}
		if newest >= 0 {
			tell(clusterAge, newest.Seconds(), "newest")
			tell(clusterAge, oldest.Seconds(), "oldest")
		}
	}
}

// census counts endpoints by state, and finds the ages of their signals; -1: none has any.
func census(all []*endpoint.Endpoint, now time.Time) (states map[string]float64, newest, oldest time.Duration) {
	states = map[string]float64{stateEjected: 0, stateBusy: 0, stateStarting: 0, stateReady: 0}
	newest, oldest = -1, -1
	for _, e := range all {
		states[stateOf(e, now)]++
		s := e.Signals()
		if s == nil || s.At.IsZero() {
			continue
		}
		age := max(now.Sub(s.At), 0)
		if newest < 0 || age < newest {
			newest = age
		}
		oldest = max(oldest, age)
	}
	return states, newest, oldest
}

// States of an endpoint.
const (
	stateEjected  = "ejected"
	stateBusy     = "busy"
	stateStarting = "starting"
	stateReady    = "ready"
)

func stateOf(e *endpoint.Endpoint, now time.Time) string {
	dead, _ := e.Ejected()
	switch {
	case dead:
		return stateEjected
	case e.Busy(now):
		return stateBusy
	case e.Ramp(now) < 1:
		return stateStarting
	}
	return stateReady
}

// toWhom a cluster gives no answer.
func toWhom(all bool) string {
	if all {
		return "all"
	}
	return "one"
}
