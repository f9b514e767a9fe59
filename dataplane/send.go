package dataplane

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
	"anabranch/dataplane/trace"
	"anabranch/failover"
)

const (
	// perCluster is how many endpoints of one cluster are tried before the next cluster's turn:
	// when two in a row fail it is more likely the cluster than the endpoint.
	perCluster = 2
	// maxAttempts bounds one request's attempts at places.
	maxAttempts = 6
	// maxUnknown is how many places may say that they don't know what is asked for before they are
	// believed. Adapters are not everywhere, and are looked for further.
	maxUnknown = 2
)

// place is where an attempt goes: an endpoint of this region, or a cluster of another.
type place struct {
	target   *route.Target
	cluster  *endpoint.Cluster
	endpoint *endpoint.Endpoint // nil: in another region
	among    int
	reason   pick.Reason
}

// send tries the targets until one answers, none is left, or no retry is allowed.
func (r *Router) send(ctx context.Context, x *trip, choice *route.Choice) {
	x.record.chose(choice)
	if choice.Code != "" {
		x.refuse(r.unroutable(x, choice))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, x.class.RequestTimeout)
	defer cancel()
	targets := choice.Targets
	from, row := 0, 0 // whose turn it is, and attempts made there in a row
	var shut []bool   // the targets that can't take the next attempt
	for {
		i := r.next(x, targets, from, shut)
		if i < 0 {
			break
		}
		if i != from {
			from, row = i, 0
		}
		p, ok := r.place(x, &targets[i])
		if !ok || !r.mayTry(x, &p) {
			if shut == nil {
				shut = make([]bool, len(targets))
			}
			shut[i] = true
			continue
		}
		clear(shut)
		r.attempt(ctx, x, &p)
		if !x.last.Retryable {
			x.finish()
			return
		}
		if x.attempts == maxAttempts || x.unknown == maxUnknown && x.adapter == "" {
			break
		}
		if row++; row == perCluster {
			from, row = (i+1)%len(targets), 0
		}
	}
	r.giveUp(x)
}

// giveUp answers where no attempt is left. What no place knows, a path or an API, is the client's
// mistake.
func (r *Router) giveUp(x *trip) {
	switch {
	case x.last == nil:
		x.refuse(noCapacity())
	case wasUnknown(x.last):
		x.refuse(notServed(x.q.Method, x.q.URL.Path, x.last.Err.Origin))
	default:
		x.refuse(exhausted(x.last.Err, x.deadSince()))
	}
}

// finish answers where the last attempt neither answered nor leaves another to be made.
func (x *trip) finish() {
	if !x.last.Committed && x.last.Err != nil {
		x.refuse(x.last.Err)
	}
}

// place finds where in a target to go next: the best endpoint that was not tried, or by way of
// another region's router, once. False: there is none, or it has been found dead since.
func (r *Router) place(x *trip, target *route.Target) (place, bool) {
	cluster := r.places.Cluster(target.Cluster.ID)
	if cluster == nil {
		return place{}, false // of a table that has been replaced
	}
	if dead, _ := cluster.Ejected(); dead {
		return place{}, false
	}
	p := place{target: target, cluster: cluster}
	if target.Remote {
		return p, !slices.Contains(x.hopped, target.Cluster.ID)
	}
	now := r.now()
	x.endpoints, x.candidates = cluster.Candidates(&x.load, now, x.skipped(now), x.endpoints[:0], x.candidates[:0])
	if len(x.endpoints) == 0 && wasSilent(x.last) {
		x.endpoints, x.candidates = cluster.Candidates(&x.load, now, x.wasTried, x.endpoints, x.candidates)
	}
	mode, _ := pick.ModeOf(x.class.PickMode) // the table holds none but the known
	rnd := r.random()
	if mode == pick.RoundRobin {
		rnd = r.turn.Add(1)
	}
	best, reason := pick.Best(pick.Request{PromptTokens: x.prompt}, x.candidates, mode, rnd)
	if best < 0 {
		return place{}, false
	}
	p.endpoint, p.among, p.reason = x.endpoints[best], len(x.endpoints), reason
	return p, true
}

// attempt makes one attempt at a place and learns from it.
func (r *Router) attempt(ctx context.Context, x *trip, p *place) {
	x.attempts++
	x.at = *p
	began := r.now()
	ctx, span := r.beginSpan(ctx, x, p)
	a := &proxy.Attempt{
		Body: x.out, Client: x.q.Header, KeepUsage: x.request.IncludeUsage, FirstByte: r.bound(x, p),
	}
	var result proxy.Result
	if p.endpoint != nil {
		x.tried = append(x.tried, p.endpoint)
		result = r.direct(ctx, x, p, a, span)
	} else {
		x.hopped = append(x.hopped, p.target.Cluster.ID)
		result = r.hop(ctx, x, p, a, span)
	}
	endSpan(span, &result)
	x.last = &result
	if wasUnknown(&result) {
		x.unknown++
	}
	if result.Committed {
		x.served = p.target.Cluster.ID
		if other := fleet.ClusterID(result.Served.Cluster); x.table.Clusters[other] != nil {
			x.served = other
		}
	}
	r.metrics.attempted(string(p.target.Cluster.ID), x.kind, result.Outcome)
	x.note(p, &result, began, r.now())
}

