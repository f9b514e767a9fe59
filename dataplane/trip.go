package dataplane

import (
	"context"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/bearer"
	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/meter"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/queue"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
	"anabranch/dataplane/trace"
)

// statusGone is what nginx calls a request that nobody is there any more to be answered of.
const statusGone = 499

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
	// shadow: a copy that nobody waits for.
	shadow bool

	table    *table.Table
	tenant   *table.Tenant
	shown    table.KeyID // API key, if quotas single it out
	priority int32
	fairness string

	body    []byte
	holding holding // of it
	request inference.Request
	model   *table.Model
	adapter string
	class   *table.Class
	wanted  fleet.ClassID     // by a peer
	rule    *table.Rule       // of policy; nil: none speaks of it
	arm     *table.Arm        // of the rule's split; nil: it has none
	only    []fleet.ClusterID // by the rule or the arm; empty: any
	key     uint64            // of affinity
	prefix  uint64            // of pick mode prefix-hash
	prompt  int64             // tokens, estimated
	output  int64             // tokens, as the queue counts it
	brown   *brown            // of the model; nil: it has none
	most    int64             // tokens of the answer, while answers are cut short; 0: as the client says
	out     []byte            // the body as the last place got it
	outName string            // of the model in it
	load    endpoint.Load
	expects *meter.Estimates

	drilled  drilled
	noRoom   bool // turned away for want of room
	topUp    topUp
	open     int // attempts that have begun and not been taken in
	attempts int
	kind     string // of the next attempt: first, retry or exempt
	at       *place // of the last attempt that was taken in
	latest   *place // of the one that began last
	reached  bool   // a place may have seen it
	served   fleet.ClusterID
	status   int // that the client was sent with its answer
	last     *proxy.Result
	problem  *proxy.Error // answered by the router
	record   *Record

	choice route.Choice
	pass   *queue.Pass // through the queue; nil: it does not go by it
	trail  dispatch.Trail
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
	put(w.Header(), proxy.Field{Key: proxy.HeaderRequestID, Value: x.id}, proxy.Field{Key: "X-Request-Id", Value: x.name()})
	return ctx, x
}

// end records, counts and logs a request, once. It is deferred, and takes a panic for what it is: a
// defect that somebody must hear of, and of which the client learns that its answer is not whole.
func (r *Router) end(x *trip) {
	total := r.now().Sub(x.start)
	rec := x.record
	defect := recover()
	x.holding.free()
	rec.TotalMs = milliseconds(total)
	rec.Hop, rec.Stream = x.hop, x.request.Stream
	rec.Blocks, rec.PromptTokens = len(x.request.Blocks), x.prompt
	if len(x.request.Model) <= fleet.MaxNameLength {
		rec.Asked = x.request.Model
	}
	rec.Priority = x.priority
	x.outcome(rec)
	if defect != nil {
		rec.Status, rec.Code, rec.Broken = http.StatusInternalServerError, codeDefect, true
		r.log.Error("a request panicked", "request", x.id, "panic", defect, "stack", string(debug.Stack()))
	}
	r.drillEnded(x, rec)
	if rec.Tenant != "" || x.hop { // strangers shall not push out what tenants' requests left
		r.explain.add(rec)
		r.tails.offer(rec)
	}
	r.metrics.ended(x, rec, total)
	if !x.hop && (rec.Tenant != "" || rec.fault()) { // nor make its failures look few
		r.ended.Add(1)
		if rec.fault() {
			r.failed.Add(1)
		}
	}
	x.span.End(&trace.Ended{
		Status: rec.Status, Code: rec.Code, Fault: rec.fault(), Usage: rec.Usage, FirstToken: rec.FirstByteMs / 1e3,
	})
	r.lines.write(x, rec)
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
	rec.ClientGone, rec.Broken, rec.Usage = last.ClientGone, last.Broken, x.used()
	if last.Committed {
		rec.Status = x.status
		if last.Err != nil {
			rec.Code = last.Err.Code
		}
	}
	switch {
	case last.Cut:
		rec.Code = codeQuotaCut
	case last.ClientGone:
		rec.Code = "client_gone"
		if !last.Committed {
			rec.Status = statusGone
		}
	}
}

// faulty says whether what it has come to by now is for reasons that are not the client's.
func (x *trip) faulty() bool {
	var rec Record
	x.outcome(&rec)
	return rec.fault()
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
func (r *Router) authenticate(x *trip, q *http.Request) bool {
	tenant, shown, problem := r.whose(x.table, apiKey(q.Header), x.start)
	if problem != nil {
		x.refuse(problem)
		return false
	}
	x.tenant, x.shown = tenant, shown
	x.priority = priority(tenant, q.Header)
	x.fairness = fairness(tenant, q.Header)
	x.record.Tenant = tenant.ID
	return true
}

// whose finds the tenant of an API key or a signed token at a time, and whether quotas single the key out.
func (r *Router) whose(t *table.Table, key string, now time.Time) (*table.Tenant, table.KeyID, *proxy.Error) {
	tenant, id, expired := t.TenantByKey(key, now)
	switch {
	case tenant != nil:
		return tenant, id, nil
	case expired:
		return nil, 0, unauthorized("The API key has expired.")
	case key == "":
		return nil, 0, unauthorized("No API key was given. Send it as \"Authorization: Bearer KEY\".")
	case !t.TakesTokens() || !bearer.Looks(key):
		return nil, 0, unauthorized("The API key is not known here.")
	}
	tenant, err := r.tokens.Tenant(t, key, now)
	if err != nil {
		return nil, 0, unauthorized("The token " + err.Error() + ".")
	}
	return tenant, 0, nil
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

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
