// Package prefix remembers which endpoint probably has which prompt in its cache: hashes of prompt
// blocks against endpoints, in a table of fixed size that forgets the oldest first. What it says is
// a guess, but of endpoints that publish what their cache holds; a wrong one costs a prompt computed
// again and nothing else. Reading and writing never block.
package prefix

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
	"weak"
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

// ReserveFor is how long a reservation is believed that nothing has confirmed: about as long as a
// first token is waited for before something is wrong.
const ReserveFor = 30 * time.Second

const (
	// ways is how many entries share a bucket: one cache line.
	ways = 8
	// spread is over how many buckets, side by side, the holders of one block are: room for 500 of
	// them, on one page of memory, so that asking a hundred endpoints for a block costs few misses.
	spread = 64
)

// Index is the table. Use [New].
//
// An entry is 64 bits: a 32-bit tag of the hash of (block, holder), how it is known, and when the
// block was last wanted. Entries are written without locks; of two writers to one place the later
// wins, which loses a guess.
type Index struct {
	buckets [][ways]atomic.Uint64
	began   time.Time
	age     uint32 // in ticks; stamps begin above it, so that there is room for what is older

	mu      sync.Mutex // guards the rest
	holders map[uint64]weak.Pointer[Holder]
	full    int               // of holders, so that it is time to look for those that nobody uses
	handed  map[uint64]uint32 // horizons of holders that a snapshot told of, by name
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
	return &Index{
		buckets: make([][ways]atomic.Uint64, n), began: now, age: uint32(min(age/tick, maxStamp/4)),
		holders: make(map[uint64]weak.Pointer[Holder]),
	}
}

// Cap is how many entries there is room for.
func (x *Index) Cap() int { return len(x.buckets) * ways }

// Len counts the entries that are not too old for anything, by reading all of them: a millisecond for
// a million.
func (x *Index) Len(now time.Time) int {
	oldest, n := x.stamp(now)-x.age, 0
	for i := range x.buckets {
		for j := range x.buckets[i] {
			if e := entry(x.buckets[i][j].Load()); e != 0 && e.stamp() >= oldest {
				n++
			}
		}
	}
	return n
}

// Match is what a holder probably has of a prompt.
type Match struct {
	// Blocks from the beginning.
	Blocks int

	at, wanted uint32 // when it was looked for, and when the last of the blocks was wanted before
	sure       bool   // that block was there, not only reserved
}

// Match finds how far a holder has a prompt, given as a hash chain. Since a server keeps the
// beginning of a prompt at least as long as its end, it halves its way to the depth.
func (x *Index) Match(h *Holder, blocks []uint64, now time.Time) Match {
	v := x.view(h, now)
	m := Match{at: v.now}
	lo, hi := 0, len(blocks) // blocks[:lo] are held, blocks[hi] isn't
	for probe := 1; lo < hi; probe = (lo + hi + 1) / 2 {
		if e, ok := x.find(h, blocks[probe-1]); ok && v.believes(e) {
			lo, m.Blocks, m.wanted, m.sure = probe, probe, e.stamp(), e.kind() != reserved
		} else {
			hi = probe - 1
		}
	}
	return m
}

// Reserve notes that a request with the prompt is about to go to a holder, so that others of a
// burst follow it before it has a first token. What the holder has already stays as it is, unless it
// is about to be too old; the rest is believed for [ReserveFor] unless [Index.Confirm] comes.
func (x *Index) Reserve(h *Holder, blocks []uint64, now time.Time) {
	v := x.view(h, now)
	for _, b := range blocks {
		x.put(h, b, func(old entry) entry {
			if old != 0 && v.lasts(old) {
				return old
			}
			return stamped(v.at, reserved)
		})
	}
}

// Confirm notes that a holder has the blocks: the first token of a prompt has come, or the server says
// so itself.
func (x *Index) Confirm(h *Holder, blocks []uint64, now time.Time) {
	at := x.view(h, now).at
	for _, b := range blocks {
		x.put(h, b, func(entry) entry { return stamped(at, confirmed) })
	}
}

// Forget takes back a reservation of blocks that never got there. What was there before stays.
func (x *Index) Forget(h *Holder, blocks []uint64) {
	for _, b := range blocks {
		x.put(h, b, func(old entry) entry {
			if old.kind() == reserved {
				return 0
			}
			return old
		})
	}
}
