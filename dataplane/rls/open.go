package rls

import (
	"sync"
	"time"

	"anabranch/api/fleet"
)

// reservation is what was taken for a request.
type reservation interface {
	// Settle charges what it used in all.
	Settle(requests, input, output int64)
}

// name is what an open request is found by. Ids of different tenants don't meet.
type name struct {
	tenant fleet.TenantID
	id     string
}

// held is an open request. Whoever takes it out of open settles it.
type held struct {
	name                    name
	of                      reservation
	requests, input, output int64 // reserved
	until                   time.Time
	older, newer            *held
}

// estimate settles a request of which nothing more will be heard: by what it reserved.
func (h *held) estimate() { h.of.Settle(h.requests, h.input, h.output) }

// open are the requests whose end is still to be told: at most a number of them, each for the same
// time. They stand in a line in the order of their beginnings, which is that of their times.
type open struct {
	keep time.Duration
	most int

	mu     sync.Mutex // guards the rest
	named  map[name]*held
	oldest *held
	newest *held
}

func newOpen(keep time.Duration, most int) *open {
	return &open{keep: keep, most: most, named: make(map[name]*held)}
}

// put takes in a request that begins at now. What it gives back, the caller must settle: an earlier
// one of the same name, whose end can't be told any more, or the oldest, where there are too many; why is
// endReplaced or endCrowded. Nil: nothing.
func (o *open) put(h *held, now time.Time) (out *held, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out, why = o.named[h.name], endReplaced
	if out == nil && len(o.named) >= o.most {
		out, why = o.oldest, endCrowded
	}
	if out != nil {
		o.remove(out)
	}
	h.until = now.Add(o.keep)
	o.named[h.name] = h
	h.older = o.newest
	if o.newest != nil {
		o.newest.newer = h
	} else {
		o.oldest = h
	}
	o.newest = h
	return out, why
}

// take is the request of that name, which the caller must settle; nil: there is none.
func (o *open) take(n name) *held {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.named[n]
	if h != nil {
		o.remove(h)
	}
	return h
}

// due are those whose time is over at now, which the caller must settle.
func (o *open) due(now time.Time) []*held {
	return o.while(func(h *held) bool { return !now.Before(h.until) })
}

// all are those that there are, which the caller must settle.
func (o *open) all() []*held { return o.while(func(*held) bool { return true }) }

// while takes the oldest for as long as the condition holds of them.
func (o *open) while(holds func(*held) bool) []*held {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []*held
	for o.oldest != nil && holds(o.oldest) {
		out = append(out, o.oldest)
		o.remove(o.oldest)
	}
	return out
}

func (o *open) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.named)
}

// remove takes one out; mu is held.
func (o *open) remove(h *held) {
	delete(o.named, h.name)
	if h.older != nil {
		h.older.newer = h.newer
	} else {
		o.oldest = h.newer
	}
	if h.newer != nil {
		h.newer.older = h.older
	} else {
		o.newest = h.older
	}
	h.older, h.newer = nil, nil
}
