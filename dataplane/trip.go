package dataplane

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/meter"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/table"
	"anabranch/dataplane/trace"
)

// maxBody bounds a request's body in bytes; all of it is held so that it can be sent again.
const maxBody = 10 << 20

// firstPiece is the most that is set aside for a body before any of it has come, whatever length the
// client announces.
const firstPiece = 64 << 10

// bodyWithin bounds the time that a client may take to send its body.
const bodyWithin = 60 * time.Second

// recordedPath is how much of a request's path its record keeps: anybody may send a long one.
const recordedPath = 256

// trip is one request on its way: what each step found out, for the steps after it and the record.
type trip struct {
	span  trace.Span
	w     http.ResponseWriter
	q     *http.Request
	start time.Time
	id    string // ours
	hop   bool

	table    *table.Table
	tenant   *table.Tenant
	priority int32
	fairness string

	body    []byte
	request inference.Request
	model   *table.Model
	adapter string
	class   *table.Class
	wanted  fleet.ClassID // by a peer
	prompt  int64         // tokens, estimated
	output  int64         // tokens, reserved
	out     []byte        // the body as places get it
	load    endpoint.Load

	attempts int
	unknown  int    // attempts at places that did not know what is asked for
	kind     string // of the attempt: first, retry or exempt
	at       place  // of the attempt
	reached  bool   // a place may have seen it
	served   fleet.ClusterID
	last     *proxy.Result
	problem  *proxy.Error // answered by the router
	record   *Record

	tried      []*endpoint.Endpoint
	hopped     []fleet.ClusterID
	endpoints  []*endpoint.Endpoint
	candidates []pick.Candidate
}

// begin names a request, answers its names in the headers, and bounds the time for its body. The
// server reads what is left of a body before it answers, so that this holds for bodies too that the
// router does not want.
func (r *Router) begin(w http.ResponseWriter, q *http.Request, hop bool) (context.Context, *trip) {
	now := r.now()
	x := &trip{w: w, q: q, start: now, hop: hop}
	ctx, span := r.traces.Request(q.Context(), q.Method, q.Header)
	x.span = span
	if hop {
		x.id = r.hopID(q.Header)
	} else {
		x.id = r.requestID()
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin)) // a test's writer has none
	path := q.URL.Path
	x.record = &Record{
		ID: x.id, ClientID: clientID(q.Header), At: now, Region: r.region,
		Path: strings.Clone(path[:min(len(path), recordedPath)]), // not to hold on to the whole URL
	}
	w.Header()[proxy.HeaderRequestID] = []string{x.id}
	w.Header()["X-Request-Id"] = []string{x.name()}
	return ctx, x
}

// end records, counts and logs a request, once.
func (r *Router) end(x *trip) {
	total := r.now().Sub(x.start)
	rec := x.record
	rec.TotalMs = milliseconds(total)
	rec.Hop, rec.Stream = x.hop, x.request.Stream
	rec.Blocks, rec.PromptTokens = len(x.request.Blocks), x.prompt
	if len(x.request.Model) <= fleet.MaxNameLength {
		rec.Asked = x.request.Model
	}
	rec.Priority = x.priority
	x.outcome(rec)
	r.explain.add(rec)
	r.metrics.ended(rec, string(x.served), x.last, total)
	if !x.hop {
		r.ended.Add(1)
		if rec.fault() {
			r.failed.Add(1)
		}
	}
	x.span.End(&trace.Ended{
		Status: rec.Status, Code: rec.Code, Fault: rec.fault(), Usage: rec.Usage, FirstToken: rec.FirstByteMs / 1e3,
	})
	r.logged(x, rec)
	if rec.Broken {
		// A regular end would pass for a whole answer. The server closes the connection.
		panic(http.ErrAbortHandler)
	}
}

// outcome fills in how the request ended.
func (x *trip) outcome(rec *Record) {
	if x.problem != nil {
		rec.Status, rec.Code = x.problem.Status, x.problem.Code
	}
	last := x.last
	if last == nil {
		return
	}
	rec.ClientGone, rec.Broken, rec.Usage = last.ClientGone, last.Broken, used(last)
	if last.Committed {
		rec.Status = last.Status
		if last.Err != nil {
			rec.Code = last.Err.Code
		}
	}
	if last.ClientGone {
		rec.Code = "client_gone"
		if !last.Committed {
			rec.Status = 499 // as nginx calls it: nobody was there to be answered
		}
	}
}

// logged writes the one line that a request gets: a warning if it went wrong.
func (r *Router) logged(x *trip, rec *Record) {
	level := slog.LevelDebug
	if rec.fault() {
		level = slog.LevelWarn
	}
	if !r.log.Enabled(x.q.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request", rec.ID), slog.String("tenant", string(rec.Tenant)), slog.String("model", string(rec.Model)),
		slog.String("cluster", string(x.served)), slog.Int("status", rec.Status), slog.String("code", rec.Code),
		slog.Int("attempts", x.attempts), slog.Float64("total_ms", rec.TotalMs), slog.Bool("hop", rec.Hop),
	}
	if x.last != nil && x.last.Cause != nil {
		attrs = append(attrs, slog.Any("error", x.last.Cause))
	}
	r.log.LogAttrs(x.q.Context(), level, "request ended", attrs...)
}

// refuse answers with an error of the router's own.
func (x *trip) refuse(e *proxy.Error) {
	x.problem = e
	h := x.w.Header()
	h[proxy.HeaderErrorCode] = []string{e.Code}
	if x.attempts > 0 {
		h[proxy.HeaderAttempts] = []string{strconv.Itoa(x.attempts)}
	}
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(10 * time.Second)) // a test's writer has none
	e.Write(x.w)
}

