package kvevents

import (
	"slices"
	"sort"
	"time"

	"anabranch/dataplane/inference"
)

// Bytes of text that a token stands for, at least and at most, for the proportion of text to tokens
// to mean anything: a word of English is 4 to 6, a character of Chinese 1 to 3.
const (
	leastDensity = 1
	mostDensity  = 12
)

// store is when a block was stored.
type store struct {
	n  *node
	at int64
	// inner: another was stored behind it by the same event, which tells of one request's progress, so
	// that it isn't the last of its prompt.
	inner bool
}

// ring holds the latest stores in order of time.
type ring struct {
	list []store
	head int   // of the oldest, once list is full
	lost int64 // when the latest of those was that have been dropped
}

func (r *ring) reset() { r.list, r.head, r.lost = r.list[:0], 0, 0 }

func (r *ring) add(s store) {
	if len(r.list) < maxStores {
		r.list = append(r.list, s)
		return
	}
	r.lost = r.list[r.head].at
	r.list[r.head] = s
	r.head = (r.head + 1) % maxStores
}

func (r *ring) at(i int) store { return r.list[(r.head+i)%len(r.list)] }

// between are the places of the stores from one time to another, both included.
func (r *ring) between(from, to int64) (first, last int) {
	first = sort.Search(len(r.list), func(i int) bool { return r.at(i).at >= from })
	last = sort.Search(len(r.list), func(i int) bool { return r.at(i).at > to })
	return first, last
}

// Ended takes in a request that has ended well. Told says whether the server tells how many tokens
// of a prompt were cached, so that none is a count.
func (b *Book) Ended(r Request, told bool, now time.Time) {
	switch density := float64(r.Bytes) / float64(max(r.Prompt, 1)); {
	case len(r.Blocks) == 0:
	case !told:
		b.results[Untold]++
	case r.Prompt <= 0 || density < leastDensity || density > mostDensity:
		b.results[Odd]++
	case !b.heard(&r):
		b.results[Unheard]++
	case len(b.pending) >= maxPending:
		b.results[Dropped]++
	default:
		i := len(b.pending)
		for i > 0 && b.pending[i-1].First.After(r.First) {
			i--
		}
		b.pending = append(b.pending, Request{})
		copy(b.pending[i+1:], b.pending[i:])
		b.pending[i] = r
		b.Settle(now)
	}
}

// heard says whether all that was stored in a request's time is known.
func (b *Book) heard(r *Request) bool {
	return b.listening && !r.Began.Before(b.since) && r.Began.UnixNano() > b.stores.lost
}

// Due is when [Book.Settle] has something to do next; false: not before a request ends.
func (b *Book) Due() (time.Time, bool) {
	if len(b.pending) == 0 {
		return time.Time{}, false
	}
	return b.pending[0].First.Add(b.opt.Grace), true
}

// Settle looks for the blocks of the requests whose grace has ended.
func (b *Book) Settle(now time.Time) {
	b.now = now
	done := 0
	for ; done < len(b.pending) && !b.pending[done].First.Add(b.opt.Grace).After(now); done++ {
		b.results[b.settle(&b.pending[done])]++
	}
	if done > 0 {
		n := copy(b.pending, b.pending[done:])
		clear(b.pending[n:])
		b.pending = b.pending[:n]
	}
}

// settle finds a request's blocks. Whatever else happened in its time, its own last full block was
// stored then, at the depth that follows from its tokens, and so was all of it that wasn't cached: if
// just one block fits, it is the one.
func (b *Book) settle(r *Request) Result {
	if !b.heard(r) {
		return Unheard
	}
	if b.size <= 0 {
		return Unmatched
	}
	size := int64(b.size)
	full, cached := int32(r.Prompt/size), int32(r.Cached/size)
	b.doubt(r, cached)
	if full <= cached || r.Prompt%size == 0 && r.Cached == r.Prompt-size {
		// Of a prompt that is wholly there the last block is computed again, but is nothing new.
		return Cached
	}
	began := r.Began.UnixNano()
	first, last := b.stores.between(began, r.First.Add(b.opt.Grace).UnixNano())
	var found *node
	for i := first; i < last; i++ {
		s := b.stores.at(i)
		if s.inner || found != nil && found.hash == s.n.hash || !fits(s.n, full, cached, began) {
			continue
		}
		if found != nil {
			return Ambiguous
		}
		found = s.n
	}
	if found == nil {
		return Unmatched
	}
	for i := first; i < last; i++ {
		if s := b.stores.at(i); !s.inner && mayFit(s.n, full, cached, began) && !s.n.before(found) {
			return Ambiguous
		}
	}
	return b.associate(r, found, full, cached)
}

