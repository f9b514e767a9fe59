package endpoint

import (
	"time"

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
	// Waiting and Running are requests queued and in the batch; sums over the pool for a gateway.
	Waiting, Running float64
	// KV is the share 0..1 of the KV cache in use; the mean over the pool for a gateway.
	KV float64
	// MaxLoRA is how many adapters fit, 0 if not told; Adapters are those in use.
	MaxLoRA  int
	Adapters []string
	// Ready is how many endpoints a gateway's pool has ready; -1 if it isn't told, or no gateway.
	Ready int
	// Saturation is what the gateway itself calls so; -1 if not told.
	Saturation float64

	inFlight int64   // own requests open when the scrape was asked for
	tokens   float64 // generated so far, to see progress; -1 if not told
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
