package endpoint

import (
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/prefix"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

const (
	// maxRemoteReprobe bounds the pause between probes of a cluster in another region. They ask a
	// router, not a GPU, so they are cheap.
	maxRemoteReprobe = 2 * time.Second
	// providerReprobe is the least between canaries to a provider, which charges for them.
	providerReprobe = 30 * time.Second
)

// Sync takes in a new table. What it still has keeps its state; an endpoint whose address or class
// has changed is a new one. Goroutines for new places start when [Registry.Run] runs.
func (r *Registry) Sync(t *table.Table) {
	r.syncing.Lock()
	defer r.syncing.Unlock()
	r.newest = t
	r.forget(t)
	old := r.current.Load()
	next := make(map[fleet.ClusterID]*Cluster, len(t.Clusters))
	for id, spec := range t.Clusters {
		c := old.here[id]
		if c == nil || !c.is(spec) {
			c = r.newCluster(spec)
		}
		r.update(c, spec, t)
		next[id] = c
	}
	r.current.Store(&clusters{next, old.departed(next, r.opt.Now())})
	r.rates.keep(t)
	r.answers.keep(func(m fleet.ModelID) bool { return len(t.Serving(m)) > 0 })
	r.counted(next)
}

// counted counts the places that have a page, and has Run look at what has changed.
func (r *Registry) counted(clusters map[fleet.ClusterID]*Cluster) {
	n := 0
	for _, c := range clusters {
		n += len(c.Endpoints())
	}
	r.places.Store(int64(n))
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// remote: requests for the cluster go by way of the routers of its region. A provider is called from
// everywhere.
func (r *Registry) remote(spec *table.Cluster) bool {
	return spec.Kind == table.KindRouter || spec.Region != r.opt.Region && spec.Kind != table.KindProvider
}

func (r *Registry) newCluster(spec *table.Cluster) *Cluster {
	c := &Cluster{ID: spec.ID, Region: spec.Region, Remote: r.remote(spec), random: r.opt.Random, answers: &r.answers}
	if c.Remote {
		c.breaker = newBreaker(failover.DefaultEjectConfig())
		c.breaker.ejections = &c.ejections
		c.index, c.holder = r.opt.Index, r.opt.Index.NewHolder(prefix.Name(string(c.ID)))
	}
	return c
}

// learned gives the rates of a class of places for a model.
func (r *Registry) learned(class string) func(fleet.ModelID) *Rates {
	return func(m fleet.ModelID) *Rates { return r.rates.of(kind{class, m}) }
}

// serves tells an endpoint which models its cluster has.
func (r *Registry) serves(e *Endpoint, models []fleet.ModelID) {
	class := e.Class
	if class == "" {
		class = ownClass + string(e.Cluster.ID) // what a gateway hides is a class of its own
	}
	e.rates.keep(models, r.learned(class))
	e.paces.keep(models, func(fleet.ModelID) *pace { return &pace{} })
}

func (r *Registry) update(c *Cluster, spec *table.Cluster, t *table.Table) {
	class := t.Class("")
	if len(spec.Models) > 0 {
		class = t.Class(spec.Models[0])
	}
	c.windows.keep(spec.Models, func(fleet.ModelID) *window { return &window{} })
	if c.Remote {
		c.rates.keep(spec.Models, r.learned(ownClass+string(c.ID)))
	}
	c.spec.Store(spec)
	c.class.Store(class)
	c.rtt.Store(int64(t.RTT(r.opt.Region, spec.Region)))
	for id, w := range c.windows.all() {
		w.weight.store(believedWeight)
		if m, _, ok := t.Model(string(id)); ok {
			w.weight.store(m.OutputWeight)
		}
	}
	cfg := ejectConfig(class.Ejection, c.Remote, spec.Kind)
	if c.Remote {
		c.breaker.configure(cfg)
		return
	}
	had := c.Endpoints()
	found, told := r.found[c.ID]
	want := merged(found, spec.Endpoints)
	if len(want) == 0 && !told && discovers(spec) {
		want = described(had) // until it is known where they are, they are where they were
	}
	if spec.Kind == table.KindGateway || spec.Kind == table.KindProvider {
		want = []table.Endpoint{{ID: fleet.EndpointID(spec.ID), URL: spec.GatewayURL}}
	}
	warm := slices.ContainsFunc(had, func(e *Endpoint) bool { return e.begun.Load() > 0 })
	named := make(map[fleet.EndpointID]*Endpoint, len(had))
	for _, e := range had {
		named[e.ID] = e
	}
	list := make([]*Endpoint, 0, len(want))
	for _, w := range want {
		if e := named[w.ID]; e != nil && e.is(&w) {
			e.breaker.configure(cfg)
			r.serves(e, spec.Models)
			e.judges(spec.Models, cfg)
			list = append(list, e)
			continue
		}
		e := r.newEndpoint(c, w, cfg)
		if warm {
			e.ramp.start(r.opt.Now())
		}
		list = append(list, e)
	}
	c.endpoints.Store(&list)
}

// believedWeight is the output weight of a model that the table doesn't describe.
const believedWeight = 6

func (r *Registry) newEndpoint(c *Cluster, w table.Endpoint, cfg failover.EjectConfig) *Endpoint {
	e := &Endpoint{
		ID: w.ID, Cluster: c, URL: w.URL, Class: w.Class, hash: prefix.Name(string(c.ID), string(w.ID)),
		breaker: newBreaker(cfg), wake: make(chan struct{}, 1),
		index: r.opt.Index, holder: r.opt.Index.NewHolder(prefix.Name(string(c.ID), string(w.ID), w.URL)),
	}
	r.serves(e, c.Spec().Models)
	e.eventsURL, e.events = w.KVEventsURL, r.newFeed(c, e, w.KVEventsURL)
	e.slots.store(believedSlots)
	e.breaker.ejections = &c.ejections
	if c.Spec().Kind == table.KindProvider {
		e.breaker.costly = true
	} else {
		e.breaker.permit = func(b *breaker) bool { return c.mayEject(b, func(e *Endpoint) *breaker { return e.breaker }) }
	}
	e.judges(c.Spec().Models, cfg)
	return e
}

func ejectConfig(e table.Ejection, remote bool, kind string) failover.EjectConfig {
	cfg := failover.DefaultEjectConfig()
	cfg.ConnectFailures, cfg.FailureRatio, cfg.MinRequests = e.ConnectFailures, e.FailureRatio, e.MinRequests
	cfg.Window, cfg.LongWindow, cfg.Reprobe, cfg.ReprobeMax = e.Window, 0, e.Reprobe, e.ReprobeMax
	if remote || kind == table.KindProvider {
		cfg.Trial = 1 // a peer answers for itself alone, and a provider takes money for each
	}
	switch {
	case remote:
		cfg.LongWindow = cfg.Window // its own routers know sooner, and retry there
		cfg.ReprobeMax = min(cfg.ReprobeMax, maxRemoteReprobe)
		cfg.Reprobe = min(cfg.Reprobe, cfg.ReprobeMax)
	case kind == table.KindProvider:
		cfg.Reprobe = max(cfg.Reprobe, providerReprobe)
		cfg.ReprobeMax = max(cfg.ReprobeMax, 2*cfg.Reprobe) // the jitter may halve it
	}
	return cfg
}
