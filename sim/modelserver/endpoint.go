package modelserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/kvevents"
	"anabranch/sim"
)

// maxBody bounds a request, above what routers let through.
const maxBody = 32 << 20

// endpoint is one pod: a port, an engine for each model, and its faults.
type endpoint struct {
	id      fleet.EndpointID
	class   string
	runners []*runner
	faults  *faults
	ledger  ledger
	metrics *exposition
	port    port
	events  *publisher // nil: it publishes none
}

func newEndpoint(spec Endpoint, index int, opts Options) (*endpoint, error) {
	e := &endpoint{id: spec.ID, class: spec.Class, faults: newFaults(opts.Seed + uint64(index))}
	if spec.KVEvents != "" {
		e.events = newPublisher(spec.KVEvents)
	}
	for _, m := range opts.Models {
		profile, err := m.profile(spec.Class)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", spec.ID, err)
		}
		engine := sim.Options{
			Profile: profile, MaxSequences: opts.MaxSequences, StartUp: opts.StartUp, Tokens: true,
			Cache: e.events != nil,
		}
		if len(m.Adapters) > 0 {
			engine.MaxAdapters = opts.MaxAdapters
		}
		r := newRunner(m, engine, opts.TimeScale, opts.MaxModelLen)
		if e.events != nil {
			topic := kvevents.Topic(string(spec.ID), string(m.Name))
			r.publish = func(events []kvevents.Event) { e.events.publish(topic, events, time.Now()) }
		}
		e.runners = append(e.runners, r)
	}
	e.metrics = newExposition(e.runners)
	e.port = port{addr: spec.Listen, handler: e.handler()}
	return e, nil
}

// run drives the engines and serves until ctx ends.
func (e *endpoint) run(ctx context.Context) {
	// Engines outlive the handlers, which end when the port does.
	engines, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, r := range e.runners {
		running.Go(func() { r.run(engines) })
	}
	if e.events != nil {
		running.Go(func() { e.events.run(engines) })
	}
	e.port.run(ctx)
	stop()
	running.Wait()
}

// lookup finds who serves a model, and the adapter if it is one.
func (e *endpoint) lookup(model string) (r *runner, adapter string) {
	for _, r := range e.runners {
		if model == string(r.model.Name) {
			return r, ""
		}
		if r.adapters[model] {
			return r, model
		}
	}
	return nil, ""
}

func (e *endpoint) ready() bool {
	for _, r := range e.runners {
		if !r.ready() {
			return false
		}
	}
	return true
}

func (e *endpoint) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", e.generate(chatAPI))
	mux.HandleFunc("POST /v1/completions", e.generate(completionAPI))
	mux.HandleFunc("POST /v1/embeddings", e.generate(embeddingAPI))
	mux.HandleFunc("GET /v1/models", e.models)
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("GET /metrics", e.metrics)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !e.ready() {
			http.Error(w, "starting up", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// generate answers one of the paths that need an engine, and keeps the account of it.
func (e *endpoint) generate(a api) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			var tooLarge *http.MaxBytesError
			if errors.As(err, &tooLarge) {
				writeProblem(w, &problem{status: http.StatusRequestEntityTooLarge, kind: "BadRequestError", message: err.Error()})
			}
			return // else the client is gone
		}
		g, err := e.parse(a, body)
		slot := e.ledger.begin(r.Header, g.model, time.Now())
		outcome := Failed // if serve panics
		defer func() { e.ledger.end(slot, outcome) }()
		outcome = e.serve(w, r, g, err)
	}
}

// serve answers a request, ill or well, and says how it ended.
func (e *endpoint) serve(w http.ResponseWriter, r *http.Request, g generation, invalid error) Outcome {
	if e.faults.wait(r.Context()) != nil {
		return Aborted
	}
	v := e.faults.draw()
	switch {
	case v.status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
		writeProblem(w, &problem{status: v.status, kind: "RateLimitError", message: "Too many requests."})
		return Rejected
	case v.status != 0:
		writeProblem(w, &problem{status: v.status, kind: "InternalServerError", message: "Internal server error"})
		return Failed
	case invalid != nil:
		writeProblem(w, invalid)
		return Rejected
	}
	call, err := g.runner.submit(g.request, g.text)
	if err != nil {
		writeProblem(w, badRequest("", "%v", err))
		return Rejected
	}
	defer g.runner.release(call)
	if id := clip(r.Header.Get(requestHeader)); id != "" {
		w.Header().Set("X-Request-Id", id)
	}
	a := answer{generation: g, call: call, id: answerID(g.api, r.Header, call.id), created: time.Now().Unix()}
	if g.stream {
		return a.stream(r.Context(), w, v)
	}
	return a.whole(r.Context(), w, v)
}

// answerID is the id in the body, made from the request's as vLLM does.
func answerID(a api, h http.Header, call uint64) string {
	id := clip(h.Get(requestHeader))
	if id == "" {
		id = strconv.FormatUint(call, 16)
	}
	return [...]string{chatAPI: "chatcmpl-", completionAPI: "cmpl-", embeddingAPI: "embd-"}[a] + id
}

// models lists the base models and their adapters.
func (e *endpoint) models(w http.ResponseWriter, r *http.Request) {
	if e.faults.wait(r.Context()) != nil {
		return
	}
	type card struct {
		ID          string  `json:"id"`
		Object      string  `json:"object"`
		Created     int64   `json:"created"`
		OwnedBy     string  `json:"owned_by"`
		Root        string  `json:"root"`
		Parent      *string `json:"parent"`
		MaxModelLen int     `json:"max_model_len,omitempty"`
	}
	cards := []card{}
	now := time.Now().Unix()
	for _, r := range e.runners {
		base := string(r.model.Name)
		cards = append(cards, card{base, "model", now, "vllm", base, nil, r.maxLen})
		for _, a := range r.model.Adapters {
			cards = append(cards, card{string(a), "model", now, "vllm", string(a), &base, 0})
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": cards})
}

// writeProblem answers in vLLM's shape. What isn't a *problem is a 500.
func writeProblem(w http.ResponseWriter, err error) {
	var p *problem
	if !errors.As(err, &p) {
		p = &problem{status: http.StatusInternalServerError, kind: "InternalServerError", message: err.Error()}
	}
	var param *string
	if p.param != "" {
		param = &p.param
	}
	writeJSON(w, p.status, map[string]any{"error": map[string]any{
		"message": p.message, "type": p.kind, "param": param, "code": p.status,
	}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "encode answer", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone; nothing is left to do
}
