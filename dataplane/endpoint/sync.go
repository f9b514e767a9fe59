package endpoint

import (
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/prefix"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

// maxRemoteReprobe bounds the pause between probes of a cluster in another region. They ask a
// router, not a GPU, so they are cheap.
const maxRemoteReprobe = 2 * time.Second

// Sync takes in a new table. What it still has keeps its state; an endpoint whose address or class
// has changed is a new one. Goroutines for new places start when [Registry.Run] runs.
func (r *Registry) Sync(t *table.Table) {
	r.syncing.Lock()
	defer r.syncing.Unlock()
	old := *r.current.Load()
	next := make(map[fleet.ClusterID]*Cluster, len(t.Clusters))
	for id, spec := range t.Clusters {
		c := old[id]
		if c == nil || c.Region != spec.Region || !slices.Equal(c.spec.Load().Models, spec.Models) {
			c = r.newCluster(spec)
		}
		r.update(c, spec, t)
		next[id] = c
	}
	r.current.Store(&next)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *Registry) newCluster(spec *table.Cluster) *Cluster {
	c := &Cluster{
		ID: spec.ID, Region: spec.Region, Remote: spec.Region != r.opt.Region,
		breaker: newBreaker(failover.DefaultEjectConfig()),
		windows: make(map[fleet.ModelID]*window, len(spec.Models)),
	}
	// Of a cluster with endpoints each looks after itself, and they say together how it is.
	c.breaker.trusting = !c.Remote
	for _, m := range spec.Models {
		c.windows[m] = &window{}
	}
	return c
}

func (r *Registry) update(c *Cluster, spec *table.Cluster, t *table.Table) {
	class := t.Class("")
	if len(spec.Models) > 0 {
		class = t.Class(spec.Models[0])
	}
	c.spec.Store(spec)
	c.class.Store(class)
	c.rtt.Store(int64(t.RTT(r.opt.Region, spec.Region)))
	for id, w := range c.windows {
		w.weight.store(believedWeight)
		if m, _, ok := t.Model(string(id)); ok {
			w.weight.store(m.OutputWeight)
		}
	}
	cfg := ejectConfig(class.Ejection)
	if c.Remote {
		cfg.ReprobeMax = min(cfg.ReprobeMax, maxRemoteReprobe)
		cfg.Reprobe = min(cfg.Reprobe, cfg.ReprobeMax)
	}
	c.breaker.configure(cfg)
	if c.Remote {
		return
	}
	want := spec.Endpoints
	if spec.Kind == table.KindGateway {
		want = []table.Endpoint{{ID: fleet.EndpointID(spec.ID), URL: spec.GatewayURL}}
	}
	had := c.Endpoints()
	list := make([]*Endpoint, 0, len(want))
	for _, w := range want {
		i := slices.IndexFunc(had, func(e *Endpoint) bool { return e.ID == w.ID && e.URL == w.URL && e.Class == w.Class })
		if i >= 0 {
			had[i].breaker.configure(cfg)
			list = append(list, had[i])
			continue
		}
		list = append(list, r.newEndpoint(c, w, cfg))
	}
	c.endpoints.Store(&list)
}

// believedWeight is the output weight of a model that the table doesn't describe.
const believedWeight = 6

func (r *Registry) newEndpoint(c *Cluster, w table.Endpoint, cfg failover.EjectConfig) *Endpoint {
	e := &Endpoint{
		ID: w.ID, Cluster: c, URL: w.URL, Class: w.Class,
		breaker: newBreaker(cfg), index: r.opt.Index, holder: r.opt.Index.NewHolder(prefix.Name(string(c.ID), string(w.ID), w.URL)),
		rates: make(map[fleet.ModelID]*Rates, len(c.windows)),
	}
	e.slots.store(believedSlots)
	class := w.Class
	if class == "" {
		class = "cluster " + string(c.ID) // what a gateway hides is a class of its own
	}
	for m := range c.windows {
		e.rates[m] = r.rates.of(kind{class, m})
	}
	return e
}

func ejectConfig(e table.Ejection) failover.EjectConfig {
	cfg := failover.DefaultEjectConfig()
	cfg.ConnectFailures, cfg.FailureRatio, cfg.MinRequests = e.ConnectFailures, e.FailureRatio, e.MinRequests
	cfg.Window, cfg.Reprobe, cfg.ReprobeMax = e.Window, e.Reprobe, e.ReprobeMax
	return cfg
}
