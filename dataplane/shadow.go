package dataplane

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
)

const (
	// maxShadows is how many copies are under way at once; further ones are not made.
	maxShadows = 64
	// shadowRoom is the load of a place from which on it gets no copies: they must not be in
	// anybody's way.
	shadowRoom = 0.6
	// shadowWithin bounds a copy.
	shadowWithin = 2 * time.Minute
)

// shadows sends copies of requests whose answers nobody reads, as a rule asks for: to a model or
// clusters that are to be tried with real traffic. A copy is charged to no quota and counted apart.
type shadows struct {
	requests *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	cost     *prometheus.CounterVec
	skipped  *prometheus.CounterVec
	log      *slog.Logger

	mu      sync.Mutex // guards what follows
	open    int
	closed  bool
	stop    context.CancelFunc
	ctx     context.Context //nolint:containedctx // of the copies, which outlive their requests and end with the router
	running sync.WaitGroup
}

func newShadows(reg prometheus.Registerer, log *slog.Logger) (*shadows, error) {
	s := &shadows{
		log: log,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_router_shadow_requests_total",
			Help: "Shadow copies of requests, by policy, the cluster that answered, and HTTP status.",
		}, []string{"policy", "cluster", "status"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_router_shadow_tokens_total",
			Help: "Tokens of shadow copies, by policy, base model and direction (input or output). No tenant is charged for them.",
		}, []string{"policy", "model", "direction"}),
		cost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_router_shadow_cost_microdollars_total",
			Help: "What shadow copies would have cost a tenant, by policy and base model.",
		}, []string{"policy", "model"}),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_router_shadow_skipped_total",
			Help: "Shadow copies that were not made, by policy and reason (busy: too many are under way; no_room: no cluster has room).",
		}, []string{"policy", "reason"}),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, register(reg, s.requests, s.tokens, s.cost, s.skipped)
}

// begin runs a copy if there is room for one.
func (s *shadows) begin(copied func(context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.open >= maxShadows {
		return false
	}
	s.open++
	s.running.Go(func() {
		defer func() {
			// As the server does for requests: a defect that one meets must not end all others.
			if v := recover(); v != nil {
				s.log.Error("a shadow copy panicked", "panic", v, "stack", string(debug.Stack()))
			}
			s.mu.Lock()
			s.open--
			s.mu.Unlock()
		}()
		ctx, cancel := context.WithTimeout(s.ctx, shadowWithin)
		defer cancel()
		copied(ctx)
	})
	return true
}

// underWay is how many copies there are now.
func (s *shadows) underWay() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// end cuts the copies under way and waits for them.
func (s *shadows) end() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
}

// shadow sends a copy of a request if its rule wants one.
func (r *Router) shadow(x *trip) {
	if x.hop || x.rule == nil || x.rule.Shadow == nil || !x.brown.at().Extras() {
		return
	}
	s := x.rule.Shadow
	if float64(r.random()>>11)/(1<<53) >= s.Share {
		return
	}
	c := r.copied(x, s)
	if c == nil {
		r.shadows.skipped.WithLabelValues(x.rule.Policy, "no_room").Inc()
		return
	}
	if !r.shadows.begin(func(ctx context.Context) { r.sendShadow(ctx, c) }) {
		r.shadows.skipped.WithLabelValues(x.rule.Policy, "busy").Inc()
	}
}

// copied is a trip of its own for the copy, to the clusters that have room. Nil: none has.
func (r *Router) copied(x *trip, s *table.Shadow) *trip {
	model, adapter := x.model, x.adapter
	if s.Model != "" {
		var ok bool
		if model, adapter, ok = x.table.Model(s.Model); !ok {
			return nil // can't be: the table was validated
		}
	}
	c := &trip{
		w: nobody{http.Header{}}, q: x.q.Clone(context.Background()), start: r.now(), id: x.id + "-shadow", shadow: true,
		table: x.table, tenant: x.tenant, priority: priorities["batch"], fairness: "shadow",
		body: x.body, request: x.request, rule: x.rule, only: s.Clusters,
	}
	c.record = &Record{ID: c.id, At: c.start, Region: r.region, Tenant: x.tenant.ID}
	r.models(c, model, adapter)
	if c.asks() != x.asks() { // the blocks stand under that name already, and are the request's too
		c.request.Blocks = slices.Clone(c.request.Blocks)
		route.Under(c.asks(), c.request.Blocks)
		c.load.Blocks = c.request.Blocks
	}
	c.key = x.key
	r.choose(c)
	roomy := c.choice.Targets[:0]
	for _, t := range c.choice.Targets {
		// What a policy keeps its requests from may be what it wants copies to try.
		wanted := len(s.Clusters) > 0 || t.Reason != route.ByStandby
		if wanted && t.Place.Saturation < shadowRoom && !t.Place.Busy && !t.Place.Unanswered {
			roomy = append(roomy, t)
		}
	}
	if c.choice.Targets = roomy; len(roomy) == 0 {
		return nil
	}
	return c
}

// sendShadow sends a copy and counts what became of it.
func (r *Router) sendShadow(ctx context.Context, c *trip) {
	r.send(ctx, c, time.Time{})
	c.outcome(c.record)
	policy, model, used := c.rule.Policy, string(c.model.ID), c.record.Usage
	cluster := string(c.served)
	if cluster == "" {
		cluster = none
	}
	r.shadows.requests.WithLabelValues(policy, cluster, strconv.Itoa(c.record.Status)).Inc()
	r.shadows.tokens.WithLabelValues(policy, model, "input").Add(float64(used.Prompt))
	r.shadows.tokens.WithLabelValues(policy, model, "output").Add(float64(used.Completion))
	r.shadows.cost.WithLabelValues(policy, model).Add(
		(float64(used.Prompt)*float64(c.model.InputMicros) + float64(used.Completion)*float64(c.model.OutputMicros)) / 1e6)
}

// nobody takes an answer that nobody reads.
type nobody struct{ header http.Header }

func (n nobody) Header() http.Header                 { return n.header }
func (n nobody) WriteHeader(int)                     {}
func (n nobody) Write(p []byte) (int, error)         { return len(p), nil }
func (n nobody) Flush()                              {}
func (n nobody) SetWriteDeadline(time.Time) error    { return nil }
func (n nobody) SetReadDeadline(time.Time) error     { return nil }
func (n nobody) ReadFrom(r io.Reader) (int64, error) { return io.Copy(io.Discard, r) }
