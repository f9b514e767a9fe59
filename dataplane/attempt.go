package dataplane

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"anabranch/api/credential"
	"anabranch/api/fleet"
	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/table"
	"anabranch/dataplane/trace"
	"anabranch/failover"
)

// try is one attempt at a place: what is sent, and then how it went.
type try struct {
	*place
	number int
	kind   string // first, retry, exempt, hedge or rescue
	began  time.Time
	a      proxy.Attempt
	span   trace.Span
	waits  pending
	result proxy.Result
	// drilled: a drill had it fail.
	drilled bool
	// reached: the place may have seen it.
	reached bool
	// panicked is what run panicked with in a goroutine of its own. Nil: it did not.
	panicked error
}

// attempt makes one attempt at a place, or two when the first is late and the class hedges, and
// learns from it. An answer that breaks off is continued elsewhere if the class wants that.
func (r *Router) attempt(ctx context.Context, x *trip, p *place) {
	first := r.begun(x, p, x.kind)
	if after := r.hedgeAfter(x, first); after > 0 {
		r.race(ctx, x, first, after)
	} else {
		r.run(ctx, x, first)
		r.took(x, first)
	}
	r.rescue(ctx, x)
}

// begun counts an attempt in.
func (r *Router) begun(x *trip, p *place, kind string) *try {
	x.attempts++
	x.open++
	x.latest = p
	t := &try{place: p, number: x.attempts, kind: kind, began: r.now()}
	if p.endpoint != nil {
		x.trail.Tried = append(x.trail.Tried, p.endpoint)
	} else {
		x.trail.Hopped = append(x.trail.Hopped, p.target.Cluster.ID)
	}
	t.a = proxy.Attempt{
		Body: x.bodyFor(p), Client: x.q.Header, KeepUsage: x.request.IncludeUsage,
		FirstByte: r.bound(x, p, t.began), Stall: p.stall(x, t.began), Keep: x.rescuable(p),
		Named: x.request.API == inference.Responses || x.request.API == inference.Messages,
	}
	x.topUp.watch(&t.a)
	return t
}

// run makes the attempt. It changes nothing of the trip but what the client is answered with, so
// that two may run at once.
func (r *Router) run(ctx context.Context, x *trip, t *try) {
	ctx, t.span = r.beginSpan(ctx, x, t)
	switch {
	case r.refuses(x, t):
	case t.endpoint != nil:
		r.direct(ctx, x, t)
	default:
		r.hop(ctx, x, t)
	}
	endSpan(t.span, &t.result)
}

// took takes in how an attempt went; it is the last one now.
func (r *Router) took(x *trip, t *try) {
	if t.panicked != nil {
		panic(t.panicked)
	}
	x.open--
	x.at, x.last, x.trail.Last = t.place, &t.result, met(t.place, &t.result)
	result := &t.result
	x.reached = x.reached || t.reached
	if wasUnknown(result) {
		x.trail.Unknown++
	}
	if result.Committed && t.a.Resume == nil {
		x.status = result.Status
	}
	if _, own := result.Own(); result.Committed && (t.a.Resume == nil || own > 0) {
		x.served = x.where(t)
	}
	if t.drilled {
		x.drilled.refused++
	}
	r.drillPrompt(x, t)
	r.metrics.attempted(x, t)
	r.worked(x, t)
	x.note(t, r.now())
}

// where is the cluster that an attempt came to: a peer may have chosen another of its own.
func (x *trip) where(t *try) fleet.ClusterID {
	if other := fleet.ClusterID(t.result.Served.Cluster); x.table.Clusters[other] != nil {
		return other
	}
	return t.target.Cluster.ID
}

// direct sends to an endpoint of this region.
func (r *Router) direct(ctx context.Context, x *trip, t *try) {
	secret, err := r.secret(t.target.Cluster)
	if err != nil {
		t.result = proxy.Result{Outcome: failover.Ignored, Retryable: true, Cause: err, Err: credentialMissing()}
		return
	}
	t.a.Sign, t.a.Transport = secret.Sign, secret.Transport()
	base, err := r.peers.base(t.endpoint.URL)
	if err != nil {
		t.result = proxy.Result{Outcome: failover.Ignored, Retryable: true, Cause: err}
		return
	}
	t.a.URL = at(base, x.q.URL)
	if t.target.Cluster.Kind == table.KindGateway {
		t.a.Origin = proxy.FromCluster
	}
	if t.target.Cluster.Kind == table.KindProvider {
		t.a.Origin, t.a.Client = proxy.FromCluster, abroad(x.q.Header)
	} else {
		t.a.Set = append(traceFields(t.span),
			proxy.Field{Key: proxy.HeaderFairness, Value: x.fairness},
			proxy.Field{Key: proxy.HeaderObjective, Value: objective(x.priority)},
			proxy.Field{Key: "X-Request-Id", Value: x.name()},
		)
	}
	call := x.counted(t.endpoint.Begin(x.load, r.now()))
	t.result = proxy.Result{Outcome: failover.Ignored} // if Do panics
	defer func() { r.done(call, t) }()
	r.do(ctx, x, t, call)
}

