// Package dataplane is the router: the straight line from a client's request to its settlement,
// and the hub that connects the packages that each know one step of it. It keeps no state of its
// own beyond counts, and decides nothing that a step could decide.
package dataplane

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/credential"
	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/adapters"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/bearer"
	"anabranch/dataplane/discover"
	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/kvevents"
	"anabranch/dataplane/meter"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/queue"
	"anabranch/dataplane/route"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/table"
	"anabranch/dataplane/trace"
	"anabranch/dataplane/usage"
)

// Router serves requests. Make one with [New], hand each table to [Router.Applied] before it
// is stored, and keep
// [Router.Run] running while its handlers serve.
type Router struct {
	o      Options
	region fleet.RegionID
	tables *table.Holder
	now    func() time.Time
	random func() uint64
	log    *slog.Logger

	places    *endpoint.Registry
	admit     *admit.Admitter
	meter     *meter.Meter
	estimates *meter.Estimates
	usage     *usage.Counter
	relay     *proxy.Relay
	secrets   *credential.Store
	keys      *bearer.Keys
	tokens    *bearer.Checker
	affinity  *route.Affinity
	budget    dispatch.Budget
	hedges    hedges
	shadows   *shadows
	gate      *queue.Gate
	brown     brownouts
	finders   *discover.Discoverer
	looker    *adapters.Looker
	looks     *http.Transport // of looker
	sight     dispatch.Sight
	local     func(fleet.ClusterID, *table.Tenant) route.Place // of sight
	lines     *lines
	peers     *peers
	waiting   *waiting
	doubts    dispatch.Doubts
	explain   *explanations
	tails     *tails
	drills    *drills
	topUps    *topUps
	metrics   *metrics
	series    *series
	prefixes  *prefixes
	traces    *trace.Tracer
	registry  *prometheus.Registry

	bodies   bodies
	inFlight atomic.Int64 // clients' requests
	hops     atomic.Int64 // requests from peers
	turn     atomic.Uint64
	draining atomic.Bool
	ended    atomic.Uint64 // clients' requests since the last report
	failed   atomic.Uint64 // of those, 5xx or broken
}

// New makes a router. It starts nothing.
func New(o Options) (*Router, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.defaults()
	r := &Router{
		o: o, region: o.Region, tables: o.Tables, now: o.Now, random: o.Random,
		log:       o.Logger.With("component", "router"),
		relay:     proxy.New(proxy.Options{PeerTLS: o.PeerTLS}),
		secrets:   credential.New(credential.Options{Dir: o.SecretsDir, Now: o.Now, Logger: o.Logger}),
		affinity:  route.NewAffinity(o.Now()),
		waiting:   newWaiting(),
		explain:   &explanations{},
		lines:     newLines(o.Requests, o.Logger.With("component", "router")),
		traces:    trace.New(o.Traces, o.Version),
		registry:  o.Registry,
		series:    &series{to: o.Registry},
		estimates: meter.NewEstimates(),
		prefixes:  newPrefixes(o.Now()),
	}
	r.bodies.most = o.MaxBodies
	r.peers = newPeers(r.relay.Peer())
	events, err := kvevents.NewMetrics(r.series)
	if err != nil {
		return nil, err
	}
	if r.keys, err = bearer.NewKeys(bearer.KeysOptions{Registerer: r.series, Now: o.Now, Logger: o.Logger}); err != nil {
		return nil, err
	}
	r.tokens = bearer.New(r.keys)
	r.places = endpoint.New(endpoint.Options{
		Region: o.Region, Index: r.prefixes.index, KVEvents: events,
		Scraped: func(id fleet.ClusterID, took time.Duration, failure string) { r.metrics.scraped(id, took, failure) },
		Sign:    r.sign, TransportFor: r.transportFor, Probe: r.probe, Now: o.Now, Logger: o.Logger,
	})
	if r.admit, err = admit.New(admit.Options{
		Stores: o.Quotas, Inline: o.Inline, Router: o.Router, Region: o.Region, Registerer: r.series, Now: o.Now, Logger: o.Logger,
		Informed: func(now time.Time) bool { return o.Sight(now) == subscribe.Current }, Lost: r.quotaStoreLost,
	}); err != nil {
		return nil, err
	}
	if r.meter, err = meter.New(meter.Options{Registerer: r.series}); err != nil {
		return nil, err
	}
	if r.usage, err = usage.New(usage.Options{Now: o.Now, Registerer: r.series}); err != nil {
		return nil, err
	}
	r.sight = dispatch.Sight{Places: r.places, Now: r.now}
	r.local = r.sight.Of
	if r.finders, err = discover.New(discover.Options{
		Found: r.places.Discovered, Region: o.Region, Dir: o.DiscoveryDir, Finders: o.Finders, Registerer: r.series, Now: o.Now, Logger: o.Logger,
	}); err != nil {
		return nil, err
	}
	if r.looker, r.looks, err = r.newLooker(); err != nil {
		return nil, err
	}
	if r.gate, err = queue.New(queue.Options{Registerer: r.series, Now: o.Now}); err != nil {
		return nil, err
	}
	if r.tails, err = newTails(r.now, r.series); err != nil {
		return nil, err
	}
	if r.shadows, err = newShadows(r.series, r.log); err != nil {
		return nil, err
	}
	if r.topUps, err = newTopUps(r.series); err != nil {
		return nil, err
	}
	if r.drills, err = newDrills(r.series, r.now()); err != nil {
		return nil, err
	}
	if r.metrics, err = newMetrics(r.series, r); err != nil {
		return nil, err
	}
	return r, nil
}

