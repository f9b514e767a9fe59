package queue

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneFreedSlotLetsExactlyOneIn(t *testing.T) {
	for name, slots := range map[string]float64{"slots known": 8, "slots unknown": 0} {
		for seen, every := range map[string]time.Duration{"seen at once": 0, "seen late": 20 * time.Millisecond} {
			t.Run(name+", "+seen, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := open(t, Options{})
					p := &place{slots: 8, every: every}
					p.load.Store(8)
					for i := range 50 {
						h.send(fmt.Sprint(i), Request{Priority: 100, Tenant: fmt.Sprint(i), Slots: slots}, p.room)
					}
					for i := range 10 {
						h.freed(p)
						later(100 * time.Millisecond)
						h.passes(p, fmt.Sprint(i))
						later(100 * time.Millisecond)
						h.none()
					}
					if p.load.Load() != 8 || p.most.Load() > 8 {
						t.Errorf("%d there, once %d", p.load.Load(), p.most.Load())
					}
					h.end()
				})
			})
		}
	}
}

// TestAPassCountsUntilItHasBegun: for as long as one that was let in is on its way, it fills the slot
// that nobody sees filled; but not for ever, if it is lost.
func TestAPassCountsUntilItHasBegun(t *testing.T) {
	for name, slots := range map[string]float64{"slots known": 4, "slots unknown": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, Options{})
				p := &place{slots: 4}
				p.load.Store(4)
				for i := range 3 {
					h.send(fmt.Sprint(i), Request{Priority: 100, Slots: slots}, p.room)
				}
				h.freed(p)
				first := h.next()
				later(900 * time.Millisecond)
				h.none()
				p.begin()
				first.pass.Begun()
				first.pass.Begun() // more do nothing
				later(200 * time.Millisecond)
				h.none()
				h.freed(p)
				lost := h.next()
				later(time.Second - 10*time.Millisecond)
				h.none()
				later(100 * time.Millisecond)
				if a := h.next(); a.name != "2" || a.pass == nil {
					t.Errorf("%s came with %+v", a.name, a.refusal)
				}
				lost.pass.Begun() // too late to matter
				h.end()
			})
		})
	}
}

// TestALostPassIsForgottenThoughNothingWaits: what comes later goes straight in.
func TestALostPassIsForgottenThoughNothingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Options{})
		p := &place{slots: 1}
		p.load.Store(1)
		h.send("lost", Request{Priority: 100, Slots: 1}, p.room)
		h.freed(p)
		h.next()
		later(2 * DefaultBeginWithin)
		h.send("later", Request{Priority: 100, Slots: 1}, p.room)
		if a := h.next(); a.pass == nil || a.pass.Waited != 0 {
			t.Errorf("%v %+v", a.pass, a.refusal)
		}
		h.end()
	})
}

// TestRoomThatFlickersLetsNoSecondIn: what room tells goes up and down while one is on its way.
func TestRoomThatFlickersLetsNoSecondIn(t *testing.T) {
	for name, slots := range map[string]float64{"slots known": 2, "slots unknown": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, Options{})
				saturation := dialAt(1)
				for i := range 5 {
					h.send(fmt.Sprint(i), Request{Priority: 100, Slots: slots}, saturation.room)
				}
				for range 10 {
					saturation.set(0.5)
					later(20 * time.Millisecond)
					saturation.set(1)
					later(20 * time.Millisecond)
				}
				h.next()
				h.none()
				h.end()
			})
		})
	}
}

// TestWhatIsHeldBackDoesNotCount: those that find no room are no load.
func TestWhatIsHeldBackDoesNotCount(t *testing.T) {
	var tr track
	slot := func() uint64 { return 10 }
	for range 1000 {
		if tr.straight(0.95, 0.9, 10, slot) {
			t.Fatal("let in over its ceiling")
		}
	}
	if !tr.straight(0.85, 0.9, 10, slot) {
		t.Fatal("held back")
	}
	for range 1000 {
		if tr.straight(0.85, 0.9, 10, slot) {
			t.Fatal("let in, although one before it can't be seen yet")
		}
	}
	if n := tr.unseen(10); n != 1 {
		t.Errorf("%d count, want 1", n)
	}
}

// TestATurnOfOneWhoLeftGoesToAnother: it left between being let in and hearing of it, or long after.
func TestATurnOfOneWhoLeftGoesToAnother(t *testing.T) {
	for name, after := range map[string]time.Duration{"at once": 0, "when it counts no more": 2 * DefaultBeginWithin} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, Options{})
				p := &place{slots: 1}
				p.load.Store(1)
				w := &waiter{room: p.room, slots: 1, full: 1, done: make(chan struct{}), item: Item{Priority: 101}}
				w.item.Value, w.item.Deadline = w, time.Now().Add(time.Minute)
				if pass, cause := h.join(w, time.Now()); pass != nil || cause != "" {
					t.Fatal(pass, cause)
				}
				h.send("next", Request{Priority: 100, Slots: 1}, p.room)
				h.freed(p)
				if w.pass == nil {
					t.Fatal("not let in")
				}
				if later(after); after == 0 {
					h.none()
				}
				h.leave(w, false)
				if w.pass != nil || w.refusal == nil || w.refusal.Cause != ClientGone {
					t.Fatalf("%+v %+v", w.pass, w.refusal)
				}
				h.passes(p, "next")
				h.leave(w, false) // has been answered
				h.end()
				if n := (*h.tracks.Load())[0].open.Load(); n != 0 {
					t.Errorf("%d are open", n)
				}
			})
		})
	}
}

