package kvevents

import (
	"slices"
	"sync"
)

const (
	// DefaultWords is the size of a [Glossary] where none is given: 128 MiB of text, about what four
	// engines with room for 8 million tokens each hold, in some 10 MiB of memory.
	DefaultWords = 1 << 17
	// maxTexts is how many blocks of text one engine block may stand for: the same text of several
	// tenants has a hash for each.
	maxTexts = 8
)

// Glossary says which blocks of text an engine's block completes, as learned at any endpoint. Engines
// of one model that are set up alike hash alike, so that what was learned at one holds at the others,
// and after a block comes back; engines that hash differently have entries of their own. Use
// [NewGlossary]. It is safe for concurrent use.
type Glossary struct {
	mu sync.Mutex // guards all
	// half of the words are in young at most; when it is full it becomes old, and what was old is
	// forgotten.
	young, old map[uint64][]uint64
	half       int
}

// NewGlossary makes one of so many engine blocks; 0: [DefaultWords].
func NewGlossary(words int) *Glossary {
	if words <= 0 {
		words = DefaultWords
	}
	return &Glossary{young: make(map[uint64][]uint64), half: max(words/2, 1)}
}

// texts of an engine block. The slice must not be changed.
func (g *Glossary) texts(key uint64) []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.find(key)
}

// find looks a key up, and keeps what it finds for longer.
func (g *Glossary) find(key uint64) []uint64 {
	list, ok := g.young[key]
	if !ok {
		if list = g.old[key]; list != nil {
			g.put(key, list)
		}
	}
	return list
}

func (g *Glossary) put(key uint64, list []uint64) {
	if len(g.young) >= g.half {
		g.old, g.young = g.young, make(map[uint64][]uint64)
	}
	g.young[key] = list
}

// learn adds a block of text to an engine block.
func (g *Glossary) learn(key, text uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := g.find(key)
	if slices.Contains(list, text) {
		return
	}
	if len(list) >= maxTexts {
		list = list[1:]
	}
	g.put(key, append(slices.Clip(list), text))
}

// unlearn takes a block of text from an engine block.
func (g *Glossary) unlearn(key, text uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := g.find(key)
	if i := slices.Index(list, text); i >= 0 {
		g.put(key, slices.Concat(list[:i], list[i+1:]))
	}
}

// drop forgets an engine block.
func (g *Glossary) drop(key uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.young, key)
	delete(g.old, key)
}