// Run does what goes on beside requests, until ctx ends: scraping and canaries, looking for the
// quota store, settling. End it after the last request: what is left to settle is settled before
// it returns.
func (r *Router) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Requests settle with the admitter, which therefore ends after all else.
	last, stopLast := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLast()
	var beside, admitter sync.WaitGroup
	errs := make(chan error, 15)
	part := func(ctx context.Context, run func(context.Context) error) func() {
		return func() {
			errs <- run(ctx)
			stop() // one that ends, ends the rest
		}
	}
	if !r.o.Inline {
		admitter.Go(part(last, r.admit.Run))
	}
	beside.Go(part(ctx, r.places.Run))
	beside.Go(part(ctx, r.sweep))
	beside.Go(part(ctx, r.finders.Run))
	beside.Go(part(ctx, r.looker.Run))
	beside.Go(part(ctx, r.keys.Run))
	beside.Go(part(ctx, r.gate.Run))
	beside.Go(part(ctx, r.obeyOrders))
	beside.Go(part(ctx, r.watchDrills))
	beside.Go(part(ctx, r.brownOut))
	beside.Go(part(ctx, r.keepWarm))
	beside.Go(part(ctx, r.takeOver))
	beside.Go(part(ctx, r.pruneSeries))
	beside.Go(part(ctx, r.usage.Run))
	beside.Wait()
	r.shadows.end()
	stopLast()
	admitter.Wait()
	r.relay.Close()
	r.looks.CloseIdleConnections()
	r.secrets.Close()
	close(errs)
	var problems []error
	for err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

func (r *Router) sweep(ctx context.Context) error { return r.waiting.run(ctx, r.now) }

