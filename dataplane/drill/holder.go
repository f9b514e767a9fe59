package drill

import (
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// Holder holds the newest lease. Requests read it behind one atomic pointer, and judge by the time whether it holds:
// there is no timer whose being late could make it longer. It is safe for concurrent use. Make one with [NewHolder].
// It keeps nothing over restarts: a router that starts obeys no drill until it is told to.
type Holder struct {
	start   time.Time // Moment.Mono counts from it
	current atomic.Pointer[View]
	counts  [len(verdicts)]atomic.Uint64
	lapses  atomic.Uint64

	mu   sync.Mutex // held while current is replaced; guards told
	told *View      // whose lapse was counted
}

// NewHolder makes one without a lease. Now is any time of the clock that it will be asked by.
func NewHolder(now time.Time) *Holder { return &Holder{start: now} }

// At is a time as leases count it. Of two times of [time.Now] a clock that was set meanwhile makes no difference.
func (h *Holder) At(now time.Time) Moment {
	return Moment{Mono: now.Sub(h.start), WallMs: now.UnixMilli()}
}

// View is the newest lease; nil: there was none yet.
func (h *Holder) View() *View { return h.current.Load() }

// Take takes in a lease that came at a time, and says what became of it.
func (h *Holder) Take(m *routerpb.DrillLease, now time.Time) Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.At(now)
	had := h.current.Load()
	h.lapse(had, at)
	v, verdict := Next(had, m, at)
	if v != had {
		h.current.Store(v)
	}
	for i := range verdicts {
		if verdicts[i] == verdict {
			h.counts[i].Add(1)
		}
	}
	return verdict
}

// Look notes a lease that has run out, and says so once. Nothing depends on its being called, but what is told.
func (h *Holder) Look(now time.Time) (lapsed *View) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lapse(h.current.Load(), h.At(now))
}

func (h *Holder) lapse(v *View, now Moment) *View {
	if !v.Lapsed(now) || h.told == v {
		return nil
	}
	h.told = v
	h.lapses.Add(1)
	return v
}

// Verdicts calls f with how many leases came to each verdict.
func (h *Holder) Verdicts(f func(Verdict, uint64)) {
	for i, v := range verdicts {
		f(v, h.counts[i].Load())
	}
}

// Lapses is how many leases ran out without a word, as far as they were noted.
func (h *Holder) Lapses() uint64 { return h.lapses.Load() }

// Status is how a router stands with the drill of its table.
type Status struct {
	ID uint64
	// Sequence of the lease that is obeyed, and how long it holds yet. 0: none is.
	Sequence  uint64
	Remaining time.Duration
	// As it is obeyed.
	Shifted                         uint32
	Dead, QuotaStoreLost, WatchOnly bool
	// Lapsed: the last lease of this drill ran out without a word.
	Lapsed bool
}

// Status is how things stand with a drill, which must not be nil.
func (h *Holder) Status(d *table.Drill, now time.Time) Status {
	v, at := h.View(), h.At(now)
	s := Status{ID: d.ID, Lapsed: v.Lapsed(at) && v.ID == d.ID}
	if v.Obeyed(d, at) {
		s.Sequence, s.Remaining, s.Shifted = v.Sequence, v.Remaining(at), v.Shifted
		s.Dead, s.QuotaStoreLost, s.WatchOnly = v.Dead, v.QuotaStoreLost, v.WatchOnly
	}
	return s
}
