package ratelimit

import (
	"sync/atomic"
	"time"
)

// Verdict is a router's own answer to a request for units of a path.
type Verdict int

// The verdicts.
const (
	// Spent: all units were held and are taken.
	Spent Verdict = iota
	// Short: they are not held, or no longer. The authority may have them: ask it, then try again.
	Short
	// Refused: they are not held, and the authority was asked lately and had less than one request needs.
	Refused
)

// Holding is what a router holds of one path. Any number of goroutines spend from it, without locks;
// one at a time, its owner, talks to the authority about it: Due, Call, Answer.
//
// Times are nanoseconds of the router's monotonic clock, from any start above 0.
type Holding struct {
	// untilNs is when the lease ends. 0: there is none.
	untilNs atomic.Int64
	// left of each level may be spent, below 0 when more was. It lies here, and not with the rest
	// of its level, so that a decision touches no more memory than it must.
	left   [MaxPath]atomic.Int64
	levels []heldLevel
	// hungry: the authority had less than was wanted. refused: of some level, what it had left and what
	// is held are together less than one request needs.
	hungry, refused atomic.Bool
	// far: the last answer took longer than anybody who lacks something waits.
	far atomic.Bool
	// asked: somebody waits for units that are not held.
	asked atomic.Bool

	// The owner's.
	seq     int64
	sentNs  int64 // first sending of the last call
	triedNs int64 // its last sending
	span    time.Duration
	ttl     time.Duration
	pending *In  // not answered yet
	uneven  bool // the last call did not ask for all that was wanted, see even
}

// heldLevel is one level of a Holding.
type heldLevel struct {
	slots bool
	left  *atomic.Int64 // in the Holding
	// back is refunds of what was spent, on their way to the authority.
	back atomic.Int64
	// unmet is the demand that found too little, since the last call.
	unmet atomic.Int64
	// need is the largest cost that found too little, since the last call.
	need atomic.Int64
	// target is what the last call wanted to hold.
	target atomic.Int64
	// most that a request may cost: the burst, as of the last call.
	most atomic.Int64
	// there is what the authority had left when it answered last.
	there atomic.Int64

	// The owner's.
	base   int64 // what left was when nothing of it had been spent; of slots, those in use included
	needed int64 // need, as of the last call
	used   int64 // spent under leases that have ended, not told yet
	demand demand
}

// NewHolding makes a Holding of nothing for a path of the given limits, at most MaxPath.
func NewHolding(path []Limit) *Holding {
	h := &Holding{levels: make([]heldLevel, len(path))}
	for i := range path {
		h.levels[i].left = &h.left[i]
		h.levels[i].slots = path[i].Kind == Slots
		h.levels[i].most.Store(path[i].Burst)
	}
	return h
}

// Spend takes the costs, one for each level, all or none.
func (h *Holding) Spend(costs []int64, nowNs int64) Verdict {
	if nowNs >= h.untilNs.Load() {
		h.miss(costs, false)
		h.asked.Store(true)
		return Short
	}
	// What is not there is not even tried for: a call that is made meanwhile would tell of it as spent.
	for i, c := range costs {
		if c > 0 && h.left[i].Load() < c {
			return h.lacks(costs)
		}
	}
	for i, c := range costs {
		if c == 0 || h.left[i].Add(-c) >= 0 {
			continue
		}
		for j := range i + 1 {
			h.left[j].Add(costs[j])
		}
		// A cost that is tried beside one that is undone here may miss what comes back. It is
		// denied or asks; nothing is spent twice.
		return h.lacks(costs)
	}
	return Spent
}

// lacks notes a demand that was not met, and answers whether to ask the authority.
func (h *Holding) lacks(costs []int64) Verdict {
	slotless := false
	for i, c := range costs {
		slotless = slotless || h.levels[i].slots && h.left[i].Load() < c
	}
	refused := h.refused.Load() || h.hungry.Load() && (h.far.Load() || h.scarce(costs))
	h.miss(costs, slotless)
	if refused {
		return Refused
	}
	h.asked.Store(true) // last: a call that comes between would miss what is noted
	return Short
}

// scarce says whether of some level what the authority had left at its last answer and what is held now are
// together less than the costs.
func (h *Holding) scarce(costs []int64) bool {
	for i, c := range costs {
		if c > 0 && max(h.left[i].Load(), 0)+h.levels[i].there.Load() < c {
			return true
		}
	}
	return false
}

// miss notes a demand that was not met. A request that could never pass is none, and one without a slot is none
// of anything else: of what those that wait for two slots would use in all, only two requests' can be spent.
func (h *Holding) miss(costs []int64, slotless bool) {
	for i, c := range costs {
		if c > h.levels[i].most.Load() {
			return
		}
	}
	for i, c := range costs {
		l := &h.levels[i]
		if l.slots || !slotless {
			l.unmet.Add(c)
		}
		for {
			n := l.need.Load()
			if c <= n || l.need.CompareAndSwap(n, c) {
				break
			}
		}
	}
}

// Charge takes the costs whether or not they are held: what a request used beyond what it had
// reserved. Below 0 they are given back: what it had reserved and not used, and its slots.
func (h *Holding) Charge(costs []int64) {
	for i, c := range costs {
		l := &h.levels[i]
		switch {
		case c > 0 || l.slots:
			l.left.Add(-c)
		case c < 0:
			l.back.Add(-c)
		}
	}
}

// Left is what may be spent of a level now, 0 when the lease has ended.
func (h *Holding) Left(level int, nowNs int64) int64 {
	if nowNs >= h.untilNs.Load() {
		return 0
	}
	return max(h.left[level].Load(), 0)
}

// Hungry says whether the authority had less than was wanted when last asked, and nobody waits for what it
// has: then it is asked each [HungryEvery].
func (h *Holding) Hungry() bool {
	return h.hungry.Load() && (h.refused.Load() || !h.asked.Load())
}
