package dataplane

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Admin serves the operator: metrics, health, the table in force, what became of a request. It has
// no authentication and shows no secret; it stands on loopback unless somebody decides otherwise.
func (r *Router) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{Registry: r.registry}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", r.serveReady)
	mux.HandleFunc("GET /table", r.serveTable)
	mux.HandleFunc("GET /explain", r.serveExplanations)
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

// Withdraw turns readiness off, so that nobody new is sent here by whoever looks at it. Who comes is
// still served. More calls do nothing.
func (r *Router) Withdraw() { r.draining.Store(true) }

// Drain turns readiness off and lets no more requests wait: those that come and find room are still
// served, others are told to go elsewhere, and those that wait already are let in or refused as ever.
// More calls do nothing.
func (r *Router) Drain() {
	r.Withdraw()
	r.gate.Close()
}

// Left is what a router that ends still has.
type Left struct {
	// Clients and Peers are requests open now; of these Waiting wait for room.
	Clients int64 `json:"clients"`
	Peers   int64 `json:"peers"`
	Waiting int   `json:"waiting"`
	// Shadows are copies that nobody waits for. The router cuts them when it ends.
	Shadows int `json:"shadows"`
}

// Left counts what is open now.
func (r *Router) Left() Left {
	return Left{Clients: r.inFlight.Load(), Peers: r.hops.Load(), Waiting: r.waitingNow(), Shadows: r.shadows.underWay()}
}

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
		tenant.KeySha256, tenant.ExpiringKeys = nil, nil
	}
	body, err := protojson.MarshalOptions{Multiline: true, Indent: "  "}.Marshal(shown)
	if err != nil {
		reply(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the operator may be gone
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
