package world

import (
	"slices"
	"time"
)

// pollInterval is how often those that wait are routed again when nothing else happens.
const pollInterval = 10 * time.Millisecond

// waiting is a place in a router's queue.
type waiting struct {
	request *request
	attempt *attempt // that came from another region; nil: it is its client's router
	since   time.Duration
	turn    uint64 // order of arrival at the queue
	kind    group
}

// group is requests of which one's being told to wait is taken to hold for all behind it.
type group struct {
	model  int
	tenant int32 // -1: any that may go anywhere
	from   int   // the region that it came from; -1: its client's router
}

// queue is who waits in a router, by priority and then by turn.
type queue struct {
	list  []*waiting
	turns uint64
	byID  map[uint64]*waiting // for a Queuer
	kinds map[group]int       // how many of each wait
	told  []group             // those of which one was told to wait, in this round
}

// kind is the group that a request in the queue belongs to.
func (w *world) kind(x *waiting) group {
	g := group{x.request.model, -1, -1}
	if l := w.limits[x.request.tenant]; l != nil && len(l.Residency) > 0 {
		g.tenant = x.request.tenant
	}
	if x.attempt != nil {
		g.from = x.request.region
	}
	return g
}

func (q *queue) find(x *waiting) (int, bool) {
	return slices.BinarySearchFunc(q.list, x, func(a, b *waiting) int {
		switch pa, pb := a.request.Priority, b.request.Priority; {
		case pa > pb:
			return -1
		case pa < pb:
			return 1
		case a.turn < b.turn:
			return -1
		case a.turn > b.turn:
			return 1
		default:
			return 0
		}
	})
}

// enqueue lets a request wait in a router.
func (w *world) enqueue(ro *router, x *waiting) {
	q := &ro.queue
	q.turns++
	x.turn, x.since, x.kind = q.turns, w.now, w.kind(x)
	i, _ := q.find(x)
	q.list = slices.Insert(q.list, i, x)
	if q.kinds == nil {
		q.kinds = map[group]int{}
	}
	q.kinds[x.kind]++
	if x.attempt != nil {
		x.attempt.waits = x
		x.attempt.refs++
	} else {
		x.request.waits = x
	}
	if w.queuer != nil {
		if q.byID == nil {
			q.byID = map[uint64]*waiting{}
		}
		q.byID[x.request.ID] = x
	}
	w.regions[ro.region].waiting++
	if !ro.polls {
		ro.polls = true
		w.timeline.push(event{at: w.now + pollInterval, kind: poll, ref: uint32(ro.number)})
	}
}

// dequeue takes a request out of a router's queue. Whoever waits for an attempt must drop it then.
func (w *world) dequeue(ro *router, x *waiting) {
	q := &ro.queue
	if i, ok := q.find(x); ok {
		q.list = slices.Delete(q.list, i, i+1)
	}
	if q.kinds[x.kind] > 1 {
		q.kinds[x.kind]--
	} else {
		delete(q.kinds, x.kind)
	}
	if x.attempt != nil {
		x.attempt.waits = nil
	} else {
		x.request.waits = nil
	}
	delete(q.byID, x.request.ID)
	x.request.queued += w.now - x.since
	w.regions[ro.region].waiting--
}

// desert takes a request out of a router's queue that nobody waits for any more.
func (w *world) desert(ro *router, x *waiting) {
	w.dequeue(ro, x)
	if w.queuer != nil {
		w.queuer.Gone(&x.request.Request, w.at(ro))
	}
	if x.attempt != nil {
		w.drop(x.attempt)
	}
}

// stir marks a router where something has ended, so that those that wait are routed again.
func (w *world) stir(ro *router) {
	if !ro.stirred && len(ro.queue.list) > 0 {
		ro.stirred = true
		w.stirred = append(w.stirred, ro)
	}
}

// wake routes again at all routers where something has ended.
func (w *world) wake() {
	for len(w.stirred) > 0 {
		ro := w.stirred[len(w.stirred)-1]
		w.stirred = w.stirred[:len(w.stirred)-1]
		ro.stirred = false
		if w.queuer != nil {
			w.release(ro)
		} else {
			w.drain(ro)
		}
	}
}

// release routes those again that the policy names.
func (w *world) release(ro *router) {
	for w.err == nil && len(ro.queue.list) > 0 {
		id, ok := w.queuer.Release(w.at(ro))
		if !ok {
			return
		}
		x := ro.queue.byID[id]
		if x == nil || !w.retry(ro, x) {
			return
		}
	}
}

// drain routes all again in order, but those of a kind that has just been told to wait.
func (w *world) drain(ro *router) {
	q := &ro.queue
	q.told = q.told[:0]
	for i := 0; i < len(q.list) && w.err == nil; {
		x := q.list[i]
		if slices.Contains(q.told, x.kind) {
			i++
			continue
		}
		if !w.retry(ro, x) {
			if q.told = append(q.told, x.kind); len(q.told) == len(q.kinds) {
				return // the rest is of the same kinds
			}
			i++
		}
	}
}

// retry routes or picks for a request that waits; false: it waits on.
func (w *world) retry(ro *router, x *waiting) bool {
	waited := w.now - x.since
	if a := x.attempt; a != nil {
		if w.come(a, waited) {
			return false
		}
		w.dequeue(ro, x)
		w.drop(a)
		return true
	}
	r := x.request
	d := w.decide(r, waited)
	if d.wait {
		return false
	}
	w.dequeue(ro, x)
	if !w.follow(r, d) {
		w.route(r)
	}
	return true
}

// poll routes again what waits in a router, and goes on while there is anything.
func (w *world) poll(ro *router) {
	ro.polls = false
	if len(ro.queue.list) == 0 {
		return
	}
	w.stir(ro)
	ro.polls = true
	w.timeline.push(event{at: w.now + pollInterval, kind: poll, ref: uint32(ro.number)})
}
