package world

import "time"

// kind of a message or timer in the timeline.
type kind uint8

const (
	arrive      kind = iota // a client that has moved comes to a router of another region
	move                    // a client whose router is dead looks for another region
	forward                 // a request comes to a router of the cluster's region
	submit                  // … to its pod
	refusal                 // the pod's refusal or reset comes to the router that picked
	firstHere               // the first token comes to the router that picked
	firstHome               // … to the one that routed
	lastHere                // the end of the answer comes to the router that picked
	lastHome                // … to the one that routed
	failureHome             // the other router's failure comes to the one that routed
	overdue                 // the bound of the first token is over at the router that picked
	unreachable             // the router that routed gives up a region that is silent
	leave                   // that nobody wants the answer comes to the router that picked
	orphan                  // the router that picked notices that the one that routed is silent
	abandon                 // that nobody wants the answer comes to the pod
	stall                   // a stream from a hanging cluster has been silent for too long
	poll                    // a router asks again for those that wait
	started                 // a pod has started up
)

// event is a message or timer. Values, not pointers, so that pushing one neither allocates nor
// burdens the garbage collector.
type event struct {
	at   time.Duration
	seq  uint64
	ref  uint32 // slot of an attempt or request, number of a router or pod
	gen  uint32 // of the slot when it was sent: what has been reused since is not meant
	kind kind
	how  Outcome
}

func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && e.seq < o.seq
}

// timeline is a heap with four children a node, which is flatter than one with two and reads
// neighbours together. Events of equal times come out as they went in.
type timeline struct {
	heap []event
	seq  uint64
}

func (t *timeline) push(e event) {
	t.seq++
	e.seq = t.seq
	t.heap = append(t.heap, e)
	i := len(t.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&t.heap[parent]) {
			break
		}
		t.heap[i] = t.heap[parent]
		i = parent
	}
	t.heap[i] = e
}

func (t *timeline) pop() event {
	top := t.heap[0]
	last := len(t.heap) - 1
	e := t.heap[last]
	t.heap = t.heap[:last]
	if last == 0 {
		return top
	}
	i := 0
	for {
		first := 4*i + 1
		if first >= last {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, last); c++ {
			if t.heap[c].before(&t.heap[least]) {
				least = c
			}
		}
		if !t.heap[least].before(&e) {
			break
		}
		t.heap[i] = t.heap[least]
		i = least
	}
	t.heap[i] = e
	return top
}

// next is when the first event is due; never, if there is none.
func (t *timeline) next() time.Duration {
	if len(t.heap) == 0 {
		return never
	}
	return t.heap[0].at
}

// schedule orders pods by when their engines change next. Pods know their place in it.
type schedule []*pod

func (s schedule) next() time.Duration {
	if len(s) == 0 {
		return never
	}
	return s[0].next
}

func (s schedule) before(i, j int) bool {
	return s[i].next < s[j].next || s[i].next == s[j].next && s[i].number < s[j].number
}

func (s schedule) swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].place, s[j].place = i, j
}

// fix moves a pod to where it belongs after its time has changed.
func (s schedule) fix(p *pod) {
	i := p.place
	for i > 0 && s.before(i, (i-1)/2) {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		c := 2*i + 1
		if c >= len(s) {
			return
		}
		if c+1 < len(s) && s.before(c+1, c) {
			c++
		}
		if !s.before(c, i) {
			return
		}
		s.swap(i, c)
		i = c
	}
}

func (s *schedule) add(p *pod) {
	p.place = len(*s)
	*s = append(*s, p)
	s.fix(p)
}

// lane is a queue of things that become due in the order in which they were put in, since all of one
// lane take equally long. It is a ring whose slots keep their buffers.
type lane[T any] struct {
	ring       []due[T]
	head, size int
}

type due[T any] struct {
	at   time.Duration
	what T
}

// put gives the next free slot to be filled; what it held before is still there.
func (l *lane[T]) put(at time.Duration) *T {
	if l.size == len(l.ring) {
		grown := make([]due[T], max(16, 2*len(l.ring)))
		n := copy(grown, l.ring[l.head:])
		copy(grown[n:], l.ring[:l.head])
		l.ring, l.head = grown, 0
	}
	s := &l.ring[(l.head+l.size)&(len(l.ring)-1)]
	l.size++
	s.at = at
	return &s.what
}

func (l *lane[T]) next() time.Duration {
	if l.size == 0 {
		return never
	}
	return l.ring[l.head].at
}

// take gives the first; it is valid until the next put.
func (l *lane[T]) take() *T {
	s := &l.ring[l.head]
	l.head = (l.head + 1) & (len(l.ring) - 1)
	l.size--
	return &s.what
}

// peek gives the i-th from the front.
func (l *lane[T]) peek(i int) *T { return &l.ring[(l.head+i)&(len(l.ring)-1)].what }
