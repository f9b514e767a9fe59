package prefix

import (
	"sync/atomic"
	"time"
	"weak"

	"github.com/cespare/xxhash/v2"
)

// Holder is one endpoint's name in the index. An endpoint that has lost its cache, by a restart,
// gets a new one, or [Index.Cleared].
type Holder struct {
	name, salt uint64
	// horizon: blocks last wanted before it are gone. It moves when the endpoint turns out not
	// to have what was believed: servers drop the least recently used first.
	horizon atomic.Uint32
	// survived is how long a block was not wanted that was there all the same, in ticks, and in the
	// upper half when that was seen.
	survived atomic.Uint64
}

// Name makes a holder's name of what tells it from others: cluster, endpoint, address, and which
// start of the server it is, where that is known. Routers that make it of the same parts understand
// each other's snapshots.
func Name(parts ...string) uint64 {
	var d xxhash.Digest
	d.Reset()
	for _, p := range parts {
		_, _ = d.WriteString(p) // a Digest takes everything
		_, _ = d.WriteString("\x00")
	}
	return d.Sum64()
}

// NewHolder makes the holder of a name: one that holds nothing, or what is left of an earlier one or
// of a snapshot. Of equal names there is one at a time.
func (x *Index) NewHolder(name uint64) *Holder {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p, ok := x.holders[name]; ok {
		if h := p.Value(); h != nil {
			return h
		}
	}
	h := &Holder{name: name, salt: mix(name)}
	h.horizon.Store(x.handed[name])
	if len(x.holders) >= x.full {
		for n, p := range x.holders { // those that nobody uses any more
			if p.Value() == nil {
				delete(x.holders, n)
			}
		}
		x.full = max(2*len(x.holders), fewHolders)
	}
	x.holders[name] = weak.Make(h)
	return h
}

// fewHolders are kept without looking for those that nobody uses any more.
const fewHolders = 64

// survivedFor is how long a sign of what a cache keeps is held against signs of what it lost.
const survivedFor = 10 * time.Second

// Correct takes in what a reply says of the cache: of the blocks believed held when the request was
// sent, had were. If that is clearly less, the holder has dropped what was last wanted when the
// missing ones were, and all that is older; unless something as old was just found there, so that
// the miss has another cause, such as a prompt that the server doesn't cache, and says nothing about
// others. A block more or less, or an eighth, is within the error of counting bytes where servers
// count tokens. What was only reserved proves nothing: it may have been on its way.
func (x *Index) Correct(h *Holder, believed Match, had int, now time.Time) {
	if believed.Blocks == 0 || !believed.sure {
		return
	}
	idle := believed.at - min(believed.wanted, believed.at)
	seen := h.survived.Load()
	longest, at := uint32(seen), uint32(seen>>32)
	recent := seen != 0 && at+uint32(survivedFor/tick) >= x.stamp(now)
	if believed.Blocks-had <= 1+believed.Blocks/8 {
		if idle >= longest || !recent {
			h.survived.Store(uint64(x.stamp(now))<<32 | uint64(idle))
		}
		return
	}
	if recent && idle <= longest {
		return
	}
	h.raise(believed.wanted + 1)
}

// raise moves the horizon, never back.
func (h *Holder) raise(to uint32) {
	for {
		old := h.horizon.Load()
		if old >= to || h.horizon.CompareAndSwap(old, to) {
			return
		}
	}
}

// Evicted notes what a server says that its cache has dropped.
func (x *Index) Evicted(h *Holder, blocks ...uint64) {
	for _, b := range blocks {
		x.put(h, b, func(entry) entry { return 0 })
	}
}

// Cleared notes that a server's cache is empty.
func (x *Index) Cleared(h *Holder, now time.Time) {
	h.raise(max(x.stamp(now), h.horizon.Load()) + 1)
}