// fits says whether a block may be the last full one of a prompt of which so many blocks were cached:
// it is at the right depth, and the others behind the cached ones are as new.
func fits(n *node, full, cached int32, began int64) bool {
	if n.depth > 0 && n.depth != full || n.depth < 0 && n.depth-unknownDepth != full-cached {
		return false
	}
	for range full - cached - 1 {
		if n = n.parent; n == nil || n.at < began {
			return false
		}
	}
	return true
}

// mayFit says whether a block may be that, though what is known of it isn't enough to fit: it stands
// not so far behind one that turned up in the request's time without its beginning.
func mayFit(n *node, full, cached int32, began int64) bool {
	if n.depth > 0 || n.depth-unknownDepth >= full-cached {
		return false
	}
	for n.parent != nil {
		n = n.parent
	}
	return n.at >= began
}

// before says whether a block is before another, or that itself.
func (n *node) before(other *node) bool {
	for ; other != nil; other = other.parent {
		if other.hash == n.hash {
			return true
		}
	}
	return false
}

// associate gives the blocks of a prompt's text to the engine blocks that complete them, by the
// proportion of bytes to tokens. What was stored before anybody listened stays unknown.
func (b *Book) associate(r *Request, last *node, full, cached int32) Result {
	path := make([]*node, full+1) // by depth
	n := last
	for depth := full; depth > 0 && n != nil; depth-- {
		if n.torn {
			return Unmatched
		}
		path[depth] = n
		n = n.parent
	}
	if top := path[cached]; top != nil && top.depth == unknownDepth && b.tree.nodes[top.hash] == top {
		top.depth = cached
		b.tree.deepen(top.child, cached-unknownDepth)
	}
	tokens := float64(r.Prompt) / float64(r.Bytes)
	for i, text := range r.Blocks {
		ends := float64((i+1)*inference.BlockBytes) * tokens / float64(b.size)
		n := path[min(max(int32(ends+0.5), 1), full)] //nolint:mnd // to the nearest
		if n == nil {
			continue
		}
		if b.opt.Glossary != nil {
			b.opt.Glossary.learn(b.key(n.hash), text)
		}
		live := b.tree.nodes[n.hash]
		if live == nil {
			b.evicted(text)
			continue
		}
		b.tree.touch(live)
		b.attach(live, text)
		if live.whole {
			b.opt.Index.Confirm(b.opt.Holder, []uint64{text}, b.now)
		} else {
			b.evicted(text)
		}
	}
	return Associated
}

// doubt looks whether blocks of the prompt that have long been said to be there were computed all the
// same. Then they are not what they were taken for.
func (b *Book) doubt(r *Request, cached int32) {
	perText := int32(float64(inference.BlockBytes)*float64(r.Prompt)/float64(r.Bytes)/float64(b.size)) + 1
	could := int32((r.Prompt - 1) / int64(b.size)) // at least one token is computed
	before := r.Began.Add(-b.opt.Grace).UnixNano()
	for _, text := range r.Blocks {
		for _, hash := range slices.Clone(b.blocks[text]) {
			n := b.tree.nodes[hash]
			if n == nil || !n.whole || n.at > before || n.depth <= 0 || min(n.depth, could) <= cached+perText {
				continue
			}
			b.untie(hash, text)
			if b.opt.Glossary != nil {
				b.opt.Glossary.unlearn(b.key(hash), text)
			}
			b.wrong++
		}
	}
}