// Applied takes in a table that is about to be put in force: its places are there before any request can
// take it, and those that it lacks are still found by requests that took one before.
func (r *Router) Applied(t *table.Table) {
	secrets := make(map[fleet.ClusterID]*credential.Spec)
	for id, c := range t.Clusters {
		secrets[id] = (*credential.Spec)(c.Auth)
	}
	r.secrets.Sync(secrets)
	r.places.Sync(t)
	r.finders.Sync(t)
	r.keys.Sync(t)
	r.admit.Applied(t)
	r.drills.applied(t)
	r.peers.sync(t)
	r.series.applied(t)
	r.prefixes.applied(t)
	r.brown.applied(t)
	r.bodies.keep(func(id fleet.TenantID) bool {
		_, there := t.Tenant(id)
		return there
	})
	r.estimates.Keep(
		func(id fleet.TenantID) bool { _, there := t.Tenant(id); return there },
		func(id fleet.ModelID) bool { m, _, there := t.Model(string(id)); return there && m.ID == id },
	)
	has := func(id fleet.ClusterID) bool { return t.Clusters[id] != nil }
	r.budget.Keep(has)
	r.doubts.Keep(has)
}

// Quotas judges requests by their tenants' quotas, also those that others than this router carry.
func (r *Router) Quotas() *admit.Admitter { return r.admit }

// Usage is what clients' requests used, for the control plane.
func (r *Router) Usage() *usage.Counter { return r.usage }

// Report is what this router knows, for the control plane; the counts are those since the last
// call.
func (r *Router) Report(now time.Time) *routerpb.Report {
	report := r.places.Report(now)
	if t := r.tables.Load(); t != nil {
		report.Applied = t.Ref.Proto()
	}
	report.InFlight = r.inFlight.Load()
	report.Brownout = uint32(r.brown.highest())
	report.QuotaStoreOk = r.admit.StoreOK()
	report.Quotas = r.admit.Signals(now)
	report.Requests, report.Failures = r.ended.Swap(0), r.failed.Swap(0)
	r.adapterReport(report)
	r.drillReport(report, r.tables.Load(), now)
	return report
}

// serve is the line that a client's request takes. What goes wrong in a step is answered, and the
// line ends there.
func (r *Router) serve(w http.ResponseWriter, q *http.Request) {
	ctx, x := r.begin(w, q, false)
	defer r.end(x)
	t := r.tables.Load()
	if t == nil {
		x.refuse(noTable())
		return
	}
	x.holds(t)
	if !r.authenticate(x, q) || !r.read(x, q) {
		return
	}

	reservation, decision := r.admit.Take(ctx, t, admit.Request{
		Tenant: x.tenant, Key: x.shown, Model: x.model, Input: x.prompt, Output: r.reserve(x),
	})
	if !decision.Allowed {
		admit.WriteHeaders(w.Header(), decision)
		e := denied(decision)
		x.record.Quota = &Refusal{Limit: decision.Limit.ID, Reason: decision.Reason, Message: e.Message, Degraded: decision.Degraded}
		x.refuse(e)
		return
	}
	defer func() {
		used, fate := x.account()
		r.meter.Settle(reservation, x.subject(), used, fate)
		r.answered(x, fate)
		r.learn(x)
	}()
	admit.WriteHeaders(w.Header(), decision)
	x.topUp.begin(reservation, r.now, r.topUps)
	r.places.Asked(x.model.ID, x.class.ID, queue.Counts(x.priority), x.model.Work(x.prompt, r.answer(x))) // what quotas deny is no demand

	r.choose(x)
	if r.shedByPlan(x) || r.brownedOut(x) {
		return
	}
	r.shadow(x)
	r.deliver(ctx, x)
}

// serveHop is the same line for a request from another region's router, which has authenticated
// and charged it: it goes to a cluster of this region or back.
func (r *Router) serveHop(w http.ResponseWriter, q *http.Request) {
	ctx, x := r.begin(w, q, true)
	defer r.end(x)
	t := r.tables.Load()
	if t == nil {
		x.refuse(noTable())
		return
	}
	x.holds(t)
	if !x.trust(q) || !r.read(x, q) {
		return
	}
	r.choose(x)
	wanted := fleet.ClusterID(q.Header.Get(proxy.HeaderClusterHint))
	x.choice.Prefer(wanted)
	r.tellLoad(x, wanted)
	if r.full(x) {
		x.refuse(noCapacity())
		return
	}
	r.send(ctx, x, time.Time{})
	r.learn(x)
}
