package endpoint

import (
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/kvevents"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/prefix"
	"anabranch/dataplane/table"
)

// Endpoint is one place that requests of this router go to directly: a model server of a cluster
// in its own region, such a cluster's gateway, or a provider.
type Endpoint struct {
	// ID within the cluster; of a gateway or provider the cluster's name.
	ID      fleet.EndpointID
	Cluster *Cluster
	// URL without a trailing slash.
	URL string
	// Class of GPU; empty for a gateway or provider, and where none is known.
	Class string

	hash      uint64 // of cluster and ID
	breaker   *breaker
	rates     perModel[Rates]   // of the cluster's models
	paces     perModel[pace]    // likewise
	models    perModel[breaker] // likewise, where there are several
	counting  sync.Mutex        // held while they are counted
	lacking   atomic.Int32      // of these, how many are ejected
	asks      asking
	missed404 atomic.Int64 // Unix ns when a request was last told that its model is not there, and a canary asked
	index     *prefix.Index
	holder    *prefix.Holder
	trust     trust
	ramp      ramp
	busy      busy
	yield     yield // of a gateway
	watch     watch // whose looks come one at a time

	events    *kvevents.Feed // nil: it doesn't publish what its cache holds
	eventsURL string         // where it does

	signals  atomic.Pointer[Signals]
	limits   atomic.Pointer[limits]
	inFlight atomic.Int64
	begun    atomic.Uint64 // requests ever
	ended    atomic.Uint64 // of these
	slots    atomicFloat   // requests that its batch takes, or those of its servers, as learned
	backlog  backlog
	company  company
	loras    atomic.Pointer[[]string] // adapters sent here, newest first
	progress atomic.Int64             // Unix ns of the last sign that tokens flow, or of the first request after idleness
	flowed   atomic.Int64             // Unix ns of the last sign that tokens flow
	occupied atomic.Int64             // Unix ns since when requests have been there all the time
	changed  atomic.Int64             // Unix ns of the last page that differed from the one before
	caches   atomic.Bool              // its replies tell of cached tokens
	empty    atomic.Bool              // a gateway whose pool has nothing ready
	hung     atomic.Bool              // a request waited for nothing, and no token has come since
	pageless atomic.Bool              // it has no metrics

	dozing atomic.Bool   // its scraper would like to hear of the next request
	wake   chan struct{} // holds one such message
}

// Load is a request as an endpoint feels it.
type Load struct {
	// Tenant whose it is; empty: nobody's that is told apart.
	Tenant  fleet.TenantID
	Model   fleet.ModelID // base model
	Adapter string        // empty: none
	// PromptTokens estimated; PromptBytes that the estimate comes from.
	PromptTokens int64
	PromptBytes  int
	// Blocks is the prompt's hash chain.
	Blocks []uint64
	// Stream: the first token will be told by [Call.FirstToken].
	Stream bool
}

// Signals is what the last scrape found, nil before the first. It must not be changed.
func (e *Endpoint) Signals() *Signals { return e.signals.Load() }

// hides: it stands for model servers that can't be seen, as a gateway or provider does.
func (e *Endpoint) hides() bool { return e.Cluster.Spec().Kind != table.KindEndpoints }

// InFlight is how many of this router's requests are there now.
func (e *Endpoint) InFlight() int64 { return e.inFlight.Load() }

// Ejected says whether only canaries may go there, and why.
func (e *Endpoint) Ejected() (bool, string) {
	if out, why := e.breaker.ejected(); out {
		return true, why
	}
	if e.empty.Load() {
		return true, "the gateway has no ready endpoint"
	}
	if n := e.lacking.Load(); n > 0 && int(n) == len(e.models.all()) {
		return true, "none of its models answers"
	}
	return false, ""
}

// Rates are what has been learned of this endpoint's class serving a model; nil for a model that
// the cluster doesn't serve.
func (e *Endpoint) Rates(model fleet.ModelID) *Rates { return e.rates.of(model) }

// Candidate is the endpoint as it stands now for a request.
func (e *Endpoint) Candidate(l *Load, now time.Time) pick.Candidate {
	s, inFlight := e.signals.Load(), e.inFlight.Load()
	c := pick.Candidate{Hash: e.hash, Freshness: e.freshness(s, inFlight, now), InFlight: inFlight, Ramp: e.ramp.share(now)}
	c.Waiting, c.Running = s.load(inFlight, e.slots.load(), c.Freshness)
	if s != nil {
		c.KV = s.KV
	}
	var learned Learned
	if r := e.rates.of(l.Model); r != nil {
		learned = r.Learned()
		c.Prefill, c.Overhead = learned.Prefill, learned.Overhead
		c.Turn = learned.Hold / max(c.Running, 1)
	}
	servers := e.count(s)
	c.Backlog = e.backlog.tokens(now, c.Prefill, c.Overhead, servers)
	if c.Waiting > 0 && c.Freshness == pick.Fresh && s.KV < roomyKV && c.Waiting+c.Running <= e.slots.load() {
		c.Waiting = min(c.Waiting, s.strangers()+float64(e.backlog.pending()))
		c.Turn = min(c.Turn, learned.Uncached/max(c.Prefill, 1)/float64(servers))
	}
	c.Cached = e.held(l, now)
	if l.Adapter != "" {
		c.AdapterState, c.Adapter = e.adapter(s, l.Adapter, &learned)
	}
	return c
}

// roomyKV is the share of the KV cache in use below which no request waits for room in it. While the batch
// has room too, those that wait do so for the prompts before them to be computed, and no longer: ours
// that have had their first token since the scrape wait no more.
const roomyKV = 0.9

// held is how many of a prompt's tokens the endpoint probably has.
func (e *Endpoint) held(l *Load, now time.Time) int64 {
	if len(l.Blocks) == 0 {
		return 0
	}
	return e.trusted(l.cached(e.index.Match(e.holder, l.Blocks, now).Blocks))
}

// trusted is how many of the tokens believed cached to count on.
func (e *Endpoint) trusted(cached int64) int64 {
	if cached == 0 || e.caches.Load() {
		return cached
	}
	return e.trust.of(cached)
}

// cached tokens of so many blocks. At least one token is always computed.
func (l *Load) cached(blocks int) int64 {
	if blocks == 0 || l.PromptBytes == 0 {
		return 0
	}
	share := float64(blocks*inference.BlockBytes) / float64(l.PromptBytes)
	return min(int64(share*float64(l.PromptTokens)), l.PromptTokens-1)
}
