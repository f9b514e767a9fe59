package workload

import (
	"container/heap"
	"time"
)

// arrival is a moment at which somebody asks.
type arrival struct {
	at     time.Duration
	origin int
	client int // of a closed loop
}

// pace says when requests come.
type pace interface {
	// peek is the next arrival; false: none now.
	peek() (arrival, bool)
	// pop takes it.
	pop()
	// done says that a client has its answer. Open loops take no notice.
	done(client int, at time.Duration)
	// ended: none will come any more.
	ended() bool
}

// newPace makes the pace of checked arrivals. Nothing comes at end or later; 0: no end.
func newPace(a Arrivals, list []Origin, w weights, seed uint64, end time.Duration) pace {
	if end == 0 {
		end = maxDelay
	}
	if a.Clients > 0 {
		return newClosed(a, w, seed, end)
	}
	o := &open{end: end}
	for i, origin := range list {
		p := newProcess(a, w.part(i), origin.Shift, mix(seed, uint64(i)))
		o.lines = append(o.lines, line{p, seconds(p.next())})
	}
	return o
}

// open is several processes side by side.
type open struct {
	lines []line
	end   time.Duration
}

type line struct {
	process *process
	next    time.Duration
}

func (o *open) first() int {
	best := 0
	for i := range o.lines {
		if o.lines[i].next < o.lines[best].next {
			best = i
		}
	}
	return best
}

func (o *open) peek() (arrival, bool) {
	i := o.first()
	at := o.lines[i].next
	return arrival{at: at, origin: i}, at < o.end
}

func (o *open) pop() {
	l := &o.lines[o.first()]
	l.next = max(l.next, seconds(l.process.next()))
}

func (o *open) done(int, time.Duration) {}

func (o *open) ended() bool {
	_, more := o.peek()
	return !more
}

// closed is clients that wait for their answers.
type closed struct {
	think   Delays
	seed    uint64
	end     time.Duration
	asked   []uint64 // how often each client has asked
	origin  []int
	due     timeline[arrival]
	waiting int
}

func newClosed(a Arrivals, w weights, seed uint64, end time.Duration) *closed {
	c := &closed{think: a.Think, seed: seed, end: end, asked: make([]uint64, a.Clients), origin: make([]int, a.Clients)}
	for i := range a.Clients {
		// The middle of the client's slice of all, so that regions get their parts to within one.
		c.origin[i] = w.at((float64(i*stride%a.Clients) + 0.5) / float64(a.Clients))
		c.add(i, a.Ramp/time.Duration(a.Clients)*time.Duration(i))
	}
	return c
}

// stride spreads the clients of a region over the ramp. It is a prime above [MaxClients], so that
// every client gets a slice of its own.
const stride = 1_000_003

func (c *closed) add(client int, at time.Duration) {
	if at < c.end {
		c.due.add(at, arrival{at: at, origin: c.origin[client], client: client})
	}
}

func (c *closed) peek() (arrival, bool) { return c.due.peek() }

func (c *closed) pop() {
	a := c.due.pop()
	c.asked[a.client]++
	c.waiting++
}

func (c *closed) done(client int, at time.Duration) {
	c.waiting--
	u := unit(mix(mix(c.seed, tagTurn), mix(uint64(client), c.asked[client])))
	c.add(client, at+c.think.Quantile(u))
}

func (c *closed) ended() bool { return c.due.len() == 0 && c.waiting == 0 }

// timeline holds things by time; those of one time, in the order in which they were added.
type timeline[T any] struct {
	items moments[T]
	count uint64
}

type moment[T any] struct {
	at    time.Duration
	order uint64
	value T
}

func (t *timeline[T]) len() int { return len(t.items) }

func (t *timeline[T]) add(at time.Duration, v T) {
	t.count++
	heap.Push(&t.items, moment[T]{at, t.count, v})
}

func (t *timeline[T]) peek() (v T, ok bool) {
	if len(t.items) == 0 {
		return v, false
	}
	return t.items[0].value, true
}

func (t *timeline[T]) pop() T { return heap.Pop(&t.items).(moment[T]).value }

type moments[T any] []moment[T]

func (m moments[T]) Len() int { return len(m) }
func (m moments[T]) Less(i, j int) bool {
	return m[i].at < m[j].at || m[i].at == m[j].at && m[i].order < m[j].order
}
func (m moments[T]) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *moments[T]) Push(x any)   { *m = append(*m, x.(moment[T])) }
func (m *moments[T]) Pop() any {
	old := *m
	last := old[len(old)-1]
	clear(old[len(old)-1:])
	*m = old[:len(old)-1]
	return last
}
