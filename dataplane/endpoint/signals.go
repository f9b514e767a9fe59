package endpoint

import (
	"time"

	"anabranch/api/exposition"
	"anabranch/dataplane/pick"
)

// How long signals are believed. Fresh ones are compared by; stale ones are a floor for load and
// nothing more; older ones are as good as none.
const (
	freshFor = 2 * time.Second
	staleFor = 30 * time.Second
)

// Signals is what one scrape found. It is never changed.
type Signals struct {
	// At is when the scrape was asked for; zero: never.
	At time.Time
	// Waiting and Running are requests queued and in the batch; sums over the pool for a gateway,
	// with those that it holds back itself.
	Waiting, Running float64
	// KV is the share 0..1 of the KV cache in use; the mean over the pool for a gateway.
	KV float64
	// KVTokens is how many tokens the KV cache has room for, MaxBatch how many requests the batch
	// takes; 0 if not told.
	KVTokens, MaxBatch float64
	// MaxLoRA is how many adapters fit, 0 if not told; Adapters are those in use, the first InBatch
	// of them by requests in the batch.
	MaxLoRA  int
	Adapters []string
	InBatch  int
	// Ready is how many endpoints a gateway's pool has ready; -1 if it isn't told, or no gateway.
	Ready int
	// Saturation is what the gateway itself calls so; -1 if not told or not to be believed.
	Saturation float64

	inFlight int64   // own requests open when the scrape was asked for
	tokens   float64 // generated so far, to see progress; -1 if not told
	asked    float64 // prompt tokens looked up in the prefix cache so far, and found; 0 if not told
	hits     float64
	mark     uint64 // differs where anything read has
}

// fill takes over what a page said.
func (s *Signals) fill(l exposition.Load) *Signals {
	s.Waiting, s.Running, s.KV, s.KVTokens, s.MaxBatch = l.Waiting, l.Running, l.KV, l.KVTokens, l.MaxBatch
	s.MaxLoRA, s.Adapters, s.InBatch = l.MaxLoRA, l.Adapters, l.InBatch
	s.Ready, s.Saturation = l.Ready, l.Saturation
	s.tokens, s.asked, s.hits, s.mark = l.Generated, l.PrefixAsked, l.PrefixFound, l.Mark
	return s
}

// Freshness says how far signals can be believed at a time.
func (s *Signals) Freshness(now time.Time) pick.Freshness {
	if s == nil || s.At.IsZero() {
		return pick.Absent
	}
	switch age := now.Sub(s.At); {
	case age <= freshFor:
		return pick.Fresh
	case age <= staleFor:
		return pick.Stale
	}
	return pick.Absent
}

// Age in ms for reports; -1: never scraped.
func (s *Signals) ageMs(now time.Time) int64 {
	if s == nil || s.At.IsZero() {
		return -1
	}
	return max(now.Sub(s.At).Milliseconds(), 0)
}

// load is requests queued and running now: as scraped, with the router's own changes since. Room
// is how many requests the batch takes. Signals that aren't fresh never make a place look idle:
// what was measured last counts on, and at least the router's own requests are there.
func (s *Signals) load(inFlight int64, room float64, freshness pick.Freshness) (waiting, running float64) {
	if s != nil {
		waiting, running = s.Waiting, s.Running
		change := float64(inFlight - s.inFlight)
		if freshness == pick.Fresh || change > 0 {
			switch {
			case change > 0:
				in := min(change, max(room-running, 0))
				running += in
				waiting += change - in
			case change < 0:
				out := min(-change, waiting)
				waiting -= out
				running = max(running+change+out, 0)
			}
		}
	}
	if missing := float64(inFlight) - waiting - running; missing > 0 {
		in := min(missing, max(room-running, 0))
		running += in
		waiting += missing - in
	}
	return waiting, running
}

// strangers is how many requests there were not this router's; 0 if it isn't known.
func (s *Signals) strangers() float64 {
	if s == nil {
		return 0
	}
	return max(s.Waiting+s.Running-float64(s.inFlight), 0)
}

// freshness of the endpoint's signals. A page that stands still is stale, however lately it was read.
func (e *Endpoint) freshness(s *Signals, inFlight int64, now time.Time) pick.Freshness {
	f := s.Freshness(now)
	if f == pick.Fresh && e.frozen(s, inFlight, now) {
		return pick.Stale
	}
	return f
}

// frozenPool is how long a gateway's page must have stood still: it is refreshed every few seconds.
const frozenPool = 15 * time.Second

// frozen says whether the endpoint's page has stood still for as long as signals are fresh while own
// requests were there all the time, which no page of a server at work does: it shows less than half
// of them, or they show nothing either, for longer than their prompts take. A server that hangs may
// go on to write that it is idle.
func (e *Endpoint) frozen(s *Signals, inFlight int64, now time.Time) bool {
	if s == nil || inFlight == 0 {
		return false
	}
	limit := freshFor
	if e.hides() {
		limit = frozenPool
	}
	if now.UnixNano()-max(e.changed.Load(), e.occupied.Load()) < int64(limit) {
		return false
	}
	if 2*(s.Waiting+s.Running) < float64(inFlight) {
		return true
	}
	return e.silent(now) >= max(e.floor()/2, 2*e.backlog.expected())
}

// seen takes in new signals. Tokens that were generated since the last ones are progress; fewer than
// there were mean that the server has started anew, with an empty cache and without adapters.
func (e *Endpoint) seen(s *Signals) {
	old := e.signals.Swap(s)
	if old == nil || old.mark != s.mark {
		e.changed.Store(s.At.UnixNano())
	}
	if old != nil && old.tokens >= 0 {
		switch {
		case s.tokens > old.tokens:
			e.flows(s.At)
		case s.tokens >= 0 && s.tokens < old.tokens && !e.hides():
			e.index.Cleared(e.holder, s.At)
			e.loras.Store(nil)
		}
	}
	e.trust.see(old, s)
	e.Cluster.lookups.see(old, s)
	if s.Ready >= 0 {
		e.yield.see(s)
	}
	e.empty.Store(s.Ready == 0)
}

// unseen notes that a scrape didn't work. That a pool was empty counts on for as long as stale
// signals count.
func (e *Endpoint) unseen(now time.Time) {
	if e.signals.Load().Freshness(now) == pick.Absent {
		e.empty.Store(false)
	}
}

// stuck says whether requests are there and nothing has come of any for long enough to look with a canary.
func (e *Endpoint) stuck(now time.Time) bool {
	return e.silent(now) >= partOf(doubtShare, e.floor())
}

// silent is for how long requests have been there with nothing to show; 0 if there are none.
func (e *Endpoint) silent(now time.Time) time.Duration {
	if e.inFlight.Load() == 0 {
		return 0
	}
	return now.Sub(time.Unix(0, e.progress.Load()))
}

// floor is the silence that is never judged sooner.
func (e *Endpoint) floor() time.Duration { return e.Cluster.class.Load().FirstByteFloor }
