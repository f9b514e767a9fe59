package sim

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// slowCache is the obvious prefix cache: a list of free blocks from oldest to newest, searched
// from end to end.
type slowCache struct {
	free  []slowBlock // with or without content
	held  []slowBlock
	total int
}

type slowBlock struct {
	hash uint64 // 0: empty
	refs int
}

func (c *slowCache) find(list []slowBlock, hash uint64) int {
	return slices.IndexFunc(list, func(b slowBlock) bool { return b.hash == hash })
}

// hold takes a block with content and says whether there was one.
func (c *slowCache) hold(hash uint64) bool {
	if i := c.find(c.held, hash); i >= 0 {
		c.held[i].refs++
		return true
	}
	i := c.find(c.free, hash)
	if i < 0 {
		return false
	}
	c.held = append(c.held, slowBlock{hash, 1})
	c.free = slices.Delete(c.free, i, i+1)
	return true
}

// fill takes an empty or the oldest block and gives it content.
func (c *slowCache) fill(hash uint64) bool {
	if len(c.free) == 0 {
		return false
	}
	i := max(0, c.find(c.free, 0)) // an empty one first
	c.free = slices.Delete(c.free, i, i+1)
	c.held = append(c.held, slowBlock{hash, 1})
	return true
}

func (c *slowCache) release(hash uint64) {
	i := c.find(c.held, hash)
	if c.held[i].refs--; c.held[i].refs == 0 {
		c.held = slices.Delete(c.held, i, i+1)
		c.free = append(c.free, slowBlock{hash: hash})
	}
}

// One block at a time, with contents 1 to 30 in a cache of up to 20 blocks: the pool and the slow
// cache agree on what is cached, held and free after every operation.
func TestPoolAgreesWithTheObviousCache(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(1, 20).Draw(t, "total")
		pool := newBlockPool(total)
		slow := &slowCache{total: total, free: make([]slowBlock, total)}
		type holding struct {
			hash  uint64
			block []int32
		}
		var holdings []holding
		for range rapid.IntRange(1, 200).Draw(t, "operations") {
			if len(holdings) > 0 && rapid.Bool().Draw(t, "release") {
				i := rapid.IntRange(0, len(holdings)-1).Draw(t, "which")
				pool.release(holdings[i].block)
				slow.release(holdings[i].hash)
				holdings = slices.Delete(holdings, i, i+1)
				continue
			}
			hash := uint64(rapid.IntRange(1, 30).Draw(t, "hash"))
			n, fromFree := pool.match([]uint64{hash})
			wasFree := slow.find(slow.free, hash) >= 0
			cached := slow.hold(hash)
			switch {
			case (n == 1) != cached, (fromFree == 1) != wasFree:
				t.Fatalf("hash %d: cached %v, the slow cache says %v", hash, n == 1, cached)
			case cached:
				holdings = append(holdings, holding{hash, pool.take(nil, []uint64{hash})})
			case pool.free() == 0:
				if slow.fill(hash) {
					t.Fatal("the pool is full, the slow cache is not")
				}
			default:
				block := pool.allocate(nil, 1)
				pool.publish(block[0], hash)
				slow.fill(hash)
				holdings = append(holdings, holding{hash, block})
			}
			if pool.used != len(slow.held) || pool.free() != len(slow.free) {
				t.Fatalf("%d used and %d free, the slow cache says %d and %d", pool.used, pool.free(), len(slow.held), len(slow.free))
			}
		}
	})
}

func TestMatchEndsAtTheFirstGap(t *testing.T) {
	t.Parallel()
	pool := newBlockPool(8)
	blocks := pool.allocate(nil, 3)
	for i, b := range blocks {
		pool.publish(b, uint64(i+1))
	}
	for want, hashes := range map[int][]uint64{
		0: {9, 1, 2},
		1: {1, 9, 3},
		3: {1, 2, 3, 9},
	} {
		if n, free := pool.match(hashes); n != want || free != 0 {
			t.Errorf("%v: %d match, %d of them free", hashes, n, free)
		}
	}
	pool.release(blocks)
	if n, free := pool.match([]uint64{1, 2, 3}); n != 3 || free != 3 {
		t.Errorf("released: %d match, %d of them free", n, free)
	}
}

