package queue

// node is a thing in a heap: it comes before others, and remembers where it is.
type node[T any] interface {
	before(other T) bool
	slot() *int // 1 and up while in a heap, else 0
}

// heap keeps the thing that comes before all others at its top. A thing whose rank has changed is
// put right by fix. Ranks of two things must differ, so that the order is the same in every run.
type heap[T node[T]] struct{ things []T }

func (h *heap[T]) len() int { return len(h.things) }

// top is the first of all. The heap must not be empty.
func (h *heap[T]) top() T { return h.things[0] }

func (h *heap[T]) push(x T) {
	h.things = append(h.things, x)
	*x.slot() = len(h.things)
	h.up(len(h.things) - 1)
}

func (h *heap[T]) remove(x T) {
	i, last := *x.slot()-1, len(h.things)-1
	h.swap(i, last)
	var none T
	h.things[last] = none // not to hold on to it
	h.things = h.things[:last]
	*x.slot() = 0
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func (h *heap[T]) fix(x T) {
	i := *x.slot() - 1
	h.down(i)
	h.up(i)
}

func (h *heap[T]) swap(i, j int) {
	a := h.things
	a[i], a[j] = a[j], a[i]
	*a[i].slot(), *a[j].slot() = i+1, j+1
}

func (h *heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.things[i].before(h.things[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.things) {
			return
		}
		if right := child + 1; right < len(h.things) && h.things[right].before(h.things[child]) {
			child = right
		}
		if !h.things[child].before(h.things[i]) {
			return
		}
		h.swap(i, child)
		i = child
	}
}