// known are the headers that an external API needs of a client. The rest is nobody's business there.
var known = []string{"Accept", "Anthropic-Beta", "Anthropic-Version", "Content-Type", "Openai-Beta", "User-Agent"}

// abroad is a client's header for an external API.
func abroad(client http.Header) http.Header {
	h := make(http.Header, len(known))
	for _, name := range known {
		if values, ok := client[name]; ok {
			h[name] = values
		}
	}
	return h
}

// do makes the attempt, watched for as long as it has no content.
func (r *Router) do(ctx context.Context, x *trip, t *try, call *endpoint.Call) {
	t.a.Commit = func(h http.Header, served proxy.Place) {
		now := r.now()
		call.FirstToken(now)
		if served.HasSaturation && t.endpoint == nil {
			call.Told(served.Saturation, now)
		}
		if x.hop {
			r.tellLoad(x, fleet.ClusterID(x.q.Header.Get(proxy.HeaderClusterHint))) // which is another now
		}
		x.record.FirstByteMs = milliseconds(now.Sub(x.start))
		x.answers(h, t, served)
		x.letGo(t)
	}
	t.waits = pending{attempt: &t.a, place: t.mortal(), since: r.now(), floor: x.class.FirstByteFloor, call: call}
	if t.endpoint != nil {
		t.waits.overdue = t.endpoint.Overdue(&x.load, seconds(t.reason.Seconds), x.class)
	}
	r.waiting.add(&t.waits)
	defer r.waiting.drop(&t.waits)
	t.result = r.relay.Do(ctx, x.w, &t.a)
	t.reached = t.reached || t.result.Outcome != failover.ConnectFailure || t.result.Status != 0
}

// letGo forgets the body of a request whose answer is the client's now: it may be long, and the answer
// take minutes. Not where the answer may have to be continued elsewhere, or another attempt has the body.
func (x *trip) letGo(t *try) {
	if t.a.Keep || t.a.Claim != nil {
		return
	}
	x.body, x.out, t.a.Body = nil, nil, nil
	x.holding.free()
}

// done counts an attempt out of its place.
func (r *Router) done(call *endpoint.Call, t *try) {
	result := &t.result
	outcome := result.Outcome
	served, hint := &result.Served, string(t.target.Hint())
	if outcome == failover.OK && served.Cluster != "" && hint != "" && served.Cluster != hint {
		outcome = failover.Ignored // the peer chose another of its clusters
	}
	busy := dispatch.Full(wasBusy(result), served.HasSaturation, served.Saturation)
	now := r.now()
	own, events := result.Own()
	if t.endpoint != nil {
		r.doubts.Note(t.cluster.ID, outcome, now)
	}
	call.Done(endpoint.Result{
		Outcome: outcome, FirstToken: result.FirstByte, Usage: own, Output: events,
		Busy: busy, Missing: wasUnknown(result), RetryAfter: retryAfter(result), RateLimit: result.RateLimit,
		Saturation: served.Saturation, HasSaturation: served.HasSaturation,
	}, now)
	r.gate.Freed()
}

// answers tells the client where its answer comes from.
func (x *trip) answers(h http.Header, t *try, served proxy.Place) {
	attempts := t.number + max(served.Attempts-1, 0)
	if t.endpoint != nil {
		served = proxy.Place{Region: string(t.target.Region), Cluster: string(t.target.Cluster.ID), Endpoint: string(t.endpoint.ID)}
	}
	if served.Cluster == "" {
		served.Region, served.Cluster = string(t.target.Region), string(t.target.Cluster.ID)
	}
	put(
		h,
		proxy.Field{Key: proxy.HeaderRegion, Value: served.Region},
		proxy.Field{Key: proxy.HeaderCluster, Value: served.Cluster},
		proxy.Field{Key: proxy.HeaderEndpoint, Value: served.Endpoint},
		proxy.Field{Key: proxy.HeaderAttempts, Value: strconv.Itoa(attempts)},
		proxy.Field{Key: "X-Request-Id", Value: x.name()},
	)
}

