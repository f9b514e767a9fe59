package queue

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOptionsSayWhatIsWrong(t *testing.T) {
	for name, o := range map[string]Options{
		"Wait":        {Wait: -1},
		"Tick":        {Tick: -1},
		"Settle":      {Settle: -1},
		"BeginWithin": {BeginWithin: -1},
		"Items":       {Limits: Limits{Items: -1}},
		"TenantShare": {Limits: Limits{TenantShare: 2}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	g, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := Limits{Items: 4096, Bytes: 256 << 20, Tokens: 64 << 20, TenantShare: 0.5}
	if g.queue.limits != want {
		t.Errorf("limits %+v, want %+v", g.queue.limits, want)
	}
}

func TestCeilings(t *testing.T) {
	for _, c := range []struct {
		priority int32
		tier     string
		ceiling  float64
	}{
		{math.MinInt32, "batch", 0.6},
		{-11, "batch", 0.6},
		{-10, "batch", 0.6},
		{-1, "batch", 0.6},
		{0, "best-effort", 0.8},
		{49, "best-effort", 0.8},
		{50, "standard", 0.9},
		{99, "standard", 0.9},
		{100, "top", 1},
		{math.MaxInt32, "top", 1},
	} {
		if Tier(c.priority) != c.tier || Ceiling(c.priority) != c.ceiling {
			t.Errorf("%d: %s %v, want %s %v", c.priority, Tier(c.priority), Ceiling(c.priority), c.tier, c.ceiling)
		}
		synctest.Test(t, func(t *testing.T) {
			h := open(t, Options{})
			for lane, slots := range []float64{0, 1000} {
				r := Request{Lane: uint64(lane), Priority: c.priority, Slots: slots, Deadline: time.Now()}
				h.send("below", r, fixed(c.ceiling-0.001))
				if a := h.next(); a.pass == nil || a.pass.Waited != 0 || a.pass.String() != "let in at once" {
					t.Errorf("priority %d was refused just below its ceiling: %+v", c.priority, a.refusal)
				}
				h.send("at", r, fixed(c.ceiling))
				if a := h.next(); a.refusal == nil {
					t.Errorf("priority %d was let in at its ceiling", c.priority)
				}
				h.send("unknown", r, fixed(math.NaN()))
				if a := h.next(); a.pass == nil {
					t.Errorf("priority %d was refused where load is not known: %+v", c.priority, a.refusal)
				}
			}
			h.end()
		})
	}
}

func TestTheHighestPriorityGoesFirstWhenSomethingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Options{})
		p := &place{slots: 2}
		p.load.Store(2)
		h.send("low", Request{Priority: 100, Tenant: "a", Slots: 2}, p.room)
		later(40 * time.Millisecond)
		h.send("high", Request{Priority: 101, Tenant: "b", Slots: 2}, p.room)
		h.none()
		h.freed(p)
		h.passes(p, "high")
		h.freed(p)
		h.none() // whether the load of the one before is in what room tells can't be known yet
		later(time.Second)
		a := h.next()
		if !strings.HasPrefix(a.pass.String(), "let in after ") ||
			!strings.HasSuffix(a.pass.String(), "ms behind 0 others, found saturation 1.00 where below 1.00 was wanted") {
			t.Errorf("it says %q", a.pass)
		}
		if a.name != "low" || a.pass.Ahead != 0 || a.pass.Waited < 60*time.Millisecond || a.pass.Waited > 200*time.Millisecond {
			t.Errorf("%s came with %+v", a.name, a.pass)
		}
		h.end()
	})
}

func TestRoomThatComesByItselfIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Options{})
		p := &place{slots: 10}
		p.load.Store(9) // 0.9: the ceiling of standard
		h.send("standard", Request{Priority: 50, Slots: 10}, p.room)
		h.send("best-effort", Request{Priority: 0, Slots: 10}, p.room)
		h.send("top", Request{Priority: 100, Slots: 10}, p.room)
		h.passes(p, "top") // there is room for it, and nobody of its priority waits
		later(50 * time.Millisecond)
		h.none()
		p.load.Store(8) // nobody says so
		later(20 * time.Millisecond)
		h.passes(p, "standard")
		p.load.Store(8)
		later(time.Second)
		h.none()
		p.load.Store(7)
		later(20 * time.Millisecond)
		h.passes(p, "best-effort")
		h.end()
	})
}

func TestWhoComesLaterDoesNotPassWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Options{})
		saturation := dialAt(1)
		h.send("first", Request{Priority: 50, Tenant: "a", Slots: 1}, saturation.room)
		h.send("lower", Request{Priority: 0, Tenant: "b", Slots: 1}, fixed(0))
		h.send("equal", Request{Priority: 50, Tenant: "b", Slots: 1}, fixed(0))
		h.none()
		h.send("other lane", Request{Lane: 1, Priority: 0, Tenant: "b"}, fixed(0))
		if a := h.next(); a.name != "other lane" || a.pass == nil {
			t.Errorf("%s came first: %+v", a.name, a.refusal)
		}
		saturation.set(0.5)
		later(time.Second)
		for _, want := range []string{"first", "equal", "lower"} {
			a := h.next()
			if a.name != want || a.pass == nil {
				t.Fatalf("%s came with %+v, want %s", a.name, a.refusal, want)
			}
			a.pass.Begun()
			later(100 * time.Millisecond)
		}
		h.end()
	})
}

func TestLanesDoNotBlockEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Options{})
		p := &place{slots: 1}
		p.load.Store(1)
		h.send("stuck", Request{Lane: 1, Priority: 100}, full)
		h.send("free", Request{Lane: 2, Priority: -10, Slots: 1}, p.room)
		h.freed(p)
		h.passes(p, "free")
		h.end()
		h.refused("stuck", Closed)
	})
}

func TestDeadlines(t *testing.T) {
	for name, c := range map[string]struct {
		saturation float64
		cause      Cause
	}{
		"all is full":                       {1.3, Saturated},
		"it was kept for higher priorities": {0.95, OverCeiling},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, Options{})
				h.send("in time", Request{Priority: 50, Tenant: "a", Deadline: time.Now().Add(3 * time.Second)}, fixed(c.saturation))
				h.send("default", Request{Priority: 50, Tenant: "b"}, fixed(c.saturation))
				h.send("not at all", Request{Priority: 50, Tenant: "b", Deadline: time.Now()}, fixed(c.saturation))
				if r := h.refused("not at all", c.cause); r.Waited != 0 || r.Ahead != 2 || r.Full != c.saturation {
					t.Errorf("%+v", r)
				}
				later(2990 * time.Millisecond)
				h.none()
				later(30 * time.Millisecond)
				if r := h.refused("in time", c.cause); r.Waited < 3*time.Second || r.Waited > 3020*time.Millisecond || !r.Final() {
					t.Errorf("%+v", r)
				}
				later(6970 * time.Millisecond)
				h.none()
				later(30 * time.Millisecond)
				if r := h.refused("default", c.cause); r.Waited < DefaultWait || r.Ahead != 1 || r.Full != c.saturation {
					t.Errorf("%+v", r)
				}
				h.end()
			})
		})
	}
}

func TestWhoLeavesIsGoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Options{})
		leave := h.send("a", Request{Tenant: "a", Bytes: 10}, full)
		h.send("b", Request{Tenant: "b"}, full)
		leave()
		r := h.refused("a", ClientGone)
		if r.Status != 499 || r.RetryAfter != 0 || h.queue.Len() != 1 || h.queue.Bytes() != 0 {
			t.Errorf("%+v, %d wait", r, h.queue.Len())
		}
		h.end()
		h.refused("b", Closed)
	})
}

func TestAContextThatRunsOutIsADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, refusal := h.Enter(ctx, Request{}, full)
		if refusal == nil || refusal.Cause != Saturated || refusal.Status != 503 {
			t.Errorf("%+v", refusal)
		}
		h.end()
	})
}

func TestAFullQueueShedsAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Options{Limits: Limits{Items: 4}})
		h.send("batch", Request{Priority: -10, Tenant: "a"}, full)
		h.send("a1", Request{Priority: 50, Tenant: "a"}, full)
		h.send("a2", Request{Priority: 50, Tenant: "a", Cost: 9}, full)
		h.refused("batch", Displaced) // by a request of its own tenant, whose share is two
		h.send("a3", Request{Priority: 50, Tenant: "a"}, full)
		h.refused("a3", TenantShare)
		h.send("b1", Request{Priority: 50, Tenant: "b", Cost: 10}, full)
		h.send("c1", Request{Priority: 0, Tenant: "c"}, full)
		h.send("d1", Request{Priority: -10, Tenant: "d"}, full)
		if r := h.refused("d1", QueueFull); r.Status != 429 || r.Waited != 0 || !r.Final() {
			t.Errorf("%+v", r)
		}
		h.send("d2", Request{Priority: 50, Tenant: "d"}, full)
		if r := h.refused("c1", Displaced); r.Status != 429 || r.Ahead != 3 {
			t.Errorf("%+v", r)
		}
		h.send("e1", Request{Priority: 50, Tenant: "e"}, full)
		h.refused("a2", Unfair)
		h.end()
	})
}

func TestAnOrderShedsWhatIsBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Options{})
		h.send("batch", Request{Priority: -10}, full)
		h.send("top", Request{Priority: 100}, full)
		h.Shed(50, time.Now().Add(30*time.Second))
		if r := h.refused("batch", Ordered); r.Status != 429 || r.RetryAfter != 30*time.Second || !r.Final() {
			t.Errorf("%+v", r)
		}
		h.none()
		h.send("new", Request{Lane: 7, Priority: 49}, fixed(0)) // although there is room
		if r := h.refused("new", Ordered); r.RetryAfter != 30*time.Second {
			t.Errorf("come back after %v, the order holds for 30s", r.RetryAfter)
		}
		h.send("standard", Request{Lane: 7, Priority: 50}, fixed(0))
		if a := h.next(); a.pass == nil {
			t.Errorf("%+v", a.refusal)
		}
		later(31 * time.Second)
		h.refused("top", Saturated)
		h.send("later", Request{Lane: 7, Priority: -10}, fixed(0))
		if a := h.next(); a.pass == nil {
			t.Errorf("after the order's end: %+v", a.refusal)
		}
		h.Shed(50, time.Time{})
		w := &waiter{item: Item{Priority: 49, Deadline: time.Now().Add(time.Hour)}, full: 1}
		if pass, cause := h.join(w, time.Now()); pass != nil || cause != Ordered {
			t.Errorf("one that came before the order and waits after it: %v, %q", pass, cause)
		}
		h.send("endless", Request{Lane: 7, Priority: 49}, fixed(0))
		h.refused("endless", Ordered)
		h.Shed(math.MinInt32, time.Time{})
		h.send("ended", Request{Lane: 7, Priority: 49}, fixed(0))
		if a := h.next(); a.pass == nil {
			t.Errorf("after the order was taken back: %+v", a.refusal)
		}
		h.Shed(50, time.Now().Add(-time.Second)) // has ended before it began
		h.send("past", Request{Lane: 7, Priority: 49}, fixed(0))
		if a := h.next(); a.pass == nil {
			t.Errorf("%+v", a.refusal)
		}
		h.end()
	})
}

func TestAClosedGateLetsInWhatWaitsAndNothingNewWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Options{})
		p := &place{slots: 1}
		p.load.Store(1)
		h.send("waits", Request{Priority: 100, Slots: 1}, p.room)
		h.send("waits too", Request{Lane: 1}, full)
		h.Close()
		h.send("new", Request{Lane: 1}, full)
		if r := h.refused("new", Closed); r.Status != 503 || r.RetryAfter < time.Second || r.Final() {
			t.Errorf("%+v", r)
		}
		h.send("has room", Request{Lane: 2}, fixed(0))
		if a := h.next(); a.pass == nil {
			t.Errorf("%+v", a.refusal)
		}
		h.freed(p)
		h.passes(p, "waits")
		h.end()
		if r := h.refused("waits too", Closed); r.Status != 503 || r.RetryAfter < time.Second || r.Final() {
			t.Errorf("%+v", r)
		}
		h.send("after the end", Request{Lane: 1}, full)
		h.refused("after the end", Closed)
	})
}
