package kvevents

import "slices"

// node is one engine block and what came before it.
type node struct {
	hash uint64
	// depth from 1, in blocks, a prompt's first block being 1. Below 0: unknown, since the blocks
	// before it were stored before anybody listened; then it is unknownDepth at the first block that
	// is known of, and more behind that.
	depth    int32
	resident bool  // the engine has it
	whole    bool  // and all before it
	torn     bool  // its hash has come behind two blocks, so that it says nothing of what is before it
	at       int64 // when it was stored, or came within reach again

	parent, child, next, prev *node // the tree: first child, and siblings
	older, newer              *node // by when they were last of use
}

// unknownDepth is the depth of a block of which all that is known is that others came behind it.
const unknownDepth = -1 << 30

// tree is the blocks of one engine, as its events tell. It is bounded: those that were of no use for
// longest are forgotten, which doesn't mean that they are gone.
type tree struct {
	nodes map[uint64]*node
	// gone are some of those that are no longer there. A sequence may go on computing behind a block
	// of its own that the cache has no name for any more, since it had dropped its double.
	gone           map[uint64]*node
	most           int
	oldest, newest *node
	// changed is told of nodes that become whole or cease to be, added of new ones, tore of those that
	// turn out to be torn, and forgot of those that are about to be forgotten.
	changed, added, tore, forgot func(*node)
	// reached is told of nodes that were there, out of reach behind a hole, until that was filled.
	reached func(*node)
}

func (t *tree) reset() {
	t.nodes, t.gone, t.oldest, t.newest = make(map[uint64]*node), make(map[uint64]*node), nil, nil
}

// store notes a block behind another; nil: a prompt's first.
func (t *tree) store(parent *node, hash uint64, at int64) *node {
	n := t.nodes[hash]
	switch {
	case n == nil:
		n = t.add(hash)
		t.link(n, parent)
	case n.parent != parent && !t.adopt(n, parent):
		t.tear(n)
	}
	n.at, n.resident = at, true
	t.touch(n)
	t.heal(n, at)
	return n
}

// tear notes that a node's hash says nothing of what is before it, nor do those behind it.
func (t *tree) tear(n *node) {
	if n.torn {
		return
	}
	n.torn = true
	t.tore(n)
	t.walk(n.child, func(n *node) bool {
		if n.torn {
			return false
		}
		n.torn = true
		t.tore(n)
		return true
	})
}

// behind finds the block behind which others were stored. One that was never heard of is there all
// the same, with all before it, or nothing could be computed behind it.
func (t *tree) behind(hash uint64, at int64) *node {
	n := t.nodes[hash]
	switch {
	case n != nil:
	case t.gone[hash] != nil:
		n = t.hole(t.gone[hash])
	default:
		n = t.add(hash)
		n.depth, n.resident, n.at = unknownDepth, true, at
		t.heal(n, at)
	}
	t.touch(n)
	return n
}

// hole puts a block that is gone back into its place, and what is gone before it, as what is behind it
// needs it.
func (t *tree) hole(was *node) *node {
	var line []*node // from the last to the first that is gone
	var n *node
	for ; was != nil && n == nil; was = was.parent {
		if n = t.nodes[was.hash]; n == nil {
			line = append(line, was)
		}
	}
	for _, was := range slices.Backward(line) {
		up := n
		if up != nil {
			t.touch(up) // lest it be forgotten for what comes behind it
		}
		n = t.add(was.hash)
		if t.link(n, up); up == nil {
			n.depth = was.depth
		}
		n.at, n.torn = was.at, n.torn || was.torn
	}
	return n
}

func (t *tree) add(hash uint64) *node {
	n := &node{hash: hash}
	delete(t.gone, hash)
	t.nodes[hash] = n
	t.push(n)
	for len(t.nodes) > t.most {
		t.forget(t.oldest)
	}
	t.added(n)
	return n
}

func (t *tree) link(n, parent *node) {
	n.parent, n.depth = parent, 1
	if parent == nil {
		return
	}
	n.depth = parent.depth + 1
	if parent.torn {
		t.tear(n)
	}
	if n.next = parent.child; n.next != nil {
		n.next.prev = n
	}
	parent.child = n
}

// adopt gives a parent to a node of which none was known. False: it has another.
func (t *tree) adopt(n, parent *node) bool {
	if n.parent != nil || n.depth == 1 || parent == nil && n.depth > 0 {
		return false
	}
	for p := parent; p != nil; p = p.parent {
		if p == n {
			return false
		}
	}
	had := n.depth
	t.link(n, parent)
	t.deepen(n.child, n.depth-had)
	if parent != nil && !parent.whole {
		t.cut(n)
	}
	return true
}

// deepen moves the depth of nodes, their siblings and all behind them.
func (t *tree) deepen(n *node, by int32) {
	t.walk(n, func(n *node) bool {
		n.depth += by
		return true
	})
}

// walk visits a node, its later siblings and what is behind them, where visit says so.
func (t *tree) walk(n *node, visit func(*node) bool) {
	for stack := []*node{n}; len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for ; n != nil; n = n.next {
			if visit(n) && n.child != nil {
				stack = append(stack, n.child)
			}
		}
	}
}

// heal makes a node whole, and what is behind it, if what is before it is. A prompt that comes through
// there may have been computed as a whole, while the cache kept what it had: that counts as stored.
func (t *tree) heal(n *node, at int64) {
	if n.whole || n.parent != nil && !n.parent.whole {
		return
	}
	n.whole = true
	t.changed(n)
	t.walk(n.child, func(n *node) bool {
		if n.whole || !n.resident {
			return false
		}
		n.whole, n.at = true, at
		t.changed(n)
		t.reached(n)
		return true
	})
}

// cut is the opposite.
func (t *tree) cut(n *node) {
	if !n.whole {
		return
	}
	n.whole = false
	t.changed(n)
	t.walk(n.child, func(n *node) bool {
		if !n.whole {
			return false
		}
		n.whole = false
		t.changed(n)
		return true
	})
}

// remove notes that a block is gone.
func (t *tree) remove(n *node) {
	n.resident = false
	t.cut(n)
	for n != nil && !n.resident && n.child == nil { // a hole is kept for what is behind it
		up := n.parent
		t.unlink(n)
		if len(t.gone) >= t.most {
			clear(t.gone)
		}
		t.gone[n.hash] = n
		n = up
	}
}

// forget drops a node without saying that the block is gone.
func (t *tree) forget(n *node) {
	t.forgot(n)
	for c := n.child; c != nil; {
		after := c.next
		c.parent, c.next, c.prev = nil, nil, nil
		c = after
	}
	n.child = nil
	t.unlink(n)
}

// unlink takes a node without children out. It still knows its parent.
func (t *tree) unlink(n *node) {
	delete(t.nodes, n.hash)
	switch {
	case n.prev != nil:
		n.prev.next = n.next
	case n.parent != nil && n.parent.child == n:
		n.parent.child = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	}
	n.next, n.prev = nil, nil
	t.pull(n)
}

// touch makes a node the last to be forgotten.
func (t *tree) touch(n *node) {
	t.pull(n)
	t.push(n)
}

func (t *tree) push(n *node) {
	if n.older = t.newest; n.older != nil {
		n.older.newer = n
	} else {
		t.oldest = n
	}
	t.newest = n
}

func (t *tree) pull(n *node) {
	if n.older != nil {
		n.older.newer = n.newer
	} else {
		t.oldest = n.newer
	}
	if n.newer != nil {
		n.newer.older = n.older
	} else {
		t.newest = n.older
	}
	n.older, n.newer = nil, nil
}
