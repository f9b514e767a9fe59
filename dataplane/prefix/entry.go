package prefix

import (
	"sync/atomic"
	"time"
)

// tick is the unit of stamps: 30 bits of it are three years.
const (
	tick      = 100 * time.Millisecond
	stampBits = 30
	maxStamp  = 1<<stampBits - 1
)

// kind is how an entry is known.
type kind uint8

const (
	reserved  kind = iota // a request that will bring it is on its way
	confirmed             // a request that needed it had its first token, or the server said so
)

// entry is the lower half of a place in the table, without the tag; 0 is none.
type entry uint32

func stamped(at uint32, k kind) entry { return entry(uint32(k)<<stampBits | at) }

func (e entry) kind() kind    { return kind(e >> stampBits) }
func (e entry) stamp() uint32 { return uint32(e) & maxStamp }

// stamp is now in ticks. It begins above the age, and is never 0.
func (x *Index) stamp(now time.Time) uint32 {
	since := max(now.Sub(x.began), 0) / tick
	return uint32(min(since+time.Duration(x.age)+1, maxStamp-1))
}

// view is how a holder's entries look at a moment.
type view struct {
	now     uint32 // the moment
	age     uint32 // how long what is confirmed is believed
	at      uint32 // the stamp of what is written now
	oldest  uint32 // of what is confirmed
	pending uint32 // oldest of what is reserved
	horizon uint32 // oldest of anything
}

func (x *Index) view(h *Holder, now time.Time) view {
	v := view{now: x.stamp(now), age: x.age, horizon: h.horizon.Load()}
	v.at = max(v.now, v.horizon) // what comes after everything was cleared is there, even in the same tick
	v.oldest = max(v.now-x.age, v.horizon)
	v.pending = max(v.now-min(uint32(ReserveFor/tick), v.now), v.horizon)
	return v
}

func (v *view) believes(e entry) bool {
	if e.kind() == reserved {
		return e.stamp() >= v.pending
	}
	return e.stamp() >= v.oldest
}

// lasts says whether an entry will still be believed when a reservation made now no longer is.
func (v *view) lasts(e entry) bool {
	return e.kind() != reserved && v.believes(e) && e.stamp() >= min(v.now-v.age+uint32(ReserveFor/tick), v.now)
}

func (x *Index) place(h *Holder, block uint64) (bucket int, tag uint64) {
	k := mix(block)
	return int((k ^ h.salt%spread) & uint64(len(x.buckets)-1)), mix(k^h.salt) >> 32
}

func (x *Index) find(h *Holder, block uint64) (entry, bool) {
	at, tag := x.place(h, block)
	bucket := &x.buckets[at]
	for i := range bucket {
		if e := bucket[i].Load(); e>>32 == tag && entry(e) != 0 {
			return entry(e), true
		}
	}
	return 0, false
}

// put replaces a block's entry, 0 if it has none, by what change makes of it; 0 takes it out.
func (x *Index) put(h *Holder, block uint64, change func(entry) entry) {
	at, tag := x.place(h, block)
	update(&x.buckets[at], tag, change)
}

// update changes the entry of a tag in its bucket; for a new one the oldest there makes room. It says
// whether anything changed.
func update(bucket *[ways]atomic.Uint64, tag uint64, change func(entry) entry) bool {
	oldest, stamp := 0, ^uint32(0)
	for i := range bucket {
		e := bucket[i].Load()
		old := entry(e)
		if e>>32 == tag && old != 0 {
			next := change(old)
			switch next {
			case old:
			case 0:
				bucket[i].CompareAndSwap(e, 0)
			default:
				bucket[i].Store(tag<<32 | uint64(next))
			}
			return next != old
		}
		if s := old.stamp(); s < stamp {
			oldest, stamp = i, s
		}
	}
	next := change(0)
	if next == 0 || next.stamp() < stamp { // one that is handed over may be older than all here
		return false
	}
	bucket[oldest].Store(tag<<32 | uint64(next))
	return true
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
