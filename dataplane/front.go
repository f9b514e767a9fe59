package dataplane

import (
	"encoding/json"
	"net/http"
	"path"
	"strconv"
	"strings"

	"anabranch/dataplane/proxy"
	"anabranch/dataplane/table"
)

// Front serves clients: POST /v1/… with a model in the body, GET /v1/models and GET
// /v1/models/NAME. It never redirects.
func (r *Router) Front() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if n := r.inFlight.Add(1); n > r.o.MaxInFlight {
			r.inFlight.Add(-1)
			r.decline(w, q, busy())
			return
		}
		defer r.inFlight.Add(-1)
		p := q.URL.Path
		name, isModel := strings.CutPrefix(p, "/v1/models")
		switch {
		case isModel && (name == "" || name[0] == '/'):
			if q.Method != http.MethodGet {
				w.Header().Set("Allow", http.MethodGet)
				r.decline(w, q, wrongMethod(q.Method, http.MethodGet))
				return
			}
			r.serveModels(w, q, strings.TrimPrefix(name, "/"))
		case !strings.HasPrefix(p, "/v1/") || path.Clean(p) != p || administrative(p):
			r.decline(w, q, notFound(q.Method, p))
		case q.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			r.decline(w, q, wrongMethod(q.Method, http.MethodPost))
		default:
			r.serve(w, q)
		}
	})
}

// administrative says whether a path, behind /v1/, is none of inference but changes what all tenants
// share: the adapters of model servers, and what external APIs keep, run, bill or hand out keys to in
// the account of whoever runs this router.
func administrative(p string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(p, "/v1/"), "/")
	switch first {
	case "load_lora_adapter", "unload_lora_adapter": // vLLM
		return true
	case "assistants", "batches", "chatkit", "containers", "conversations", "evals", "files", "fine_tuning", "organization",
		"projects", "realtime", "skills", "threads", "uploads", "vector_stores", "webhooks": // OpenAI
		return true
	case "accounts", "agents", "deployments", "endpoints", "fine-tunes", "libraries", "organizations": // others like it
		return true
	}
	return strings.HasPrefix(p, "/v1/messages/batches") // Anthropic
}

// decline answers with an error what is no request for a model.
func (r *Router) decline(w http.ResponseWriter, q *http.Request, e *proxy.Error) {
	_, x := r.begin(w, q, false)
	defer r.end(x)
	x.refuse(e)
}

// modelCard is a model as OpenAI's API lists it; Parent, as vLLM adds it, is the base of an
// adapter.
type modelCard struct {
	ID     string `json:"id"`
	Object string `json:"object"`
	// Created is when an operator first wrote the model, in Unix seconds, so that lists of models are
	// the same until something in them changes. 0: the control plane does not tell.
	Created int64   `json:"created"`
	OwnedBy string  `json:"owned_by"`
	Parent  *string `json:"parent"`
}

// serveModels lists what the tenant may ask for, or one model of it.
func (r *Router) serveModels(w http.ResponseWriter, q *http.Request, name string) {
	_, x := r.begin(w, q, false)
	defer r.end(x)
	t := r.tables.Load()
	if t == nil {
		x.refuse(noTable())
		return
	}
	x.holds(t)
	if !r.authenticate(x, q) {
		return
	}
	cards := legalModels(t, x.tenant)
	var answer any = struct {
		Object string      `json:"object"`
		Data   []modelCard `json:"data"`
	}{"list", cards}
	if name != "" {
		answer = nil
		for _, c := range cards {
			if c.ID == name {
				answer = c
			}
		}
		if answer == nil {
			x.refuse(unknownModel(name))
			return
		}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // strings and numbers can always be marshalled
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.record.Status = http.StatusOK
	_, _ = w.Write(body) // the client may be gone, and there is nobody else to tell
}

// legalModels are the models that some cluster serves where the tenant's data may go, each with its
// aliases and adapters.
func legalModels(t *table.Table, tenant *table.Tenant) []modelCard {
	cards := []modelCard{}
	for _, m := range t.Models() {
		legal := false
		for _, c := range t.Serving(m.ID) {
			legal = legal || tenant.Allows(c.Region, c.Zone)
		}
		if !legal {
			continue
		}
		base, created := string(m.ID), int64(0)
		if !m.Created.IsZero() {
			created = m.Created.Unix()
		}
		add := func(id string, parent *string) {
			cards = append(cards, modelCard{ID: id, Object: "model", Created: created, OwnedBy: "anabranch", Parent: parent})
		}
		add(base, nil)
		for _, alias := range m.Aliases {
			add(alias, nil)
		}
		for _, adapter := range m.Adapters {
			add(adapter, &base)
		}
	}
	return cards
}
