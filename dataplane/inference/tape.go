package inference

import "math"

const (
	// maxNodes bounds a tape, so that a body of nothing but brackets doesn't take up many times its
	// size. Long conversations with many tools have some ten thousand values.
	maxNodes = 1 << 16
	// keepNodes is the most room that an idle tape keeps.
	keepNodes = 1 << 12
	// maxBody is the largest body that positions on a tape can tell.
	maxBody = math.MaxInt32
)

// node is one value, or the name of a member, on a tape. What an object or a list holds follows it,
// the names of members before their values. The numbers of a list of numbers alone have no nodes.
type node struct {
	from, to int32 // in the body
	next     int32 // the node after all of this one; while a container is open, what it is in
	what     what
}

type what uint8

const (
	plainNode   what = iota
	escapedNode      // a string that holds escapes
	numbersNode      // a list of numbers alone
)

// tape is an index of one value of a body: its nodes in the order in which they stand there.
type tape struct {
	nodes  []node
	within int32 // the innermost open container; -1 outside
	// opaque: there are more values than a tape holds. Only the first node means something.
	opaque bool
}

// reset makes the tape ready for a value that starts at from.
func (t *tape) reset() {
	if cap(t.nodes) > keepNodes {
		t.nodes = nil
	}
	t.nodes, t.within, t.opaque = t.nodes[:0], -1, false
}

// end closes the tape: its value stands from from to to.
func (t *tape) end(from, to int) {
	if t.opaque {
		t.nodes = append(t.nodes[:0], node{from: int32(from), to: int32(to), next: 1})
	}
}

// full says that there's no room, and makes the tape opaque.
func (t *tape) full() bool {
	if len(t.nodes) < maxNodes {
		return false
	}
	t.opaque = true
	return true
}

// open notes a container, and says whether there was room.
func (t *tape) open(from int) bool {
	if t.full() {
		return false
	}
	t.nodes = append(t.nodes, node{from: int32(from), next: t.within})
	t.within = int32(len(t.nodes) - 1)
	return true
}

// close ends the innermost container.
func (t *tape) close(to int) {
	n := &t.nodes[t.within]
	n.to = int32(to)
	t.within, n.next = n.next, int32(len(t.nodes))
}

// numbers says that the innermost container holds numbers alone.
func (t *tape) numbers() { t.nodes[t.within].what = numbersNode }

// leaf notes a value that isn't a container, or a name, and says whether there was room.
func (t *tape) leaf(from, to int, escaped bool) bool {
	if t.full() {
		return false
	}
	w := plainNode
	if escaped {
		w = escapedNode
	}
	t.nodes = append(t.nodes, node{int32(from), int32(to), int32(len(t.nodes) + 1), w})
	return true
}
