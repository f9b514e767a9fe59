package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestASteadyRateIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r rate
		now := epoch
		r.start(now)
		every := time.Duration(rapid.IntRange(5, 500).Draw(t, "ms between")) * time.Millisecond
		cost := rapid.Int64Range(1, 100_000).Draw(t, "cost")
		for i := range 1000 {
			now = now.Add(every)
			r.served(cost, now)
			if i%100 == 50 {
				// Time without anything waiting says nothing of the rate.
				r.stop(now)
				now = now.Add(time.Minute)
				r.start(now)
			}
		}
		ahead := rapid.Int64Range(0, 1_000_000).Draw(t, "ahead")
		want := float64(ahead+cost) / float64(cost) * every.Seconds()
		if got := r.wait(ahead, cost, now).Seconds(); got < want*0.9 || got > want*1.1 {
			t.Fatalf("%v for %d behind %d, of which %d go each %v", got, cost, ahead, cost, every)
		}
	})
}

func TestRates(t *testing.T) {
	var none rate
	if d := none.wait(1000, 10, epoch); d != 0 {
		t.Errorf("%v where nothing is known", d)
	}
	for name, c := range map[string]struct {
		play     func(*rate)
		ahead    int64
		cost     int64
		at       time.Duration
		from, to time.Duration
	}{
		"nothing went for 3s: each of its size takes at least that": {
			func(*rate) {}, 40, 10, 3 * time.Second, 12 * time.Second, 15 * time.Second,
		},
		"a standstill lengthens the estimate": {
			func(r *rate) {
				for i := range 100 {
					r.served(10, epoch.Add(time.Duration(i)*100*time.Millisecond))
				}
			}, 100, 10, 30 * time.Second, 3 * time.Second, time.Minute,
		},
		"a clock that goes back does no harm": {
			func(r *rate) {
				r.served(10, epoch.Add(time.Second))
				r.served(10, epoch)
			}, 0, 10, time.Second, 300 * time.Millisecond, time.Second,
		},
		"absurd sizes are bounded": {
			func(*rate) {}, 1 << 60, -5, time.Minute, 1e6 * time.Second, 1e6 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r rate
			r.start(epoch)
			c.play(&r)
			before := r
			if got := r.wait(c.ahead, c.cost, epoch.Add(c.at)); got < c.from || got > c.to {
				t.Errorf("%v, want within %v and %v", got, c.from, c.to)
			}
			if r != before {
				t.Error("asking changes the rate")
			}
		})
	}
}

// TestRetryAfterIsHonest: at a place that takes a request of a second each 100 ms, one that is
// refused is told a time after which what was before it has indeed gone.
func TestRetryAfterIsHonest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting = 40
		h := open(t, Options{Limits: Limits{Items: waiting, TenantShare: 1}})
		p := &place{slots: 10}
		p.load.Store(10)
		send := func(name string) {
			h.send(name, Request{Priority: 100, Tenant: "a", Cost: 100, Slots: 10, Deadline: time.Now().Add(time.Hour)}, p.room)
		}
		serve := func() {
			later(100 * time.Millisecond)
			h.freed(p)
			a := h.next()
			if a.pass == nil {
				t.Fatalf("%+v", a.refusal)
			}
			p.begin()
			a.pass.Begun()
		}
		for range waiting {
			send("waits")
		}
		for range 100 {
			serve()
			send("waits")
		}
		h.none()
		send("refused")
		r := h.refused("refused", TenantShare)
		// 41 of them at one in 100 ms.
		if r.RetryAfter < 4099*time.Millisecond || r.RetryAfter > 4500*time.Millisecond {
			t.Errorf("told to come back after %v", r.RetryAfter)
		}
		told := time.Now().Add(r.RetryAfter)
		for range waiting {
			serve()
		}
		if time.Now().After(told) {
			t.Errorf("what was before it went %v after the time that it was told", time.Since(told))
		}
		// That nothing had to wait for long does not make the lane slow.
		later(10 * time.Minute)
		h.send("can't wait", Request{Priority: 100, Cost: 100, Deadline: time.Now()}, full)
		if r := h.refused("can't wait", Saturated); r.RetryAfter != time.Second {
			t.Errorf("told to come back after %v", r.RetryAfter)
		}
		h.end()
	})
}