func TestEndOfAChainIsEvictedFirst(t *testing.T) {
	t.Parallel()
	pool := newBlockPool(4)
	chain := pool.allocate(nil, 4)
	for i, b := range chain {
		pool.publish(b, uint64(i+1))
	}
	pool.release(chain)
	pool.allocate(nil, 2)
	if n, _ := pool.match([]uint64{1, 2, 3, 4}); n != 2 {
		t.Errorf("%d blocks of the chain are left in order, want its first 2", n)
	}
}

func TestSecondCopyIsNotIndexed(t *testing.T) {
	t.Parallel()
	pool := newBlockPool(2)
	a, b := pool.allocate(nil, 1), pool.allocate(nil, 1)
	pool.publish(a[0], 7)
	pool.publish(b[0], 7)
	pool.publish(a[0], 8) // has content already
	pool.release(b)
	if n, free := pool.match([]uint64{7}); n != 1 || free != 0 {
		t.Errorf("the first copy: %d, %d free", n, free)
	}
	if n, _ := pool.match([]uint64{8}); n != 0 {
		t.Error("content changed its name")
	}
	pool.allocate(nil, 1) // takes the second copy
	if n, _ := pool.match([]uint64{7}); n != 1 {
		t.Error("evicting the second copy forgot the first")
	}
}

func TestAdapterSlots(t *testing.T) {
	t.Parallel()
	a := adapterSlots{max: 2}
	for i, step := range []struct {
		do     string // "+" holds, "-" drops
		name   string
		fits   bool
		loaded bool
		inUse  []string
	}{
		{"+", "", true, false, nil},
		{"+", "b", true, true, []string{"b"}},
		{"+", "a", true, true, []string{"a", "b"}},
		{"+", "b", true, false, []string{"a", "b"}}, // a second user
		{"+", "c", false, false, []string{"a", "b"}},
		{"-", "b", true, false, []string{"a", "b"}},
		{"-", "b", true, false, []string{"a"}},
		{"+", "b", true, false, []string{"a", "b"}}, // still loaded
		{"-", "b", true, false, []string{"a"}},
		{"+", "c", true, true, []string{"a", "c"}}, // takes the slot of b
		{"-", "a", true, false, []string{"c"}},
		{"+", "b", true, true, []string{"b", "c"}}, // takes the slot of a
	} {
		if fits := a.fits(step.name); step.do == "+" && fits != step.fits {
			t.Errorf("step %d: %q fits: %v", i, step.name, fits)
		}
		loaded := false
		switch {
		case step.do == "-":
			a.drop(step.name)
		case step.fits:
			loaded = a.hold(step.name, 0)
		}
		if loaded != step.loaded || !slices.Equal(a.appendLoaded(nil, true), step.inUse) {
			t.Errorf("step %d: loaded %v, in use %v; want %v, %v", i, loaded, a.appendLoaded(nil, true), step.loaded, step.inUse)
		}
	}
}

func TestLeastRecentlyUsedAdapterGoes(t *testing.T) {
	t.Parallel()
	a := adapterSlots{max: 3}
	for at, name := range []string{"x", "y", "z", "x"} {
		a.hold(name, time.Duration(at))
		a.drop(name)
	}
	a.hold("new", 4)
	if slices.ContainsFunc(a.loaded, func(s adapterSlot) bool { return s.name == "y" }) {
		t.Error("the least recently used adapter is still there")
	}
}

func TestEventNames(t *testing.T) {
	t.Parallel()
	for k, want := range map[EventKind]string{
		Admitted: "admitted", Token: "token", First: "first", Preempted: "preempted", Finished: "finished", 0: "unknown",
	} {
		if k.String() != want {
			t.Errorf("kind %d is %q", k, k)
		}
	}
	if (Stats{}).KVUsage() != 0 || (Stats{BlocksUsed: 1, BlocksTotal: 4}).KVUsage() != 0.25 {
		t.Error("KV usage is not the share of blocks")
	}
}