// TestABurstDoesNotAllGoByOneLook: what room tells is old, and the requests of a burst that it can't
// have seen count where it is known how much.
func TestABurstDoesNotAllGoByOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Options{})
		p := &place{slots: 100, every: 20 * time.Millisecond}
		p.load.Store(50)
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				pass, refusal := h.Enter(t.Context(), Request{Priority: 50, Tenant: fmt.Sprint(i % 10), Slots: 100}, p.room)
				if refusal == nil {
					p.begin()
					pass.Begun()
				}
			})
		}
		later(5 * time.Second)
		if n := p.most.Load(); n != 90 {
			t.Errorf("%d of 100 slots are used, want as many as a ceiling of 0.9 lets", n)
		}
		if n := h.waiting.Load(); n != 960 {
			t.Errorf("%d wait, want 960", n)
		}
		h.end()
		all.Wait()
	})
}

// TestRoomIsFilledFast: when much room appears, what waits does not trickle in.
func TestRoomIsFilledFast(t *testing.T) {
	for name, c := range map[string]struct {
		slots  float64
		within time.Duration
		over   int64 // how many more than there is room for, at most
	}{
		"slots known":   {400, 300 * time.Millisecond, 0},
		"slots unknown": {0, time.Second, maxWindow},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, Options{})
				p := &place{slots: 400, every: 20 * time.Millisecond}
				p.load.Store(400)
				var all sync.WaitGroup
				for i := range 1000 {
					all.Go(func() {
						pass, refusal := h.Enter(t.Context(), Request{Priority: 100, Tenant: fmt.Sprint(i % 10), Slots: c.slots}, p.room)
						if refusal == nil {
							p.begin()
							pass.Begun()
						}
					})
				}
				later(time.Second)
				p.load.Store(0)
				h.Freed()
				later(c.within)
				if n := p.load.Load(); n < 400 || n > 400+c.over {
					t.Errorf("%d of 400 slots are used after %v", n, c.within)
				}
				h.end()
				all.Wait()
			})
		})
	}
}

// TestUnknownLoadLetsInNoHerd: while something waits, a place that stops telling of itself gets a few
// at a time.
func TestUnknownLoadLetsInNoHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Options{})
		saturation := dialAt(1)
		for i := range 500 {
			h.send(fmt.Sprint(i), Request{Priority: 100, Tenant: fmt.Sprint(i % 5), Slots: 64}, saturation.room)
		}
		saturation.set(math.NaN())
		later(20 * time.Millisecond)
		if n := len(h.answers); n != 1 {
			t.Errorf("%d went at once", n)
		}
		saturation.set(1)
		later(100 * time.Millisecond)
		if n := len(h.answers); n != 1 {
			t.Errorf("%d went", n)
		}
		h.end()
	})
}

// TestServiceIsFairUnderLoad runs tenants of unequal greed through a gate before a busy place, and
// looks at who got how many tokens.
func TestServiceIsFairUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Options{})
		ctx, stop := context.WithCancel(t.Context())
		p := &place{slots: 16, every: 20 * time.Millisecond}
		var mu sync.Mutex
		served := map[string]int64{}
		var all sync.WaitGroup
		client := func(tenant string, cost int64) {
			for ctx.Err() == nil {
				pass, refusal := h.Enter(ctx, Request{Priority: 50, Tenant: tenant, Cost: cost, Slots: p.slots}, p.room)
				if refusal != nil {
					continue
				}
				p.begin()
				pass.Begun()
				<-time.After(time.Duration(cost) * 10 * time.Millisecond)
				p.load.Add(-1)
				h.Freed()
				mu.Lock()
				served[tenant] += cost
				mu.Unlock()
			}
		}
		for range 60 {
			all.Go(func() { client("greedy", 100) })
		}
		for range 40 {
			all.Go(func() { client("short", 20) })
		}
		for range 20 {
			all.Go(func() { client("modest", 50) })
		}
		later(10 * time.Minute)
		stop()
		h.end()
		all.Wait()
		mean := (served["greedy"] + served["short"] + served["modest"]) / 3
		for tenant, n := range served {
			if n < mean*9/10 || n > mean*11/10 {
				t.Errorf("%s got %d tokens, the mean is %d: %v", tenant, n, mean, served)
			}
		}
		if n := p.most.Load(); n > 16 {
			t.Errorf("%d of 16 slots were used", n)
		}
		// A ceiling of 0.9 lets 15 of 16 be busy.
		if busy := float64(3*mean) / 100 / 600; busy < 13.5 {
			t.Errorf("%.1f slots were busy on average", busy)
		} else {
			t.Logf("%.1f slots were busy on average, %v", busy, served)
		}
	})
}
