package usage

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const (
	// chains of cells; a power of two.
	chains = 1 << 10
	// spare is how many more keys there may be for tenants that are not told apart.
	spare = 1024
	// quietFor is how many sweeps must find a key unused until it is let go.
	quietFor = 10
)

// tally is a hash table of counters. Chains are changed under a lock and read without.
type tally struct {
	seed  maphash.Seed
	heads [chains]atomic.Pointer[cell]
	rest  cell // of keys for which there is no room in any way
	most  int

	mu    sync.Mutex // guards changes of the chains, and what follows
	count int
}

// cell is what was used by one key since it was last swept.
type cell struct {
	key   Key
	next  atomic.Pointer[cell]
	quiet int // sweeps since it was used; the tally's lock guards it
	// gone: it is in no chain any more. Whoever has added to it must see to it.
	gone atomic.Bool

	input, cached, output, succeeded, failed, bytes, estimated atomic.Int64
}

// newTally has room for so many keys, and some for those that are not told apart.
func newTally(most int) *tally {
	return &tally{seed: maphash.MakeSeed(), most: most, rest: cell{key: Key{Tenant: Other}}}
}

// add counts. False: not for the key itself, since there are too many.
func (t *tally) add(k Key, u Use) (own bool) {
	c := t.find(k)
	if c == nil {
		c = t.cell(k)
	}
	own = c.key == k
	c.add(u)
	for c.gone.Load() { // it was found just before it went
		u = c.take()
		c = t.cell(c.key)
		c.add(u)
	}
	return own
}

func (c *cell) add(u Use) {
	for _, x := range [...]struct {
		to *atomic.Int64
		n  int64
	}{
		{&c.input, u.Input},
		{&c.cached, u.Cached},
		{&c.output, u.Output},
		{&c.succeeded, u.Succeeded},
		{&c.failed, u.Failed},
		{&c.bytes, u.Bytes},
		{&c.estimated, u.Estimated},
	} {
		if x.n > 0 {
			x.to.Add(x.n)
		}
	}
}

func (c *cell) take() Use {
	return Use{
		c.input.Swap(0), c.cached.Swap(0), c.output.Swap(0), c.succeeded.Swap(0), c.failed.Swap(0), c.bytes.Swap(0), c.estimated.Swap(0),
	}
}

// chain is where a key is.
func (t *tally) chain(k Key) *atomic.Pointer[cell] {
	h := maphash.String(t.seed, string(k.Tenant)) ^ 3*maphash.String(t.seed, string(k.Model)) ^
		5*maphash.String(t.seed, string(k.Class)) ^ 7*maphash.String(t.seed, string(k.Cluster))
	return &t.heads[(h^h>>32)%chains]
}

func (t *tally) find(k Key) *cell {
	for c := t.chain(k).Load(); c != nil; c = c.next.Load() {
		if c.key == k {
			return c
		}
	}
	return nil
}

// cell finds or makes the cell of a key, or of the one that it is counted for.
func (t *tally) cell(k Key) *cell {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.find(k); c != nil {
		return c
	}
	if t.count >= t.most {
		k = k.anybodys()
		if c := t.find(k); c != nil {
			return c
		}
		if t.count >= t.most+spare {
			return &t.rest
		}
	}
	c := &cell{key: k}
	head := t.chain(k)
	c.next.Store(head.Load())
	head.Store(c)
	t.count++
	return c
}

// sweep takes all that was counted since the last time.
func (t *tally) sweep() map[Key]Use {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[Key]Use)
	take := func(c *cell) (used bool) {
		u := c.take()
		if u == (Use{}) {
			return false
		}
		out[c.key] = out[c.key].plus(u)
		return true
	}
	take(&t.rest)
	for i := range t.heads {
		at := &t.heads[i]
		for c := at.Load(); c != nil; c = c.next.Load() {
			c.quiet++
			if take(c) {
				c.quiet = 0
			}
			if c.quiet < quietFor {
				at = &c.next
				continue
			}
			at.Store(c.next.Load()) // whoever reads it goes on from there
			c.gone.Store(true)
			take(c) // what came before
			t.count--
		}
	}
	return out
}
