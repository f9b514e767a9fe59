package quotas

import (
	"slices"
	"strconv"
	"time"

	"anabranch/ratelimit"
)

// How routers deal with the store, as package admit does.
const (
	// turnEvery is how often a router looks which leases are due, if nobody waits.
	turnEvery = 5 * time.Millisecond
	// budget is the longest that a request waits.
	budget = int64(50 * time.Millisecond)
	// probeEvery is how often a store that is away is tried.
	probeEvery = 250 * time.Millisecond
	// overshoot is the part of their share's burst, in percent, that routers begin an outage with.
	overshoot = 20
	// cold is the part of a burst, in percent, that is there after the store has lost its memory.
	cold = 20
)

// leases is Anabranch's scheme: each router holds leases ([ratelimit.Holding]) of a lender in the store
// ([ratelimit.Lending]).
type leases struct {
	w       *world
	lender  *ratelimit.Lending
	names   int
	routers []*lessee
}

// lessee is a router.
type lessee struct {
	number   int
	name     string
	patience int64 // with a call
	held     []*held
	away     bool // the store: nobody waits for it
	probed   int64
	outage   outage
}

// held is a router's leases for a tenant.
type held struct {
	*ratelimit.Holding
	tenant  int
	limits  []ratelimit.Limit
	calling bool
	answers int64
	waiting []*request
}

func newLeases(w *world) scheme {
	s := &leases{w: w, routers: make([]*lessee, len(w.routers))}
	s.lose()
	for i := range w.routers {
		s.crash(i)
		w.after(w.random.Int64N(turnEvery.Nanoseconds()), func() { w.every(turnEvery, func() { s.turn(s.routers[i]) }) })
	}
	return s
}

func (s *leases) lose() { s.lender = s.w.lender() }

func (s *leases) crash(i int) {
	s.names++
	if old := s.routers[i]; old != nil {
		for _, h := range old.held {
			for _, r := range h.waiting {
				if !r.decided {
					s.w.deny(r) // it died with the router
				}
			}
		}
	}
	l := &lessee{number: i, name: "router " + strconv.Itoa(s.names), patience: max(budget, 2*s.w.routers[i].rtt), outage: newOutage(s.w, i)}
	for t := range s.w.spec.Tenants {
		var limits []ratelimit.Limit
		for _, p := range path(t) {
			limits = append(limits, s.w.limits[p])
		}
		l.held = append(l.held, &held{Holding: ratelimit.NewHolding(limits), tenant: t, limits: limits})
	}
	s.routers[i] = l
}

func (s *leases) ask(r *request) {
	l := s.routers[r.router]
	h := l.held[r.tenant]
	if s.settle(l, h, r) {
		return
	}
	h.waiting = append(h.waiting, r)
	seen := h.answers
	s.w.after(budget, func() {
		switch {
		case r.decided:
		case h.Left(orgTokens, s.w.now) > 0 && h.Spend(r.costs[:], s.w.now) == ratelimit.Spent:
			s.w.admit(r)
		case h.answers > seen:
			s.w.deny(r) // the store has answered, and it wasn't enough
		default:
			s.alone(l, r)
		}
	})
	s.turn(l)
}

// settle decides about a request as far as that can be done at once.
func (s *leases) settle(l *lessee, h *held, r *request) bool {
	switch h.Spend(r.costs[:], s.w.now) {
	case ratelimit.Spent:
		s.w.admit(r)
	case ratelimit.Refused:
		s.w.deny(r)
	default:
		if !l.away {
			return false
		}
		s.alone(l, r)
	}
	return true
}

// alone decides without the store, as policy says; what passes is charged when the store has answered.
func (s *leases) alone(l *lessee, r *request) {
	passes := false
	switch s.w.spec.Fault.policy() {
	case Open:
		passes = true
	case Share:
		l.outage.begin(s.w.now)
		passes = l.outage.have.take(r, s.w.now/1000, true)
	}
	if passes {
		l.outage.charge(r)
	}
	s.w.conclude(r, passes)
}

// turn calls the store about all leases that are due, in one round trip.
func (s *leases) turn(l *lessee) {
	if s.routers[l.number] != l {
		return
	}
	if l.away {
		if s.w.now-l.probed < probeEvery.Nanoseconds() {
			return
		}
		l.probed = s.w.now
	}
	var due []*held
	var calls []ratelimit.In
	if !slices.ContainsFunc(l.held, func(h *held) bool { return !h.calling && h.Due(s.w.now) }) {
		return
	}
	for t, h := range l.held {
		if h.calling || !h.Soon(s.w.now) {
			continue
		}
		h.calling = true
		in := s.w.in(l.number, t, l.name)
		h.Call(&in, ratelimit.Span(time.Duration(s.w.routers[l.number].rtt)), s.w.now)
		due, calls = append(due, h), append(calls, in)
	}
	if len(due) == 0 {
		return
	}
	results := make([]ratelimit.Out, len(calls))
	s.w.send(l.number, l.patience, func() {
		s.w.result.Messages += int64(len(calls))
		for i := range calls {
			results[i] = lease(s.lender, calls[i])
		}
	}, func(answered bool) {
		if s.routers[l.number] == l {
			s.answered(l, due, results, answered)
		}
	})
}

func (s *leases) answered(l *lessee, due []*held, results []ratelimit.Out, answered bool) {
	l.away = !answered
	for i, h := range due {
		h.calling = false
		if !answered {
			continue
		}
		h.answers++
		h.Answer(results[i], s.w.now)
		if charges := l.outage.settle(h.tenant, h.limits, s.w.now, results[i].Gap); charges != nil {
			h.Charge(charges)
		}
	}
	for _, h := range due {
		waiting := h.waiting
		h.waiting = nil
		for _, r := range waiting {
			if !r.decided && !s.settle(l, h, r) {
				h.waiting = append(h.waiting, r)
			}
		}
	}
}
