package dataplane

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
)

// Admin serves the operator: metrics, health, the table in force, what became of a request. It has
// no authentication and shows no secret; it stands on loopback unless somebody decides otherwise.
func (r *Router) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{Registry: r.registry}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", r.serveReady)
	mux.HandleFunc("GET /table", r.serveTable)
	mux.HandleFunc("GET /explain/{id}", r.serveExplain)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, r.status()) })
	return mux
}

// Ready says whether requests may be sent here, and if not why.
func (r *Router) Ready() (bool, string) {
	switch {
	case r.draining.Load():
		return false, "draining"
	case r.tables.Load() == nil:
		return false, "no table: neither on disk nor from a control plane"
	}
	return true, "ready"
}

// Drain turns readiness off, so that nobody new is sent here; requests that come are still served.
func (r *Router) Drain() { r.draining.Store(true) }

// Open is how many requests are open now, clients' and peers'.
func (r *Router) Open() int64 { return r.inFlight.Load() + r.hops.Load() }

func (r *Router) serveReady(w http.ResponseWriter, _ *http.Request) {
	ready, why := r.Ready()
	if !ready {
		text(w, http.StatusServiceUnavailable, why)
		return
	}
	text(w, http.StatusOK, why)
}

// serveTable shows the table in force, without the hashes of API keys.
func (r *Router) serveTable(w http.ResponseWriter, _ *http.Request) {
	t := r.tables.Load()
	if t == nil {
		reply(w, http.StatusNotFound, map[string]string{"error": "there is no table"})
		return
	}
	shown := proto.CloneOf(t.Proto())
	for _, tenant := range shown.GetTenants() {
		tenant.KeySha256 = nil
	}
	body, err := protojson.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(shown)
	if err != nil {
		reply(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the operator may be gone
}

func (r *Router) serveExplain(w http.ResponseWriter, q *http.Request) {
	record := r.explain.find(q.PathValue("id"))
	if record == nil {
		reply(w, http.StatusNotFound, map[string]string{"error": "no request of this name is remembered; the newest 4096 are"})
		return
	}
	reply(w, http.StatusOK, record)
}

// Status is how the router stands, for people.
type Status struct {
	Router   fleet.RouterID  `json:"router"`
	Region   fleet.RegionID  `json:"region"`
	Version  string          `json:"version"`
	Ready    bool            `json:"ready"`
	Reason   string          `json:"reason"`
	Epoch    uint64          `json:"epoch"`
	Revision uint64          `json:"revision"`
	InFlight int64           `json:"inFlight"`
	Hops     int64           `json:"peerInFlight"`
	Quota    bool            `json:"quotaStoreOk"`
	Control  ControlStatus   `json:"controlplane"`
	Clusters []ClusterStatus `json:"clusters"`
}

// ClusterStatus is the router's own sight of a cluster.
type ClusterStatus struct {
	ID         fleet.ClusterID  `json:"id"`
	Region     fleet.RegionID   `json:"region"`
	Health     string           `json:"health"`
	Ejected    bool             `json:"ejected"`
	Reason     string           `json:"reason,omitempty"`
	Saturation float64          `json:"saturation"`
	InFlight   int64            `json:"inFlight"`
	Endpoints  []EndpointStatus `json:"endpoints,omitempty"`
}

// EndpointStatus is the router's own sight of an endpoint.
type EndpointStatus struct {
	ID       fleet.EndpointID `json:"id"`
	Class    string           `json:"class,omitempty"`
	Ejected  bool             `json:"ejected"`
	Reason   string           `json:"reason,omitempty"`
	InFlight int64            `json:"inFlight"`
}

func (r *Router) status() Status {
	s := Status{
		Router: r.o.Router, Region: r.region, Version: r.o.Version, InFlight: r.inFlight.Load(), Hops: r.hops.Load(),
		Quota: r.admit.StoreOK(), Control: r.o.Control(), Clusters: []ClusterStatus{},
	}
	s.Ready, s.Reason = r.Ready()
	t := r.tables.Load()
	if t == nil {
		return s
	}
	s.Epoch, s.Revision = t.Ref.Epoch, t.Ref.Revision
	now := r.now()
	for id, spec := range t.Clusters {
		c := r.places.Cluster(id)
		if c == nil {
			continue
		}
		e := c.Evidence(now)
		cs := ClusterStatus{
			ID: id, Region: spec.Region, Health: spec.Health, Ejected: e.Ejected, Reason: e.Reason,
			Saturation: e.Saturation, InFlight: c.InFlight(),
		}
		for _, p := range c.Endpoints() {
			es := EndpointStatus{ID: p.ID, Class: p.Class, InFlight: p.InFlight()}
			es.Ejected, es.Reason = p.Ejected()
			cs.Endpoints = append(cs.Endpoints, es)
		}
		s.Clusters = append(s.Clusters, cs)
	}
	slices.SortFunc(s.Clusters, func(a, b ClusterStatus) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return s
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body + "\n")) // whoever asked may be gone
}

func reply(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		text(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // whoever asked may be gone
}
