package modelserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"anabranch/api/fleet"
)

// Status is what the admin port tells of a cluster.
type Status struct {
	Cluster   fleet.ClusterID  `json:"cluster"`
	Endpoints []EndpointStatus `json:"endpoints"`
}

// EndpointStatus tells of one endpoint: how it is, and which requests reached it.
type EndpointStatus struct {
	ID      fleet.EndpointID `json:"id"`
	Class   string           `json:"class"`
	Address string           `json:"address"`
	// Ready: started up, and its port is open.
	Ready  bool          `json:"ready"`
	Faults []Fault       `json:"faults"`
	Models []ModelStatus `json:"models"`
	Counts
	// Tenants counts the requests received by tenant; the empty one sent no tenant.
	Tenants map[string]uint64 `json:"tenants"`
	// Recent are the last requests, newest first.
	Recent []Record `json:"recent"`
}

// ModelStatus tells of one engine.
type ModelStatus struct {
	Name    fleet.ModelID `json:"name"`
	Waiting int           `json:"waiting"`
	Running int           `json:"running"`
	KVUsage float64       `json:"kvUsage"`
}

// Status is a snapshot with up to the given number of recent requests for each endpoint, at most
// 1,024.
func (s *Server) Status(recent int) Status {
	st := Status{Cluster: s.opts.Cluster, Endpoints: []EndpointStatus{}}
	for _, e := range s.endpoints {
		st.Endpoints = append(st.Endpoints, e.status(max(0, recent)))
	}
	return st
}

func (e *endpoint) status(recent int) EndpointStatus {
	st := EndpointStatus{
		ID: e.id, Class: e.class, Address: e.port.address(),
		Ready: e.ready() && !e.faults.has(Refuse), Faults: e.faults.list(),
	}
	st.Counts, st.Tenants, st.Recent = e.ledger.read(recent)
	for _, r := range e.runners {
		es, _ := r.stats()
		st.Models = append(st.Models, ModelStatus{r.model.Name, es.Waiting, es.Running, es.KVUsage()})
	}
	return st
}

// defaultRecent is how many requests GET /status lists unless asked for another number.
const defaultRecent = 100

func (s *Server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /status", s.getStatus)
	mux.HandleFunc("POST /faults", s.postFault)
	mux.HandleFunc("DELETE /faults", s.deleteFaults)
	return mux
}

func (s *Server) getStatus(w http.ResponseWriter, r *http.Request) {
	recent := defaultRecent
	if q := r.URL.Query().Get("recent"); q != "" {
		n, err := strconv.Atoi(q)
		if err != nil || n < 0 {
			writeAdminError(w, fmt.Errorf("recent: %q is not a number from 0", q))
			return
		}
		recent = n
	}
	writeJSON(w, http.StatusOK, s.Status(recent))
}

func (s *Server) postFault(w http.ResponseWriter, r *http.Request) {
	var order struct {
		Endpoint fleet.EndpointID `json:"endpoint"`
		Fault
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&order); err != nil {
		writeAdminError(w, fmt.Errorf("body: %w", err))
		return
	}
	if err := s.Inject(order.Endpoint, order.Fault); err != nil {
		writeAdminError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, s.Status(0))
}

func (s *Server) deleteFaults(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	id, kind := fleet.EndpointID(q.Get("endpoint")), FaultKind(q.Get("fault"))
	if kind != "" {
		if err := (Fault{Kind: kind}).Validate(); err != nil {
			writeAdminError(w, err)
			return
		}
	}
	if err := s.Heal(r.Context(), id, kind); err != nil {
		writeAdminError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, s.Status(0))
}

// writeAdminError answers 404 for an endpoint that isn't there, 409 for a port that somebody
// else has, and 400 for the rest, which is a mistake in the request.
func writeAdminError(w http.ResponseWriter, err error) {
	status := http.StatusBadRequest
	switch {
	case errors.Is(err, ErrUnknownEndpoint):
		status = http.StatusNotFound
	case errors.Is(err, errRebind):
		status = http.StatusConflict
	}
	writeJSON(w, status, map[string]string{"error": err.Error()})
}
