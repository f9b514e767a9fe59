// Package endpoint knows the places that requests go to: which there are, how loaded they are by
// their own metrics and by this router's own counts, how fast they have proved to be, and whether
// they are alive. It follows the table, scrapes the metrics of its own region, and looks at places
// that seem dead with canaries of one token, so that tenants' requests needn't. It chooses nothing.
package endpoint

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/kvevents"
	"anabranch/dataplane/prefix"
	"anabranch/dataplane/table"
)

// Options of a [Registry]. Only Region is needed.
type Options struct {
	// Region is the router's own: its clusters are scraped, others are known by their answers.
	Region fleet.RegionID
	// Index of prompt prefixes. Nil: one of default size.
	Index *prefix.Index
	// Transport for metrics and canaries. Nil: one that keeps a connection to each place.
	Transport http.RoundTripper
	// TransportFor is the transport towards one cluster, where it needs its own, such as one with a
	// client certificate. Nil, or an answer of nil: Transport.
	TransportFor func(c *table.Cluster) http.RoundTripper
	// Sign adds to a whole request what a cluster wants to see, such as a bearer token or a
	// signature over its body. Nil: nothing.
	Sign func(c *table.Cluster, r *http.Request, body []byte) error
	// Probe asks another region's router whether it can serve requests for a cluster; nil error
	// means it can. Nil: an ejected cluster of another region is taken back when a probe is due.
	Probe func(ctx context.Context, c *table.Cluster) error
	// Scraped hears of each scrape of a place of a cluster: how long it took, and what it failed for,
	// "error" or "no_page"; empty: it got a page. Nil: nobody does.
	Scraped func(cluster fleet.ClusterID, took time.Duration, failure string)
	// ScrapeBusy and ScrapeIdle are the shortest and the longest pause between scrapes of a place
	// that has a page of metrics. 0: 50 ms and 1 s.
	ScrapeBusy, ScrapeIdle time.Duration
	// KVEvents counts what is heard of KV caches. Nil: nothing is counted.
	KVEvents *kvevents.Metrics
	// Now tells the time. Nil: the clock.
	Now func() time.Time
	// Random is evenly spread over [0,1). Nil: math/rand.
	Random func() float64
	// Logger. Nil: none.
	Logger *slog.Logger
}

// Registry holds the places of the newest table.
type Registry struct {
	opt     Options
	log     *slog.Logger
	rates   library
	demand  demand
	answers answers
	current atomic.Pointer[clusters]
	changed chan struct{}      // holds one wake-up of Run
	words   *kvevents.Glossary // of the KV events of all
	own     *http.Transport    // the transport, if it wasn't given
	places  atomic.Int64       // that are scraped, or could be

	syncing  sync.Mutex // one Sync or Discovered at a time; guards newest and found
	newest   *table.Table
	found    map[fleet.ClusterID][]table.Endpoint
	reports  sync.Mutex // guards reported
	reported time.Time
}

// New makes a registry without places; [Registry.Sync] gives it some.
func New(opt Options) *Registry {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Random == nil {
		opt.Random = rand.Float64
	}
	if opt.Index == nil {
		opt.Index = prefix.New(0, 0, opt.Now())
	}
	var own *http.Transport
	if opt.Transport == nil {
		own = &http.Transport{
			// A dial outlives the request that it is for, so that it needs a bound of its own.
			DialContext:         (&net.Dialer{Timeout: scrapeTimeout}).DialContext,
			TLSHandshakeTimeout: scrapeTimeout,
			MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
		}
		opt.Transport = own
	}
	if opt.Scraped == nil {
		opt.Scraped = func(fleet.ClusterID, time.Duration, string) {}
	}
	opt.ScrapeBusy = cmp.Or(opt.ScrapeBusy, 50*time.Millisecond)
	opt.ScrapeIdle = cmp.Or(opt.ScrapeIdle, time.Second)
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{opt: opt, reported: opt.Now(), log: opt.Logger.With("component", "endpoint"), changed: make(chan struct{}, 1), own: own}
	r.words = kvevents.NewGlossary(0)
	r.current.Store(&clusters{})
	return r
}

// Cluster finds a cluster of the newest table; nil if it isn't there.
func (r *Registry) Cluster(id fleet.ClusterID) *Cluster { return r.current.Load().here[id] }

// Of finds the cluster that a table describes, be it the newest or one that has been replaced: a request
// keeps the table that it took. Nil: the newest does not have it, nor did any within the last minute.
func (r *Registry) Of(spec *table.Cluster, now time.Time) *Cluster {
	all := r.current.Load() // of one moment, or a cluster that comes back could be seen neither here nor gone
	if c := all.here[spec.ID]; c != nil && c.is(spec) {
		return c
	}
	if d, ok := all.gone[spec.ID]; ok && d.cluster.is(spec) && now.Sub(d.at) <= departedFor {
		return d.cluster
	}
	return nil
}

// clusters are those of the newest table by name, and those that have left it lately, or are there as
// something else now. It is never changed.
type clusters struct {
	here map[fleet.ClusterID]*Cluster
	gone map[fleet.ClusterID]departure
}

// departure is a cluster that has left the table.
type departure struct {
	cluster *Cluster
	at      time.Time
}

// departedFor is how long a cluster is remembered that has left the table.
const departedFor = time.Minute

// departed are the clusters to be remembered of those before, where others come now.
func (c *clusters) departed(next map[fleet.ClusterID]*Cluster, now time.Time) map[fleet.ClusterID]departure {
	gone := make(map[fleet.ClusterID]departure)
	for id, d := range c.gone {
		if now.Sub(d.at) <= departedFor {
			gone[id] = d
		}
	}
	for id, had := range c.here {
		if next[id] != had {
			gone[id] = departure{had, now}
		}
	}
	return gone
}

// all clusters by name.
func (r *Registry) all() []*Cluster {
	m := r.current.Load().here
	list := make([]*Cluster, 0, len(m))
	for _, c := range m {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *Cluster) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
