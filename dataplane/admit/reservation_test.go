package admit

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"anabranch/ratelimit"
)

func TestAStreamGrowsFromWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		cutting := quota("output-tokens", 1000, "share", 1)
		cutting.Overrun = "cut"
		k := newAsker(t, l, tables(t, cutting))
		r, _ := k.take(1, 100)
		pass(600 * time.Millisecond)
		r2, _ := k.take(1, 100)
		grown := int64(100)
		for range 200 { // as a stream goes on
			if !r.Grow(grown + 10) {
				pass(20 * time.Millisecond)
				continue
			}
			grown += 10
			pass(time.Millisecond)
		}
		if grown < 700 || grown > 970 {
			t.Errorf("grown to %d: 1,000 were there, and some flows in", grown)
		}
		if _, out := r.Reserved(); out != grown {
			t.Errorf("%d reserved", out)
		}
		if !r.Grow(50) {
			t.Error("less than is reserved is refused")
		}
		r.Settle(1, 1, 500)
		r2.Settle(1, 1, 0)
		if !r.Grow(1 << 30) {
			t.Error("growth after the end matters to nobody")
		}
		k.stop()
		if got := l.charged("output-tokens"); got != 500 {
			t.Errorf("%d charged", got)
		}
	})
}

func TestConcurrentRequestsAreNeverMoreThanTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		l.delay = time.Millisecond
		tab := tables(t, slotsOf(10, "share"))
		routers := []*asker{newAsker(t, l, tab), newAsker(t, l, tab), newAsker(t, l, tab)}
		var mu sync.Mutex
		open, most := 0, 0
		var clients sync.WaitGroup
		for i := range 60 {
			clients.Go(func() {
				k := routers[i%3]
				for range 30 {
					r, d := k.take(1, 1)
					if !d.Allowed {
						pass(7 * time.Millisecond)
						continue
					}
					mu.Lock()
					open++
					most = max(most, open)
					mu.Unlock()
					pass(15 * time.Millisecond)
					mu.Lock()
					open--
					mu.Unlock()
					r.Settle(1, 1, 1)
				}
			})
		}
		clients.Wait()
		if most > 10 || most < 8 {
			t.Errorf("%d of 10 at the same time", most)
		}
		for _, k := range routers {
			k.stop()
		}
		if level, held, _ := l.Left("acme", "slots"); level != 10 || held != 0 {
			t.Errorf("%d free and %d held at the end", level, held)
		}
	})
}

// TestWhatIsChargedIsWhatIsSettled holds the account over any order of requests, growth, ends,
// outages and lost answers.
func TestWhatIsChargedIsWhatIsSettled(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLink()
		now := time.Unix(1_700_000_000, 0)
		l.Lending = ratelimit.NewLending(func() time.Time { return now })
		big := int64(1) << 33
		pb := describe(
			quota("requests", big, "open", 0), quota("input-tokens", big, "open", 0), quota("output-tokens", big, "open", 0),
			quota("total-tokens", big, "open", 0), slotsOf(1000, "open"), moneyOf(big, "open"))
		pb.Organisations[0].Shares = nil // nothing is set aside, so that all is told
		k := newStill(t, Options{Stores: Own(l), Region: "us-east-1", Inline: true, Now: func() time.Time { return now }}, build(t, pb))
		var open []*Reservation
		want := map[string]int64{}
		steps := rapid.IntRange(1, 60).Draw(rt, "steps")
		for range steps {
			now = now.Add(time.Duration(rapid.IntRange(0, 700).Draw(rt, "ms")) * time.Millisecond)
			switch rapid.IntRange(0, 6).Draw(rt, "what") {
			case 0, 1:
				r, d := k.take(rapid.Int64Range(0, 5000).Draw(rt, "input"), rapid.Int64Range(0, 5000).Draw(rt, "output"))
				if !d.Allowed {
					rt.Fatalf("%+v", d)
				}
				open = append(open, r)
			case 2:
				if len(open) > 0 {
					open[rapid.IntRange(0, len(open)-1).Draw(rt, "which")].Grow(rapid.Int64Range(0, 9000).Draw(rt, "grow"))
				}
			case 3:
				if len(open) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(open)-1).Draw(rt, "which")
				n := rapid.Int64Range(0, 1).Draw(rt, "requests")
				in, out := rapid.Int64Range(0, 9000).Draw(rt, "in"), rapid.Int64Range(0, 9000).Draw(rt, "out")
				open[i].Settle(n, in, out)
				want["requests"] += n
				want["input-tokens"] += in
				want["output-tokens"] += out
				want["total-tokens"] += in + out
				want["money"] += int64(math.Ceil(float64(in*50_000+out*80_000) / 1e6))
				open = append(open[:i], open[i+1:]...)
			case 4:
				l.set(state(rapid.IntRange(0, 3).Draw(rt, "state")))
				if l.now() == frozen {
					l.set(lossy)
				}
			default:
				k.a.Turn(t.Context(), now)
			}
		}
		for _, r := range open {
			r.Settle(0, 0, 0)
		}
		l.set(up)
		for range 60 {
			now = now.Add(100 * time.Millisecond)
			k.a.Turn(t.Context(), now)
		}
		if k.a.orgs["acme"] == nil || k.a.orgs["acme"].tallies["slots"] == nil {
			return // nobody asked
		}
		for limit, n := range want {
			if got := k.a.orgs["acme"].tallies[limit].told.used; got != n {
				rt.Errorf("%s: %d told, want %d", limit, got, n)
			}
		}
		money := int64(0)
		for _, s := range k.a.TakeSpent() {
			money += s.Micros
		}
		if money != want["money"] {
			rt.Errorf("the ledger is told of %d, want %d", money, want["money"])
		}
		if n := k.a.orgs["acme"].tallies["slots"].open.Load(); n != 0 {
			rt.Errorf("%d slots are in use", n)
		}
		for _, h := range k.a.byID {
			if h.taken.Load() != h.settled.Load() {
				rt.Error("a reservation is open")
			}
		}
	})
}
