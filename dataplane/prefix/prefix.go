// Package prefix remembers which endpoint probably has which prompt in its cache: hashes of prompt
// blocks against endpoints, in a table of fixed size that forgets the oldest first. What it says is
// a guess; a wrong one costs a prompt computed again and nothing else. Reading and writing never
// block.
package prefix

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Defaults of [New].
const (
	// DefaultEntries is one million blocks at endpoints, 8 MiB of memory. At 1 KiB of text a
	// block, 600 servers with KV room for 400,000 tokens each.
	DefaultEntries = 1 << 20
	// DefaultAge is how long a block is believed held. Servers under load turn their cache over
	// in minutes.
	DefaultAge = 10 * time.Minute
)

// ways is how many entries share a bucket: one cache line.
const ways = 8

// Index is the table. Use [New].
//
// An entry is 64 bits: a 32-bit tag of the hash of (block, holder), and when it was last wanted in
// tenths of a second since the index began, from 1. Entries are written without locks; of two
// writers to one place the later wins, which loses a guess.
type Index struct {
	buckets [][ways]atomic.Uint64
	began   time.Time
	age     uint32
	holders atomic.Uint64
}

// New makes an index of about so many entries, each believed for age. 0 takes the defaults.
func New(entries int, age time.Duration, now time.Time) *Index {
	if entries <= 0 {
		entries = DefaultEntries
	}
	if age <= 0 {
		age = DefaultAge
	}
	n := 1 << bits.Len(uint(max(entries/ways, 1)-1))
	return &Index{buckets: make([][ways]atomic.Uint64, n), began: now, age: uint32(age / tick)}
}

// tick is the unit of stamps: 32 bits of it are 13 years.
const tick = 100 * time.Millisecond

// Holder is one endpoint's name in the index. An endpoint that has lost its cache, by a restart,
// gets a new one.
type Holder struct {
	salt uint64
	// horizon: blocks last wanted before it are gone. It moves when the endpoint turns out not
	// to have what was believed: servers drop the least recently used first.
	horizon atomic.Uint32
}

// NewHolder makes a holder that holds nothing.
func (x *Index) NewHolder() *Holder {
	return &Holder{salt: mix(x.holders.Add(1))}
}

// Match is what a holder probably has of a prompt.
type Match struct {
	// Blocks from the beginning.
	Blocks int

	wanted uint32 // when the last of them was last wanted
}

// Match finds how far a holder has a prompt, given as a hash chain. Since a server keeps the
// beginning of a prompt at least as long as its end, it halves its way to the depth.
func (x *Index) Match(h *Holder, blocks []uint64, now time.Time) Match {
	oldest := max(h.horizon.Load(), x.stamp(now)-min(x.age, x.stamp(now)-1))
	var m Match
	lo, hi := 0, len(blocks) // blocks[:lo] are held, blocks[hi] isn't
	for probe := 1; lo < hi; probe = (lo + hi + 1) / 2 {
		if s := x.find(h, blocks[probe-1]); s >= oldest {
			lo, m = probe, Match{probe, s}
		} else {
			hi = probe - 1
		}
	}
	return m
}

// Insert notes that a holder is about to have a prompt. It is called when a request is sent, so
// that others of a burst with the same prompt follow it.
func (x *Index) Insert(h *Holder, blocks []uint64, now time.Time) {
	at := x.stamp(now)
	for _, b := range blocks {
		x.put(h, b, at)
	}
}

// Forget takes back an Insert of blocks that never got there.
func (x *Index) Forget(h *Holder, blocks []uint64) {
	for _, b := range blocks {
		bucket, tag := x.place(h, b)
		for i := range bucket {
			if e := bucket[i].Load(); e>>32 == tag {
				bucket[i].CompareAndSwap(e, 0)
			}
		}
	}
}

// settle is how long ago a block must have been wanted for its absence to tell of eviction: until
// then the request that brings it may still be on its way.
const settle = 10 * time.Second

// Correct takes in what a reply says of the cache: of the blocks believed held, had were. If that
// is clearly less, the holder has dropped what was last wanted when the missing ones were, and all
// that is older. A block more or less, or an eighth, is within the error of counting bytes where
// servers count tokens.
func (x *Index) Correct(h *Holder, believed Match, had int, now time.Time) {
	if believed.Blocks-had <= 1+believed.Blocks/8 || believed.wanted+uint32(settle/tick) > x.stamp(now) {
		return
	}
	for {
		old := h.horizon.Load()
		if old > believed.wanted || h.horizon.CompareAndSwap(old, believed.wanted+1) {
			return
		}
	}
}

// stamp is now in ticks, from 1.
func (x *Index) stamp(now time.Time) uint32 {
	return uint32(max(now.Sub(x.began), 0)/tick) + 1
}

func (x *Index) place(h *Holder, block uint64) (bucket *[ways]atomic.Uint64, tag uint64) {
	k := mix(block ^ h.salt)
	return &x.buckets[k&uint64(len(x.buckets)-1)], k >> 32
}

// find is when the block was last wanted of the holder, 0 if it isn't there.
func (x *Index) find(h *Holder, block uint64) uint32 {
	bucket, tag := x.place(h, block)
	for i := range bucket {
		if e := bucket[i].Load(); e>>32 == tag && uint32(e) != 0 {
			return uint32(e)
		}
	}
	return 0
}

func (x *Index) put(h *Holder, block uint64, at uint32) {
	bucket, tag := x.place(h, block)
	entry := tag<<32 | uint64(at)
	oldest, stamp := 0, ^uint32(0)
	for i := range bucket {
		e := bucket[i].Load()
		s := uint32(e)
		if e>>32 == tag && s != 0 {
			bucket[i].Store(entry)
			return
		}
		if s < stamp {
			oldest, stamp = i, s
		}
	}
	bucket[oldest].Store(entry)
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