// put sets headers that have a value.
func put(h http.Header, all ...proxy.Field) {
	values := make([]string, len(all)) // of them all, since every answer gets them
	for i, f := range all {
		if f.Value != "" {
			values[i] = f.Value
			h[f.Key] = values[i : i+1 : i+1]
		}
	}
}

// name is the request's name to others: the client's own if it gave one.
func (x *trip) name() string {
	if x.record.ClientID != "" {
		return x.record.ClientID
	}
	return x.id
}

// recordedAttempts is how many attempts a record tells of, of more the first and the last: where no place
// has room a request may come back for as long as its class lets it wait.
const recordedAttempts = 24

// note adds an attempt to the record.
func (x *trip) note(t *try, now time.Time) {
	result := &t.result
	tried := Tried{
		Cluster: t.target.Cluster.ID, Region: t.target.Region, Kind: t.kind, Among: t.among, Status: result.Status,
		PredictedMs: t.reason.Seconds * 1e3, FirstByteMs: milliseconds(result.FirstByte), TookMs: milliseconds(now.Sub(t.began)),
		Reconnected: result.Reconnected,
	}
	if t.endpoint != nil {
		tried.Endpoint, tried.Why = t.endpoint.ID, t.reason.Why.String()
		tried.Expected, tried.Skipped = t.expected, t.skipped
		if tried.RunnerUp = t.runnerUp; t.runnerUp != "" {
			tried.RunnerUpMs = t.reason.RunnerUpSeconds * 1e3
		}
	} else {
		tried.Why = "hop"
	}
	switch {
	case result.Lost:
		tried.Code = "lost"
	case result.Err != nil:
		tried.Code = result.Err.Code
	}
	if all := x.record.Attempts; len(all) == recordedAttempts {
		all[len(all)-1] = tried
		return
	}
	x.record.Attempts = append(x.record.Attempts, tried)
}

const (
	// unsaidTokens is the length assumed of an answer that is not streamed and whose length the
	// request does not bound, and stepFloor the least time in seconds assumed for each of its tokens.
	unsaidTokens = 4096
	stepFloor    = 0.03
)

// bound is how long a place may be silent before the first content, as learned there. An answer that
// is not streamed shows nothing until it is whole, so its length counts; should its place be found
// dead before, the attempt is abandoned.
func (r *Router) bound(x *trip, p *place, now time.Time) time.Duration {
	predicted := seconds(p.reason.Seconds)
	var d time.Duration
	if p.endpoint != nil {
		d = p.endpoint.SilenceBound(&x.load, predicted, x.class, now)
	} else {
		d = p.cluster.SilenceBound(&x.load, predicted, x.class, now)
	}
	if x.request.Stream || x.request.API == inference.Embeddings {
		return d
	}
	tokens, step := x.request.MaxTokens, stepFloor
	if tokens == 0 {
		tokens = unsaidTokens
	}
	if p.endpoint != nil {
		if rates := p.endpoint.Rates(x.model.ID); rates != nil {
			l := rates.Learned()
			step = max(step, 2*(l.Step+l.StepMore*float64(p.endpoint.InFlight())))
		}
	}
	return d + time.Duration(float64(tokens)*step*float64(time.Second))
}

// stall is how long a stream of a place may be silent between tokens.
func (p *place) stall(x *trip, now time.Time) time.Duration {
	if p.endpoint != nil {
		return p.endpoint.StallBound(x.model.ID, x.class, now)
	}
	return p.cluster.StallBound(x.model.ID, x.class, now)
}

// at is a place's URL with the path of the request behind it.
func at(base *url.URL, request *url.URL) *url.URL {
	u := *base
	u.Path = base.Path + request.Path
	if request.RawPath != "" {
		u.RawPath = base.EscapedPath() + request.RawPath
	}
	u.RawQuery = request.RawQuery
	return &u
}

// secret is the credential towards a cluster.
func (r *Router) secret(c *table.Cluster) (*credential.Credential, error) {
	secret, err := r.secrets.For(c.ID, (*credential.Spec)(c.Auth))
	if err != nil {
		r.metrics.credentials.WithLabelValues(string(c.ID)).Inc()
	}
	return secret, err
}

// sign proves the router to a cluster that is scraped or looked at.
func (r *Router) sign(c *table.Cluster, q *http.Request, body []byte) error {
	secret, err := r.secret(c)
	if err != nil {
		return err
	}
	return secret.Sign(q, body)
}

// transportFor is the transport towards a cluster that wants a certificate; nil: any will do.
func (r *Router) transportFor(c *table.Cluster) http.RoundTripper {
	secret, err := r.secrets.For(c.ID, (*credential.Spec)(c.Auth))
	if err != nil {
		return nil // sign says why
	}
	return secret.Transport()
}
