package world

import (
	"time"

	"anabranch/sim/workload"
)

// request is one request of the workload until it has ended for its client and nobody speaks of it.
type request struct {
	workload.Request
	slot, gen uint32
	refs      int // its client, and its attempts
	record    int // its place in Result.Records; -1: it is of the warm-up
	steps     bool
	region    int // of its client
	tenant    int32
	model     int
	leg       time.Duration // one way between client and router
	router    *router       // that it is at; nil: none yet
	goes      *router       // that it is on its way to, while it is at none
	waits     *waiting      // in the router that it is at; nil: it doesn't
	attempt   *attempt      // that is under way; nil: none
	attempts  int           // at this router
	tries     int           // at all
	tried     []Place
	queued    time.Duration
	first     time.Duration // at the client; 0: none
	started   bool          // the first token has come
	done      bool          // it has ended for its client
}

// attempt is one try of a request. Two routers may have it open: the one that routed and, if the
// cluster is in another region, the one that picked.
type attempt struct {
	home, there Attempt
	request     *request
	slot, gen   uint32
	refs        int // open sides, the pod, and messages under way
	away        bool
	homeOpen    bool
	thereOpen   bool
	severed     bool // the routers don't hear of each other any more
	seen        bool // its first token, by the router that picked
	began       bool // its first token was generated
	waits       *waiting
	picks       int  // at the router that picks for another
	pod         *pod // that has it; nil: none yet, or no more
	sent        time.Duration
	bound       time.Duration
	chain       []uint64
	output      int
	cached      int
	messages    uint32
	last        [ways]time.Duration
}

// picker is the attempt as the router that picked its pod sees it.
func (a *attempt) picker() *Attempt {
	if a.away {
		return &a.there
	}
	return &a.home
}

// open says whether the router that picked still waits for it.
func (a *attempt) open() bool {
	if a.away {
		return a.thereOpen
	}
	return a.homeOpen
}

// engineID names it to engines. It is unique as long as anybody speaks of it.
func (a *attempt) engineID() uint64 { return uint64(a.gen)<<32 | uint64(a.slot) }

// pool is where requests and attempts live. Events name them by slot and generation.
type pool struct {
	requests     []*request
	attempts     []*attempt
	freeRequests []*request
	freeAttempts []*attempt
}

func (p *pool) newRequest(r workload.Request) *request {
	var q *request
	if n := len(p.freeRequests); n > 0 {
		q = p.freeRequests[n-1]
		p.freeRequests = p.freeRequests[:n-1]
		*q = request{slot: q.slot, gen: q.gen, tried: q.tried[:0]}
	} else {
		q = &request{slot: uint32(len(p.requests))}
		p.requests = append(p.requests, q)
	}
	q.Request, q.refs = r, 1
	return q
}

func (p *pool) newAttempt(r *request) *attempt {
	var a *attempt
	if n := len(p.freeAttempts); n > 0 {
		a = p.freeAttempts[n-1]
		p.freeAttempts = p.freeAttempts[:n-1]
		*a = attempt{slot: a.slot, gen: a.gen, chain: a.chain[:0]}
	} else {
		a = &attempt{slot: uint32(len(p.attempts))}
		p.attempts = append(p.attempts, a)
	}
	a.request = r
	r.refs++
	return a
}

func (p *pool) dropRequest(r *request) {
	if r.refs--; r.refs == 0 {
		r.gen++
		p.freeRequests = append(p.freeRequests, r)
	}
}

func (p *pool) dropAttempt(a *attempt) {
	if a.refs--; a.refs == 0 {
		a.gen++
		p.freeAttempts = append(p.freeAttempts, a)
		p.dropRequest(a.request)
	}
}

// live gives the attempts that somebody speaks of, in the order of their slots.
func (p *pool) live(yield func(*attempt) bool) {
	for _, a := range p.attempts {
		if a.refs > 0 && !yield(a) {
			return
		}
	}
}
