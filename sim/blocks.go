package sim

// BlockSize is the number of tokens in a KV block, vLLM's default.
const BlockSize = 16

// nilBlock ends lists of blocks.
const nilBlock = int32(-1)

// block is one KV block. A block is *used* while refs > 0. A free block stands in the list of
// free blocks, oldest first, and may still hold content that a later prompt can take up again.
type block struct {
	hash       uint64 // valid when hashed
	refs       int32
	prev, next int32 // in the free list, when refs == 0
	hashed     bool
}

// blockPool is the KV cache: a fixed number of blocks, an index of their contents by hash, and an
// LRU list of the free ones. Blocks that were never touched take no memory.
type blockPool struct {
	total      int
	blocks     []block // those touched so far, at most total
	used       int     // refs > 0
	head, tail int32   // free list: least recently used at the head
	index      map[uint64]int32
	watched    bool         // changes are collected
	changes    []CacheEvent // of the index
}

func newBlockPool(total int) blockPool {
	return blockPool{total: total, head: nilBlock, tail: nilBlock, index: map[uint64]int32{}}
}

// free is how many blocks can be allocated.
func (p *blockPool) free() int { return p.total - p.used }

// match counts how many leading hashes are in the cache, and how many of those blocks are free,
// so that taking them would use them up.
func (p *blockPool) match(hashes []uint64) (n, fromFree int) {
	for _, h := range hashes {
		b, ok := p.index[h]
		if !ok {
			return n, fromFree
		}
		if p.blocks[b].refs == 0 {
			fromFree++
		}
		n++
	}
	return n, fromFree
}

// take appends the cached blocks of the hashes, all of which match, to dst and holds them.
func (p *blockPool) take(dst []int32, hashes []uint64) []int32 {
	for _, h := range hashes {
		b := p.index[h]
		if p.blocks[b].refs == 0 {
			p.unlink(b)
			p.used++
		}
		p.blocks[b].refs++
		dst = append(dst, b)
	}
	return dst
}

// allocate appends n empty blocks to dst; the caller has checked that n are free. Untouched
// blocks go first, then the least recently used, whose content is forgotten.
func (p *blockPool) allocate(dst []int32, n int) []int32 {
	for range n {
		b := p.head
		if len(p.blocks) < p.total {
			b = int32(len(p.blocks))
			p.blocks = append(p.blocks, block{})
		} else {
			p.unlink(b)
			p.forget(b)
		}
		p.blocks[b].refs = 1
		p.used++
		dst = append(dst, b)
	}
	return dst
}

// publish names the content of a held block, so that later prompts find it. The first block of
// two with the same content stays in the index.
func (p *blockPool) publish(b int32, hash uint64) {
	if p.blocks[b].hashed {
		return
	}
	if _, ok := p.index[hash]; ok {
		return
	}
	p.blocks[b].hash, p.blocks[b].hashed = hash, true
	p.index[hash] = b
}

// release lets go of blocks. The last of a chain is the first to be evicted, because a chain is
// worth nothing without its beginning.
func (p *blockPool) release(held []int32) {
	for i := len(held) - 1; i >= 0; i-- {
		b := held[i]
		p.blocks[b].refs--
		if p.blocks[b].refs == 0 {
			p.used--
			p.append(b)
		}
	}
}

func (p *blockPool) forget(b int32) {
	if p.blocks[b].hashed {
		delete(p.index, p.blocks[b].hash)
		p.blocks[b].hashed = false
		if p.watched {
			p.changes = append(p.changes, CacheEvent{Hash: p.blocks[b].hash})
		}
	}
}

func (p *blockPool) append(b int32) {
	p.blocks[b].prev, p.blocks[b].next = p.tail, nilBlock
	if p.tail == nilBlock {
		p.head = b
	} else {
		p.blocks[p.tail].next = b
	}
	p.tail = b
}

func (p *blockPool) unlink(b int32) {
	prev, next := p.blocks[b].prev, p.blocks[b].next
	if prev == nilBlock {
		p.head = next
	} else {
		p.blocks[prev].next = next
	}
	if next == nilBlock {
		p.tail = prev
	} else {
		p.blocks[next].prev = prev
	}
}
