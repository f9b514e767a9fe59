package kvevents

import (
	"slices"
	"time"

	"anabranch/dataplane/prefix"
)

// Defaults of [BookOptions].
const (
	// DefaultNodes is room for a million tokens in blocks of 16, in some 6 MiB of memory.
	DefaultNodes = 1 << 16
	// DefaultGrace is how long after a first token the events of its prompt may come: servers send
	// them with the step that computed it, or the one after.
	DefaultGrace = 500 * time.Millisecond
)

const (
	// maxStores is how many of the latest stores are looked at for a request, and so how much a server
	// may store until the end of a stream whose beginning can still be made out: half a million tokens
	// in blocks of 16.
	maxStores = 1 << 15
	// maxWays is how many engine blocks may complete one block of text.
	maxWays = 4
	// maxPending is how many requests may wait for their grace at a time.
	maxPending = 1 << 10
)

// Result is what became of the attempt to find a request's blocks among the engine's.
type Result uint8

// The results.
const (
	// Associated: its blocks are known.
	Associated Result = iota
	// Ambiguous: more than one prompt that was stored in its time fits.
	Ambiguous
	// Unmatched: none does.
	Unmatched
	// Cached: all of it was there before, so that nothing was stored.
	Cached
	// Untold: the server doesn't say how many tokens of it were cached.
	Untold
	// Unheard: events of its time were missed, or were too many to keep.
	Unheard
	// Odd: its text is too short or too long for its tokens, as of prompts with images.
	Odd
	// Dropped: there were too many requests at once.
	Dropped

	results
)

// String is the name in metrics.
func (r Result) String() string {
	return [...]string{"associated", "ambiguous", "unmatched", "cached", "untold", "unheard", "odd", "dropped", "unknown"}[min(r, results)]
}

// Request is one of this router's at the endpoint that has ended well.
type Request struct {
	// Blocks is the prompt's hash chain, and Bytes the size of its text.
	Blocks []uint64
	Bytes  int
	// Prompt and Cached count tokens, as the server told.
	Prompt, Cached int64
	// Began and First are when it was sent, and when its first token came.
	Began, First time.Time
}

// BookOptions of a [Book]. Index and Holder are needed.
type BookOptions struct {
	Index  *prefix.Index
	Holder *prefix.Holder
	// Glossary is shared between endpoints. Nil: none.
	Glossary *Glossary
	// Family names what the endpoint serves: endpoints of one family may hash alike.
	Family uint64
	// Nodes is how many of the engine's blocks are followed. 0: [DefaultNodes].
	Nodes int
	// Grace is how long after a request's first token its events may come. 0: [DefaultGrace].
	Grace time.Duration
}

// Book is what is known of one engine's cache by its events, and of which of this router's prompts
// are in it. It is not safe for concurrent use, and its times never go back.
type Book struct {
	opt  BookOptions
	tree tree
	now  time.Time

	listening bool
	since     time.Time // from when on all events have been heard
	size      int       // tokens in a block
	stores    ring
	pending   []Request // by when their grace ends
	results   [results]uint64
	torn      uint64 // blocks whose hash is no hash of what is before them
	wrong     uint64 // associations that a request has proved wrong

	texts  map[uint64][]uint64 // by engine block in the tree, the blocks of text that it completes
	blocks map[uint64][]uint64 // and the other way round
}

// NewBook makes a book that hears nothing yet.
func NewBook(opt BookOptions) *Book {
	if opt.Nodes <= 0 {
		opt.Nodes = DefaultNodes
	}
	if opt.Grace <= 0 {
		opt.Grace = DefaultGrace
	}
	b := &Book{opt: opt}
	b.tree = tree{most: max(opt.Nodes, 16), changed: b.changed, added: b.added, tore: b.tore, forgot: b.forgot, reached: b.reached}
	b.reset()
	return b
}

// reset forgets what the engine holds.
func (b *Book) reset() {
	b.tree.reset()
	b.stores.reset()
	b.texts, b.blocks = make(map[uint64][]uint64), make(map[uint64][]uint64)
}

// Listen says that everything that happens from since on will be heard.
func (b *Book) Listen(since time.Time) {
	b.listening, b.since = true, since
}

// Pause says that nothing is heard until [Book.Listen]: requests of that time can't be made out. If it
// turns out that nothing was missed, the rest still holds.
func (b *Book) Pause() { b.listening = false }

// Lost says that events were missed: what was told before is a guess again, that ages, and nothing is
// heard until [Book.Listen].
func (b *Book) Lost() {
	b.Pause()
	b.reset()
}

// Restarted says that the engine is another one, which holds nothing yet.
func (b *Book) Restarted(now time.Time) {
	b.reset()
	b.opt.Index.Cleared(b.opt.Holder, now)
}

