package endpoint

import (
	"sync"
	"sync/atomic"
	"time"

	"anabranch/failover"
)

// breaker is the router's own judgement of one place, and of when to look at it with a canary: at
// once after something went wrong, so that a dead place is known as dead without spending tenants'
// requests on finding out, and from time to time while it is ejected.
type breaker struct {
	mu       sync.Mutex // guards what follows, up to failed
	ejector  failover.Ejector
	cfg      failover.EjectConfig
	doubtful bool // something went wrong that no canary has looked into
	anew     bool // something did while the last canary was under way, or since
	hurried  bool // the place shows signs of life: don't wait for the probe to be due
	failed   int  // canaries in a row
	refusals int  // connect failures in a row

	// reason is what ejected the place, nil while it is in use; the request path reads it.
	reason atomic.Pointer[string]
	// byRequests: ejected for how requests went, which no canary has confirmed.
	byRequests atomic.Bool
	// permit asks whether the place may be ejected for how requests went, and if so sets byRequests.
	// Nil: always. It must not use the breaker otherwise.
	permit func(*breaker) bool
	// ejections counts them. Nil: nobody does.
	ejections *atomic.Uint64
	// costly: canaries cost money, and are sent only while the place is ejected.
	costly bool
	// kick wakes the canary's goroutine; it holds one wake-up.
	kick chan struct{}
}

func newBreaker(cfg failover.EjectConfig) *breaker {
	return &breaker{cfg: cfg, kick: make(chan struct{}, 1)}
}

func (b *breaker) configure(cfg failover.EjectConfig) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cfg = cfg
}

// ejected says whether only canaries may go there, and why.
func (b *breaker) ejected() (bool, string) {
	if r := b.reason.Load(); r != nil {
		return true, *r
	}
	return false, ""
}

// record takes in the outcome of a request. While the place is ejected, requests that began
// before still end, and say nothing: only a canary brings it back.
func (b *breaker) record(o failover.Outcome, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if out, _ := b.ejector.Ejected(); out || o == failover.Ignored {
		return
	}
	b.count(o, now)
	if o != failover.OK && !b.costly {
		b.doubtful, b.anew = true, true
	}
	b.publish()
}

// count judges the place anew with one more outcome. The caller holds the lock.
func (b *breaker) count(o failover.Outcome, now time.Time) {
	was, _ := b.ejector.Ejected()
	switch o {
	case failover.OK:
		b.refusals = 0
	case failover.ConnectFailure:
		b.refusals++
	default:
	}
	before := b.ejector
	b.ejector = before.Record(o, b.cfg, now)
	if out, _ := b.ejector.Ejected(); out && !was && b.refusals < b.cfg.ConnectFailures && b.permit != nil && !b.permit(b) {
		// It may be the requests. Canaries decide.
		b.ejector = before.Accuse()
	}
}

// doubt asks for a canary without counting anything: something looks wrong.
func (b *breaker) doubt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.costly {
		return
	}
	if b.anew = true; !b.doubtful {
		b.doubtful = true
		b.wake()
	}
}

// hurry asks for a probe at once if the place is ejected: it shows signs of life.
func (b *breaker) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hurried, _ = b.ejector.Ejected()
}

// eject ejects the place on evidence that isn't a request's outcome.
func (b *breaker) eject(reason string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ejector = b.ejector.Eject(reason, b.cfg, now)
	b.publish()
}

// probe says whether a canary should go now, and if so counts it as sent.
func (b *breaker) probe(now time.Time, rnd float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if out, _ := b.ejector.Ejected(); !out {
		b.anew = false
		return b.doubtful
	}
	if !b.ejector.ProbeDue(now) && !b.hurried {
		return false
	}
	b.hurried = false
	b.ejector = b.ejector.ProbeStarted(now, rnd)
	return true
}

// first says whether the last canary is the first in a row that failed.
func (b *breaker) first() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed == 1
}

// idle: neither ejected nor in doubt, so that nothing has to be done until the next kick.
func (b *breaker) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	out, _ := b.ejector.Ejected()
	return !out && !b.doubtful
}

// probed takes in how a canary went. As many failures in a row as connect failures would eject,
// whatever their kind, eject: a canary is small, and nobody's fault but the place's. A trial of them
// judges a place that requests alone accuse. One that is answered clears a place of a doubt, but not of what went
// wrong after it was sent: it may have been the last that the place answered. Restored: this one brought the
// place back.
func (b *breaker) probed(o failover.Outcome, what string, now time.Time) (restored bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, _ := b.ejector.Ejected()
	b.ejector = b.ejector.Tried(o, b.cfg, now)
	b.count(o, now)
	b.doubtful = b.anew || b.ejector.Accused()
	switch o {
	case failover.OK:
		b.failed = 0
	case failover.Ignored:
	default:
		b.doubtful = true
		b.failed++
		b.byRequests.Store(false)
	}
	switch reason := "canaries fail: " + what; {
	case b.failed < b.cfg.ConnectFailures:
	case o == failover.ServerFault:
		b.ejector = b.ejector.EjectPartly(reason, b.cfg, now)
	default:
		b.ejector = b.ejector.Eject(reason, b.cfg, now)
	}
	b.publish()
	is, _ := b.ejector.Ejected()
	return was && !is
}

// publish shows the state to the request path and wakes the canary if there is work. The caller
// holds the lock.
func (b *breaker) publish() {
	out, reason := b.ejector.Ejected()
	shown := b.reason.Load()
	switch {
	case !out && shown != nil:
		b.reason.Store(nil)
		b.byRequests.Store(false)
	case out && (shown == nil || *shown != reason):
		b.reason.Store(&reason)
		if shown == nil && b.ejections != nil {
			b.ejections.Add(1)
		}
	}
	if out {
		b.doubtful, b.anew = false, false
	}
	if out || b.doubtful {
		b.wake()
	}
}

func (b *breaker) wake() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}