// direct sends to an endpoint of this region.
func (r *Router) direct(ctx context.Context, x *trip, p *place, a *proxy.Attempt, span trace.Span) proxy.Result {
	secret, err := r.secrets.authorization(p.target.Cluster)
	if err != nil {
		return proxy.Result{Outcome: failover.Ignored, Retryable: true, Cause: err, Err: &proxy.Error{
			Status: http.StatusBadGateway, Type: proxy.TypeServer, Code: "credential_missing", Origin: proxy.FromRouter,
			Message: "This router lacks the credential of the cluster.",
		}}
	}
	base, err := r.peers.base(p.endpoint.URL)
	if err != nil {
		return proxy.Result{Outcome: failover.Ignored, Retryable: true, Cause: err}
	}
	a.URL = at(base, x.q.URL)
	if p.target.Cluster.Kind == table.KindGateway {
		a.Origin = proxy.FromCluster
	}
	a.Set = []proxy.Field{
		{Key: proxy.HeaderFairness, Value: x.fairness},
		{Key: proxy.HeaderObjective, Value: objective(x.priority)},
		{Key: "X-Request-Id", Value: x.name()},
		{Key: "Authorization", Value: secret},
	}
	a.Set = append(a.Set, traceFields(span)...)
	call := p.endpoint.Begin(x.load, r.now())
	result := proxy.Result{Outcome: failover.Ignored} // if Do panics
	defer func() { r.done(call, p, &result) }()
	result = r.do(ctx, x, p, a, call)
	return result
}

// do makes the attempt, watched for as long as it has no content.
func (r *Router) do(ctx context.Context, x *trip, p *place, a *proxy.Attempt, call *endpoint.Call) proxy.Result {
	a.Commit = func(h http.Header, served proxy.Place) {
		now := r.now()
		call.FirstToken(now)
		x.record.FirstByteMs = milliseconds(now.Sub(x.start))
		x.place(h, p, served)
	}
	defer r.waiting.add(a, p, r.now(), x.class.FirstByteFloor)()
	result := r.relay.Do(ctx, x.w, a)
	if result.Outcome != failover.ConnectFailure || result.Status != 0 {
		x.reached = true
	}
	return result
}

// done counts an attempt out of its place.
func (r *Router) done(call *endpoint.Call, p *place, result *proxy.Result) {
	outcome := result.Outcome
	if served := result.Served.Cluster; outcome == failover.OK && served != "" && served != string(p.target.Cluster.ID) {
		outcome = failover.Ignored // the peer chose another of its clusters
	}
	now := r.now()
	if p.endpoint != nil {
		r.doubts.note(p.cluster.ID, outcome, now)
	}
	call.Done(endpoint.Result{
		Outcome: outcome, FirstToken: result.FirstByte, Usage: result.Usage, Output: result.Events,
		Busy: wasBusy(result), RetryAfter: retryAfter(result),
	}, now)
}

// place tells the client where its answer comes from.
func (x *trip) place(h http.Header, p *place, served proxy.Place) {
	attempts := x.attempts + max(served.Attempts-1, 0)
	if p.endpoint != nil {
		served = proxy.Place{Region: string(p.target.Region), Cluster: string(p.target.Cluster.ID), Endpoint: string(p.endpoint.ID)}
	}
	if served.Cluster == "" {
		served.Region, served.Cluster = string(p.target.Region), string(p.target.Cluster.ID)
	}
	h[proxy.HeaderRegion] = []string{served.Region}
	h[proxy.HeaderCluster] = []string{served.Cluster}
	if served.Endpoint != "" {
		h[proxy.HeaderEndpoint] = []string{served.Endpoint}
	}
	h[proxy.HeaderAttempts] = []string{strconv.Itoa(attempts)}
	h["X-Request-Id"] = []string{x.name()}
}

// name is the request's name to others: the client's own if it gave one.
func (x *trip) name() string {
	if x.record.ClientID != "" {
		return x.record.ClientID
	}
	return x.id
}

// note adds an attempt to the record.
func (x *trip) note(p *place, result *proxy.Result, began, now time.Time) {
	t := Tried{
		Cluster: p.target.Cluster.ID, Region: p.target.Region, Among: p.among, Status: result.Status,
		PredictedMs: p.reason.Seconds * 1e3, FirstByteMs: milliseconds(result.FirstByte), TookMs: milliseconds(now.Sub(began)),
	}
	if p.endpoint != nil {
		t.Endpoint, t.Why = p.endpoint.ID, p.reason.Why.String()
	} else {
		t.Why = "hop"
		t.PredictedMs = milliseconds(p.cluster.Evidence(now).Wait)
	}
	if result.Err != nil {
		t.Code = result.Err.Code
	}
	x.record.Attempts = append(x.record.Attempts, t)
}

const (
	// slack is how many times the predicted time to the first token may pass in silence.
	slack = 4
	// unsaidTokens is the length assumed of an answer that is not streamed and whose length the
	// request does not bound, and stepFloor the least time assumed for each of its tokens.
	unsaidTokens = 4096
	stepFloor    = 0.03
)

// bound is how long a place may be silent before the first content. It is the class's floor, or
// longer where the prediction says so; for a place in another region twice that, since the router
// there may try two places. An answer that is not streamed shows nothing until it is whole, so its
// length counts; should its place be found dead before, the attempt is abandoned.
func (r *Router) bound(x *trip, p *place) time.Duration {
	predicted := time.Duration(p.reason.Seconds * float64(time.Second))
	if p.endpoint == nil {
		predicted = p.cluster.Evidence(r.now()).Wait + x.table.RTT(r.region, p.target.Region)
	}
	d := max(x.class.FirstByteFloor, slack*predicted)
	if p.endpoint == nil {
		d *= 2
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
