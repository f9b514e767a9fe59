package kvevents

import (
	"testing"

	"pgregory.net/rapid"
)

// plain is what a tree should say, without any structure: which blocks are there, and behind which.
type plain struct {
	parent map[uint64]uint64 // 0: a prompt's first
	there  map[uint64]bool
}

func (p *plain) whole(h uint64) bool {
	for ; h != 0; h = p.parent[h] {
		if !p.there[h] {
			return false
		}
	}
	return true
}

func (p *plain) depth(h uint64) (n int32) {
	for ; h != 0; h = p.parent[h] {
		n++
	}
	return n
}

// newTree is one that reports to nobody but told, which knows what is whole.
func newTree(most int, told map[uint64]bool) *tree {
	quiet := func(*node) {}
	t := &tree{most: most, added: quiet, tore: quiet, forgot: quiet, reached: quiet, changed: func(n *node) { told[n.hash] = n.whole }}
	t.reset()
	return t
}

// Blocks are stored and removed in any order in which an engine may: behind one that is there.
func TestTreeAgainstAPlainList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		told := map[uint64]bool{}
		tr := newTree(1<<10, told)
		p := plain{map[uint64]uint64{}, map[uint64]bool{}}
		for i := range rapid.IntRange(1, 150).Draw(t, "steps") {
			h := uint64(rapid.IntRange(1, 24).Draw(t, "block"))
			if p.there[h] && rapid.Bool().Draw(t, "remove") {
				delete(p.there, h)
				tr.remove(tr.nodes[h])
			} else {
				// Each block has the same block before it whenever it comes.
				up, known := p.parent[h]
				if !known {
					up = uint64(rapid.IntRange(0, int(h)-1).Draw(t, "behind"))
				}
				if up != 0 && !p.there[up] {
					continue
				}
				p.parent[h], p.there[h] = up, true
				var parent *node
				if up != 0 {
					parent = tr.behind(up, int64(i))
				}
				tr.store(parent, h, int64(i))
			}
			for h, there := range p.there {
				n := tr.nodes[h]
				if n == nil || n.resident != there || n.whole != p.whole(h) || told[h] != p.whole(h) || n.depth != p.depth(h) || n.torn {
					t.Fatalf("block %d: %+v, told whole %v; want whole %v at depth %d", h, n, told[h], p.whole(h), p.depth(h))
				}
			}
			for h, n := range tr.nodes {
				if n.resident != p.there[h] || !n.resident && n.child == nil {
					t.Fatalf("block %d is kept: %+v", h, n)
				}
			}
		}
	})
}

// Whatever is said, even by an engine whose hashes are none, the tree stays within its bound and
// its links fit.
func TestTreeHoldsTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 16
		tr := newTree(most, map[uint64]bool{})
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			h := rapid.Uint64Range(1, 40).Draw(t, "block")
			switch n := tr.nodes[h]; rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if n != nil {
					tr.remove(n)
				}
			case 1:
				tr.store(nil, h, int64(i))
			default:
				tr.store(tr.behind(rapid.Uint64Range(1, 40).Draw(t, "behind"), int64(i)), h, int64(i))
			}
			check(t, tr, most)
		}
	})
}

func check(t *rapid.T, tr *tree, most int) {
	if len(tr.nodes) > most || len(tr.gone) > most {
		t.Fatalf("%d nodes, %d gone", len(tr.nodes), len(tr.gone))
	}
	listed := 0
	for n := tr.oldest; n != nil; n = n.newer {
		if tr.nodes[n.hash] != n || n.newer == nil && tr.newest != n {
			t.Fatalf("%+v is listed", n)
		}
		listed++
	}
	if listed != len(tr.nodes) {
		t.Fatalf("%d of %d nodes are listed", listed, len(tr.nodes))
	}
	children := 0
	for _, n := range tr.nodes {
		steps := 0
		for p := n.parent; p != nil; p = p.parent {
			if steps++; steps > most || tr.nodes[p.hash] != p {
				t.Fatalf("%+v has parents without end, or that are gone", n)
			}
		}
		if n.whole && (!n.resident || n.parent != nil && !n.parent.whole) {
			t.Fatalf("%+v is whole", n)
		}
		for c := n.child; c != nil; c = c.next {
			if children++; c.parent != n || c.next != nil && c.next.prev != c || children > most {
				t.Fatalf("%+v is no child of %+v", c, n)
			}
		}
		if n.parent != nil {
			children--
		}
	}
	if children != 0 {
		t.Fatalf("%d children too many", children)
	}
}

func TestTreeWhereTheBeginningWasMissed(t *testing.T) {
	tr := newTree(16, map[uint64]bool{})
	top := tr.behind(1, 1)
	c := tr.store(tr.store(top, 2, 1), 3, 1)
	if top.depth != unknownDepth || c.depth != unknownDepth+2 || !c.whole {
		t.Fatalf("%+v behind %+v", c, top)
	}
	tr.store(tr.store(nil, 8, 2), 1, 2) // now it comes again
	if top.depth != 2 || c.depth != 4 || !c.whole {
		t.Errorf("%+v behind %+v", c, top)
	}
	tr.store(top, 8, 3) // which would be a circle
	if n := tr.nodes[8]; !n.torn || n.parent != nil {
		t.Errorf("%+v", n)
	}
}

// A sequence computes on behind a block of its own whose double was dropped: the cache has no name
// for it, and nobody can use what is behind.
func TestTreeBehindWhatIsGone(t *testing.T) {
	tr := newTree(16, map[uint64]bool{})
	b := tr.store(tr.store(nil, 1, 1), 2, 1)
	tr.remove(b)
	tr.remove(tr.nodes[1])
	c := tr.store(tr.behind(2, 2), 3, 2)
	if c.depth != 3 || c.whole || c.parent.resident || c.parent.parent.hash != 1 || c.parent.at != 1 {
		t.Fatalf("%+v", c)
	}
	tr.store(tr.store(nil, 1, 3), 2, 3)
	if !c.whole || c.at != 3 {
		t.Errorf("%+v after what was before it came back", c)
	}
}
