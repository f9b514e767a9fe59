package queue

import "sync/atomic"

// recent counts what was let in lately, without a lock: in slots of equal length, of which those
// count that began no longer ago than [recentSlots] of them.
type recent struct {
	slots [4]atomic.Uint64 // number of the slot in time, above countBits, and how many
}

const (
	// recentSlots is how many slots count: what is wanted is covered by all but the newest, which is
	// still filling.
	recentSlots = 3
	countBits   = 24
	countMask   = 1<<countBits - 1
)

// sum is how many were added in the slots that count at the slot now.
func (r *recent) sum(now uint64) int64 {
	var n uint64
	for i := range r.slots {
		v := r.slots[i].Load()
		// Another goroutine's clock may be a slot ahead.
		if age := int64(now) - int64(v>>countBits); age < recentSlots && age > -2 {
			n += v & countMask
		}
	}
	return int64(n)
}

func (r *recent) add(now uint64) {
	slot := &r.slots[now%uint64(len(r.slots))]
	for {
		v := slot.Load()
		next := v + 1
		if v>>countBits != now {
			next = now<<countBits | 1
		}
		if slot.CompareAndSwap(v, next) {
			return
		}
	}
}

// drop takes back what was added at a slot, if that still counts.
func (r *recent) drop(now uint64) {
	slot := &r.slots[now%uint64(len(r.slots))]
	for {
		v := slot.Load()
		if v>>countBits != now || v&countMask == 0 || slot.CompareAndSwap(v, v-1) {
			return
		}
	}
}
