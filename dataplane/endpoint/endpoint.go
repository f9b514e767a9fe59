package endpoint

import (
	"slices"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/prefix"
)

// Endpoint is one place that requests of this router go to directly: a model server of a cluster
// in its own region, or such a cluster's gateway.
type Endpoint struct {
	// ID within the cluster; of a gateway the cluster's name.
	ID      fleet.EndpointID
	Cluster *Cluster
	// URL without a trailing slash.
	URL string
	// Class of GPU; empty for a gateway.
	Class string

	breaker *breaker
	rates   map[fleet.ModelID]*Rates // of the cluster's models; never changed
	index   *prefix.Index
	holder  *prefix.Holder

	signals  atomic.Pointer[Signals]
	inFlight atomic.Int64
	begun    atomic.Uint64 // requests ever
	slots    atomicFloat   // requests that its batch takes, as learned
	backlog  backlog
	loras    atomic.Pointer[[]string] // adapters sent here, newest first
	progress atomic.Int64             // Unix ns of the last sign that tokens flow
	caches   atomic.Bool              // its replies tell of cached tokens
	empty    atomic.Bool              // a gateway whose pool has nothing ready
	hung     atomic.Bool              // a request waited for nothing, and no token has come since
	busy     atomic.Int64             // Unix ns until which it wants no more, as it said
}

// Load is a request as an endpoint feels it.
type Load struct {
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
	return false, ""
}

// Rates are what has been learned of this endpoint's class serving a model; nil for a model that
// the cluster doesn't serve.
func (e *Endpoint) Rates(model fleet.ModelID) *Rates { return e.rates[model] }

// Candidate is the endpoint as it stands now for a request.
func (e *Endpoint) Candidate(l *Load, now time.Time) pick.Candidate {
	s, inFlight := e.signals.Load(), e.inFlight.Load()
	c := pick.Candidate{Freshness: s.Freshness(now), InFlight: inFlight}
	room := e.slots.load()
	c.Waiting, c.Running = s.load(inFlight, room, c.Freshness)
	if s != nil {
		c.KV = s.KV
	}
	var learned Learned
	if r := e.rates[l.Model]; r != nil {
		learned = r.Learned()
		c.Prefill, c.Overhead = learned.Prefill, learned.Overhead
		c.Turn = learned.Hold / max(c.Running, 1)
	}
	c.Backlog = e.backlog.tokens(now, c.Prefill)
	if len(l.Blocks) > 0 {
		c.Cached = l.cached(e.index.Match(e.holder, l.Blocks, now).Blocks)
	}
	if l.Adapter != "" && !e.hasAdapter(s, l.Adapter) {
		c.Adapter = believedAdapter
	}
	return c
}

// cached tokens of so many blocks. At least one token is always computed.
func (l *Load) cached(blocks int) int64 {
	if blocks == 0 || l.PromptBytes == 0 {
		return 0
	}
	share := float64(blocks*inference.BlockBytes) / float64(l.PromptBytes)
	return min(int64(share*float64(l.PromptTokens)), l.PromptTokens-1)
}

func (e *Endpoint) hasAdapter(s *Signals, adapter string) bool {
	if s != nil && slices.Contains(s.Adapters, adapter) {
		return true
	}
	sent := e.loras.Load()
	return sent != nil && slices.Contains(*sent, adapter)
}

// fewLoRA is how many adapters are believed to fit where the server doesn't tell.
const fewLoRA = 4

// sentAdapter notes that an adapter is about to be there, for the least recently used it pushes
// out.
func (e *Endpoint) sentAdapter(adapter string) {
	limit := fewLoRA
	if s := e.signals.Load(); s != nil && s.MaxLoRA > 0 {
		limit = s.MaxLoRA
	}
	for {
		old := e.loras.Load()
		var list []string
		if old != nil {
			if list = *old; list[0] == adapter {
				return
			}
		}
		next := make([]string, 1, limit+1)
		next[0] = adapter
		for _, a := range list {
			if a != adapter && len(next) < limit {
				next = append(next, a)
			}
		}
		if e.loras.CompareAndSwap(old, &next) {
			return
		}
	}
}