// Apply takes in what the engine says.
func (b *Book) Apply(batch *Batch, now time.Time) {
	b.now = now
	for i := range batch.Events {
		e := &batch.Events[i]
		if e.Elsewhere && e.Kind != Cleared {
			continue
		}
		switch e.Kind {
		case Stored:
			b.stored(e)
		case Removed:
			for _, h := range e.Hashes {
				b.removed(h)
			}
		case Cleared:
			b.tree.reset()
			b.texts, b.blocks = make(map[uint64][]uint64), make(map[uint64][]uint64)
			b.opt.Index.Cleared(b.opt.Holder, now)
		}
	}
}

func (b *Book) stored(e *Event) {
	if e.BlockSize > 0 && e.BlockSize != b.size {
		b.size = e.BlockSize
	}
	at := b.now.UnixNano()
	var parent *node
	if e.HasParent {
		parent = b.tree.behind(e.Parent, at)
	}
	for i, h := range e.Hashes {
		n := b.tree.store(parent, h, at)
		b.stores.add(store{n, at, i < len(e.Hashes)-1})
		parent = n
	}
}

func (b *Book) removed(hash uint64) {
	if n := b.tree.nodes[hash]; n != nil {
		b.tree.remove(n) // and tells what was there
		b.detach(hash)
		return
	}
	if g := b.opt.Glossary; g != nil {
		for _, text := range g.texts(b.key(hash)) {
			b.evicted(text)
		}
	}
}

// key is an engine block's in the glossary.
func (b *Book) key(hash uint64) uint64 { return (hash ^ b.opt.Family) * 0x9e3779b97f4a7c15 }

// changed tells the index of blocks of text that are there now, or no longer.
func (b *Book) changed(n *node) {
	list := b.texts[n.hash]
	if n.whole && len(list) > 0 {
		b.opt.Index.Confirm(b.opt.Holder, list, b.now)
		return
	}
	for _, text := range list {
		b.evicted(text)
	}
}

// evicted tells the index that a block of text is gone, unless another prompt has it too: where just
// one ends and the next begins is not known to the token, so that two that part there have different
// engine blocks for it.
func (b *Book) evicted(text uint64) {
	for _, hash := range b.blocks[text] {
		if n := b.tree.nodes[hash]; n != nil && n.whole {
			return
		}
	}
	b.opt.Index.Evicted(b.opt.Holder, text)
}

// added gives a new node the blocks of text that its hash is known to complete.
func (b *Book) added(n *node) {
	if b.opt.Glossary == nil {
		return
	}
	for _, text := range b.opt.Glossary.texts(b.key(n.hash)) {
		b.attach(n, text)
	}
}

func (b *Book) tore(n *node) {
	b.torn++
	b.detach(n.hash)
	if b.opt.Glossary != nil {
		b.opt.Glossary.drop(b.key(n.hash))
	}
}

func (b *Book) reached(n *node) { b.stores.add(store{n: n, at: n.at}) }

func (b *Book) forgot(n *node) { b.detach(n.hash) }

// attach notes that a node completes a block of text.
func (b *Book) attach(n *node, text uint64) {
	had := b.blocks[text]
	if slices.Contains(had, n.hash) {
		return
	}
	if len(had) >= maxWays {
		b.untie(had[0], text)
	}
	if list := b.texts[n.hash]; len(list) >= maxTexts {
		b.untie(n.hash, list[0])
	}
	b.texts[n.hash], b.blocks[text] = append(b.texts[n.hash], text), append(b.blocks[text], n.hash)
}

// untie takes a block of text from an engine block.
func (b *Book) untie(hash, text uint64) {
	without(b.texts, hash, text)
	without(b.blocks, text, hash)
}

// detach takes all blocks of text from an engine block.
func (b *Book) detach(hash uint64) {
	for _, text := range b.texts[hash] {
		without(b.blocks, text, hash)
	}
	delete(b.texts, hash)
}

// without takes a value from the list of a key.
func without(lists map[uint64][]uint64, key, value uint64) {
	list := lists[key]
	if i := slices.Index(list, value); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if lists[key] = list; len(list) == 0 {
		delete(lists, key)
	}
}

// Counts of a book since it was made.
type Counts struct {
	// Results of the requests that ended, by [Result].
	Results [results]uint64
	// Torn counts blocks whose hash came behind two others, so that it can't be used; Wrong counts
	// associations that a later request proved wrong.
	Torn, Wrong uint64
	// Nodes is how many blocks of the engine are followed, Texts how many of the router's they hold.
	Nodes, Texts int
}

// Counts tells how it goes.
func (b *Book) Counts() Counts {
	return Counts{b.results, b.torn, b.wrong, len(b.tree.nodes), len(b.blocks)}
}
