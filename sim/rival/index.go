package rival

import "math/bits"

// index says which pods of a cluster probably hold which blocks of prompts: for each pod an LRU list
// of the blocks that were sent there, and over all a map from block to pods. It is the approximate
// prefix index of the Gateway API Inference Extension (prefix-cache-scorer, indexer.go).
type index struct {
	held []map[uint64]uint64 // block → set of pods, for each 64 pods
	pods []recent
}

// recent is a list of blocks, the least recently used at its head. Links are places in nodes; 0 is the
// end of the ring, before the head and after the tail.
type recent struct {
	at    map[uint64]int32
	nodes []node
	free  []int32
}

type node struct {
	hash       uint64
	prev, next int32
}

func (x *index) pod(p int) *recent {
	for len(x.pods) <= p {
		x.pods = append(x.pods, recent{at: map[uint64]int32{}, nodes: make([]node, 1)})
	}
	for len(x.held)*64 <= p {
		x.held = append(x.held, map[uint64]uint64{})
	}
	return &x.pods[p]
}

// match puts into depths how many leading blocks of the chain each pod holds; its length says of how
// many pods.
func (x *index) match(chain []uint64, depths []int) {
	clear(depths)
	for g, held := range x.held {
		first := g * 64
		if first >= len(depths) {
			return
		}
		alive := ^uint64(0)
		if n := len(depths) - first; n < 64 {
			alive = 1<<n - 1
		}
		for i := 0; alive != 0; i++ {
			var still uint64
			if i < len(chain) {
				still = alive & held[chain[i]]
			}
			for gone := alive &^ still; gone != 0; gone &= gone - 1 {
				depths[first+bits.TrailingZeros64(gone)] = i
			}
			alive = still
		}
	}
}

// add notes that the chain was sent to the pod, which holds so many blocks. A chain's end is forgotten
// before its beginning.
func (x *index) add(p int, chain []uint64, capacity int) {
	r := x.pod(p)
	for i := len(chain) - 1; i >= 0; i-- {
		hash := chain[i]
		if n, ok := r.at[hash]; ok {
			r.unlink(n)
			r.link(n)
			continue
		}
		r.insert(hash)
		x.held[p/64][hash] |= 1 << (p % 64)
	}
	for len(r.at) > max(capacity, 0) {
		x.drop(p, r, r.nodes[0].next)
	}
}

// forget takes out all of a pod, which has gone.
func (x *index) forget(p int) {
	if p >= len(x.pods) {
		return
	}
	for r := &x.pods[p]; len(r.at) > 0; {
		x.drop(p, r, r.nodes[0].next)
	}
}

func (x *index) drop(p int, r *recent, n int32) {
	hash := r.nodes[n].hash
	r.unlink(n)
	r.free = append(r.free, n)
	delete(r.at, hash)
	held := x.held[p/64]
	if left := held[hash] &^ (1 << (p % 64)); left != 0 {
		held[hash] = left
	} else {
		delete(held, hash)
	}
}

func (r *recent) insert(hash uint64) {
	var n int32
	if k := len(r.free); k > 0 {
		n, r.free = r.free[k-1], r.free[:k-1]
	} else {
		n = int32(len(r.nodes))
		r.nodes = append(r.nodes, node{})
	}
	r.nodes[n].hash = hash
	r.at[hash] = n
	r.link(n)
}

// link puts a node at the tail, as the most recently used.
func (r *recent) link(n int32) {
	tail := r.nodes[0].prev
	r.nodes[n].prev, r.nodes[n].next = tail, 0
	r.nodes[tail].next = n
	r.nodes[0].prev = n
}

func (r *recent) unlink(n int32) {
	at := r.nodes[n]
	r.nodes[at.prev].next = at.next
	r.nodes[at.next].prev = at.prev
}
