package queue

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// place is where requests go: it takes so many at once. What it tells of itself can be old.
type place struct {
	slots  float64
	every  time.Duration // how long a look serves; 0: each is fresh
	load   atomic.Int64
	most   atomic.Int64
	mu     sync.Mutex // guards what is below
	seen   float64
	seenAt time.Time
}

func (p *place) room() float64 {
	if p.every == 0 {
		return float64(p.load.Load()) / p.slots
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.seenAt.IsZero() || now.Sub(p.seenAt) >= p.every {
		p.seen, p.seenAt = float64(p.load.Load())/p.slots, now
	}
	return p.seen
}

func (p *place) begin() {
	n := p.load.Add(1)
	for {
		if most := p.most.Load(); n <= most || p.most.CompareAndSwap(most, n) {
			return
		}
	}
}

// answer is what became of a request.
type answer struct {
	name    string
	pass    *Pass
	refusal *Refusal
}

// hall is a gate that runs, and the requests at it.
type hall struct {
	*Gate
	t       *testing.T
	answers chan answer
	stop    context.CancelFunc
	ended   chan error
}

// open starts a gate, in a bubble of synctest.
func open(t *testing.T, o Options) *hall {
	t.Helper()
	o.Rand = func() float64 { return 0 }
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	h := &hall{Gate: g, t: t, answers: make(chan answer, 1<<16), stop: stop, ended: make(chan error, 1)}
	go func() { h.ended <- g.Run(ctx) }()
	synctest.Wait()
	return h
}

// end ends the gate and sees that nothing is left.
func (h *hall) end() {
	h.t.Helper()
	h.stop()
	if err := <-h.ended; err != nil {
		h.t.Error(err)
	}
	synctest.Wait()
	if n := h.waiting.Load(); n != 0 || h.queue.Len() != 0 {
		h.t.Errorf("%d wait after the end, %d in the queue", n, h.queue.Len())
	}
	for lane, t := range *h.tracks.Load() {
		if t.waiting.Load() != 0 {
			h.t.Errorf("lane %d counts %d", lane, t.waiting.Load())
		}
	}
}

// send sends a request and waits until it stands where it does. It can be called off.
func (h *hall) send(name string, r Request, room func() float64) context.CancelFunc {
	ctx, cancel := context.WithCancel(h.t.Context())
	go func() {
		pass, refusal := h.Enter(ctx, r, room)
		h.answers <- answer{name, pass, refusal}
	}()
	synctest.Wait()
	return cancel
}

// next is the answer that has come.
func (h *hall) next() answer {
	h.t.Helper()
	synctest.Wait()
	select {
	case a := <-h.answers:
		if (a.pass == nil) == (a.refusal == nil) {
			h.t.Fatalf("%s: both or none of pass %v and refusal %v", a.name, a.pass, a.refusal)
		}
		return a
	default:
		h.t.Helper()
		h.t.Fatal("nothing was answered")
		return answer{}
	}
}

func (h *hall) none() {
	h.t.Helper()
	synctest.Wait()
	select {
	case a := <-h.answers:
		h.t.Fatalf("%s was answered: %+v %+v", a.name, a.pass, a.refusal)
	default:
	}
}

// passes expects that the answers that have come are these passes in order, and says them begun at a
// place.
func (h *hall) passes(p *place, names ...string) {
	h.t.Helper()
	for _, name := range names {
		a := h.next()
		if a.name != name || a.pass == nil {
			h.t.Fatalf("%s came with %+v %+v, want %s", a.name, a.pass, a.refusal, name)
		}
		p.begin()
		a.pass.Begun()
	}
	h.none()
}

func (h *hall) refused(name string, cause Cause) *Refusal {
	h.t.Helper()
	a := h.next()
	if a.name != name || a.refusal == nil || a.refusal.Cause != cause {
		h.t.Fatalf("%s came with %+v %+v, want %s refused as %s", a.name, a.pass, a.refusal, name, cause)
	}
	return a.refusal
}

// dial tells a saturation that a test sets.
type dial struct{ bits atomic.Uint64 }

func dialAt(saturation float64) *dial {
	d := &dial{}
	d.set(saturation)
	return d
}

func (d *dial) set(saturation float64) { d.bits.Store(math.Float64bits(saturation)) }
func (d *dial) room() float64          { return math.Float64frombits(d.bits.Load()) }

// later lets time pass, and everything happen in it.
func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// freed ends one request at a place.
func (h *hall) freed(p *place) {
	p.load.Add(-1)
	h.Freed()
	synctest.Wait()
}

func full() float64 { return 1 }

func fixed(saturation float64) func() float64 { return func() float64 { return saturation } }
