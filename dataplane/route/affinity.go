package route

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"anabranch/api/fleet"
)

// Depths in blocks at which a prompt may be cut for its affinity key, the shallowest first.
var affinityDepths = [...]int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}

const (
	// bucketShare is how much of the requests one key may draw before a deeper one is taken: all
	// requests of an application often share their first blocks. bucketLess is how little it must
	// draw to be taken again, so that keys don't change back and forth.
	bucketShare = 0.125
	bucketLess  = bucketShare / 2
	// bucketFloor is how many requests are counted before shares mean anything.
	bucketFloor = 64
	bucketSpan  = 10 * time.Second
	bucketSlots = 1 << 13
)

// Affinity makes the keys by which requests with the same beginning go to the same place. It
// counts how often each beginning is seen, roughly: in a table of fixed size, over the current and
// the last ten seconds. Use [NewAffinity]; it is safe for concurrent use.
type Affinity struct {
	began   atomic.Int64 // of the current span, unix ns
	current atomic.Pointer[sightings]
	last    atomic.Pointer[sightings]
	crowded [bucketSlots]atomic.Bool // those that drew too much, and don't draw little yet
}

type sightings struct {
	all   atomic.Uint32
	slots [bucketSlots]atomic.Uint32
}

// NewAffinity makes one that has seen nothing.
func NewAffinity(now time.Time) *Affinity {
	a := &Affinity{}
	a.began.Store(now.UnixNano())
	a.current.Store(&sightings{})
	a.last.Store(&sightings{})
	return a
}

// Key is the affinity key of a prompt's block chain, which is salted by tenant and model already:
// its shallowest depth that carries a bounded share of the requests. Where even the deepest carries
// more, the requests are spread over as many keys as bring the share down; so are prompts of less
// than a block, which have no beginning to keep. rnd is uniform over 64 bits.
func (a *Affinity) Key(blocks []uint64, rnd uint64, now time.Time) uint64 {
	if len(blocks) == 0 {
		return rnd
	}
	a.turn(now)
	current, last := a.current.Load(), a.last.Load()
	all := current.all.Add(1) + last.all.Load()
	key, share := uint64(0), 0.0
	for _, depth := range affinityDepths {
		if depth > len(blocks) && depth > 1 {
			break
		}
		key = blocks[depth-1]
		slot := key % bucketSlots
		seen := current.slots[slot].Add(1) + last.slots[slot].Load()
		share = float64(seen) / float64(all)
		if !a.crowds(slot, share, all) {
			return key
		}
	}
	return fold(key, rnd%(uint64(share/bucketShare)+1))
}

// crowds says whether a beginning draws too much to be a key. Of few requests it is what it was.
func (a *Affinity) crowds(slot uint64, share float64, all uint32) bool {
	was := a.crowded[slot].Load()
	is := was
	switch {
	case all < bucketFloor:
	case share > bucketShare:
		is = true
	case share < bucketLess:
		is = false
	}
	if is != was {
		a.crowded[slot].Store(is)
	}
	return is
}

// turn begins a new span if the current one is over.
func (a *Affinity) turn(now time.Time) {
	began := a.began.Load()
	if now.UnixNano()-began < int64(bucketSpan) || !a.began.CompareAndSwap(began, now.UnixNano()) {
		return
	}
	a.last.Store(a.current.Swap(&sightings{}))
}

// Named is the affinity key of requests that say themselves what belongs together. The model is the
// name of the base model or adapter itself, not an alias.
func Named(tenant fleet.TenantID, model, name string) uint64 {
	var d xxhash.Digest
	d.Reset()
	for _, s := range [...]string{string(tenant), "\x00", model, "\x00", name} {
		_, _ = d.WriteString(s) // a Digest takes everything
	}
	return d.Sum64()
}

// Under puts a prompt's blocks, in place, under the name of the base model or adapter that is asked
// for: what one has cached is of no use to another. The name is not the alias that a client may use, so
// that prompts are found again under each of a model's names.
func Under(model string, blocks []uint64) {
	h := xxhash.Sum64String(model)
	for i, b := range blocks {
		blocks[i] = fold(b, h)
	}
}

// Salt keeps the prompts of different tenants apart.
func Salt(tenant fleet.TenantID) uint64 { return xxhash.Sum64String(string(tenant)) }

// fold makes one hash of two that come in order.
func fold(a, b uint64) uint64 {
	var buf [16]byte
	binary.LittleEndian.PutUint64(buf[:8], a)
	binary.LittleEndian.PutUint64(buf[8:], b)
	return xxhash.Sum64(buf[:])
}
