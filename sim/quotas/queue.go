package quotas

// queue is what will happen, by virtual time and then by when it was put in.
type queue struct {
	heap []event
	n    uint64
}

type event struct {
	at   int64 // ns
	n    uint64
	call func()
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.n < o.n }

// put has call called at the time given.
func (q *queue) put(at int64, call func()) {
	q.n++
	q.heap = append(q.heap, event{at, q.n, call})
	h := q.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// take the next event; the queue must not be empty.
func (q *queue) take() event {
	h := q.heap
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h[last] = event{}
	q.heap = h[:last]
	h = q.heap
	for i := 0; ; {
		least := i
		for down := 2*i + 1; down <= 2*i+2 && down < last; down++ {
			if h[down].before(h[least]) {
				least = down
			}
		}
		if least == i {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