// holds settles on the table that everything about this request is decided by.
func (x *trip) holds(t *table.Table) {
	x.table = t
	x.record.Epoch, x.record.Revision = t.Ref.Epoch, t.Ref.Revision
}

// authenticate finds the tenant and what its request may claim. False: it has been answered.
func (x *trip) authenticate(q *http.Request) bool {
	key := apiKey(q.Header)
	tenant, ok := x.table.TenantByKey(key)
	if !ok {
		x.refuse(unauthorized(key))
		return false
	}
	x.tenant = tenant
	x.priority = priority(tenant, q.Header)
	x.fairness = fairness(tenant, q.Header)
	x.record.Tenant = tenant.ID
	return true
}

// models fills in what follows from the model.
func (x *trip) models(m *table.Model, adapter string) {
	x.model, x.adapter = m, adapter
	x.class = x.table.Class(m.ID)
	if c, ok := x.table.ClassNamed(x.wanted, m.ID); ok && x.wanted != "" {
		x.class = c
	}
	x.prompt = admit.InputTokens(x.request.PromptBytes)
	x.output = admit.OutputTokens(x.request.MaxTokens)
	x.record.Model, x.record.Adapter, x.record.Class = m.ID, adapter, x.class.ID
	x.span.Asked(&trace.Asked{
		ID: x.id, Tenant: string(x.record.Tenant), API: x.request.API, Model: x.request.Model, Class: string(x.class.ID),
		Stream: x.request.Stream, MaxTokens: x.request.MaxTokens,
	})
	// Places know the base model by its name, and adapters by theirs.
	name := adapter
	if name == "" {
		name = string(m.ID)
	}
	x.out = x.request.Rewrite(x.body, name, true)
	x.load = endpoint.Load{
		Model: m.ID, Adapter: adapter, PromptTokens: x.prompt, PromptBytes: x.request.PromptBytes,
		Blocks: x.request.Blocks, Stream: x.request.Stream,
	}
}

// account is what the request used, and how it ended for its quotas.
func (x *trip) account() (meter.Usage, meter.Fate) {
	last := x.last
	switch {
	case last == nil || !last.Committed && !x.reached:
		return meter.Usage{}, meter.NotSent
	case !last.Committed, last.Status >= 400:
		return meter.Usage{}, meter.FailedBeforeContent
	}
	u := meter.Usage(used(last))
	if last.Broken {
		return u, meter.Broken
	}
	return u, meter.Completed
}

// used is the usage that the place told. Where it told none, and in an answer that ended too soon
// for the last word of it, the content events that came count, if they are more.
func used(last *proxy.Result) inference.Usage {
	u := last.Usage
	if !last.HasUsage || last.Broken {
		u.Completion = max(u.Completion, last.Events)
	}
	return u
}

// apiKey is the key that a request shows: as OpenAI's clients send it, or as Anthropic's do.
func apiKey(h http.Header) string {
	if scheme, key, ok := strings.Cut(h.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(key)
	}
	return h.Get("X-Api-Key")
}

// priorities of objectives by name, as tiers are called.
var priorities = map[string]int32{"batch": -10, "best-effort": 0, "standard": 50, "top": 100}

// priority is the tenant's, or less if the client asks for less.
func priority(t *table.Tenant, h http.Header) int32 {
	p := t.Priority
	if v, err := strconv.ParseInt(h.Get(proxy.HeaderPriority), 10, 32); err == nil {
		p = min(p, int32(v))
	}
	if v, ok := priorities[h.Get(proxy.HeaderObjective)]; ok {
		p = min(p, v)
	}
	return max(p, priorities["batch"])
}

// objective is the priority class that a gateway is told: the highest tier within the priority.
func objective(priority int32) string {
	switch {
	case priority >= 100:
		return "top"
	case priority >= 50:
		return "standard"
	case priority >= 0:
		return "best-effort"
	}
	return "batch"
}

// fairness is the flow that a gateway shares fairly by: the tenant, which a client's own id may
// only divide.
func fairness(t *table.Tenant, h http.Header) string {
	if id := h.Get(proxy.HeaderFairness); id != "" && len(id) <= 64 && printable(id) {
		return string(t.ID) + "/" + id
	}
	return string(t.ID)
}

// readBody takes in all of the body, or says what is wrong with it.
func readBody(w http.ResponseWriter, q *http.Request) ([]byte, *proxy.Error) {
	if q.ContentLength > maxBody {
		return nil, tooLarge()
	}
	size := q.ContentLength
	if size < 0 {
		size = 4 << 10
	}
	body, err := readAll(http.MaxBytesReader(w, q.Body, maxBody), size)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge()
	case err != nil:
		return nil, unreadable()
	}
	// Or a long answer would look like a client that left.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body, nil
}

// readAll is io.ReadAll with room for the size expected, as it comes.
func readAll(from io.Reader, size int64) ([]byte, error) {
	b := make([]byte, 0, min(size, firstPiece)+1)
	for {
		n, err := from.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if len(b) == cap(b) {
			more := min(int64(len(b)), max(size+1-int64(len(b)), bytes.MinRead))
			b = slices.Grow(b, int(more))
		}
	}
}

func problemOf(err error) *proxy.Error {
	var p *inference.Problem
	if errors.As(err, &p) {
		return malformed(p)
	}
	return malformed(&inference.Problem{Message: "The body can't be read."})
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
