package quotas

import (
	"math"
	"testing"
	"time"
)

func TestEverySchemeIsKnown(t *testing.T) {
	for _, name := range Schemes() {
		if _, err := lookup(name); err != nil || About(name) == "" {
			t.Errorf("%s: %v, %q", name, err, About(name))
		}
	}
}

// fleetOf is a world of one region at the given distance, where nobody asks by himself.
func fleetOf(ms int, burst time.Duration, scheme string) *world {
	s := Default()
	s.Regions = []Region{{Name: "only", RoundTrip: time.Duration(ms) * time.Millisecond, Routers: 2, Share: 1}}
	s.Burst = burst
	w := newWorld(&s)
	makeScheme, _ := lookup(scheme)
	w.scheme = makeScheme(w)
	return w
}

// ask has one request decided, and all else come that is to come until then.
func (w *world) askOne(router int, tokens int64) (passed bool) {
	before := w.result.Admitted
	r := &request{at: w.now, router: router, costs: [levels]int64{1, tokens, 1, tokens}}
	w.scheme.ask(r)
	for !r.decided {
		e := w.queue.take()
		w.now = e.at
		e.call()
	}
	return w.result.Admitted > before
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	until := w.now + d.Nanoseconds()
	for len(w.queue.heap) > 0 && w.queue.heap[0].at <= until {
		e := w.queue.take()
		w.now = e.at
		e.call()
	}
	w.now = until
}

// Tenant one's limit is 400,000 tokens a second.
const tenantTokens = 400_000

func TestAskingEveryTimeIsAllOrNone(t *testing.T) {
	for scheme, want := range map[string]bool{PerCall: true, Redis: false} {
		w := fleetOf(10, time.Second, scheme)
		if w.askOne(0, tenantTokens+1) {
			t.Errorf("%s: more than the burst passes", scheme)
		}
		// Of what the organisation has, a denied request may or may not have been charged.
		if got := w.askOne(0, tenantTokens); !got {
			t.Errorf("%s: the burst does not pass", scheme)
		}
		var left bool
		switch p := w.scheme.(type) {
		case *perCall:
			left = p.have.state[orgTokens].Level >= tenantTokens
		case *redisRate:
			left = p.allow(orgTokens, tenantTokens)
		}
		if left != want {
			t.Errorf("%s: after a denied request the others still have what it asked for: %v, want %v", scheme, left, want)
		}
	}
}

func TestGCRADeniesForAsLongAsItsClockWentBack(t *testing.T) {
	for scheme, want := range map[string]bool{PerCall: true, Redis: false} {
		w := fleetOf(10, time.Second, scheme)
		w.askOne(0, tenantTokens)
		w.stepped = -time.Minute.Microseconds()
		w.askOne(0, 1) // notes the step, where that is done
		w.pass(10 * time.Second)
		if got := w.askOne(0, 1000); got != want {
			t.Errorf("%s: ten seconds after a step back of a minute a request passes: %v, want %v", scheme, got, want)
		}
		w.pass(time.Minute)
		if !w.askOne(0, 1000) {
			t.Errorf("%s: denied for longer than the step", scheme)
		}
	}
}

func TestWindowsPassTwoBurstsAtTheirEdge(t *testing.T) {
	w := fleetOf(1, time.Second, Windows)
	w.pass(time.Second - 220*time.Millisecond)
	passed := 0
	for range 400 {
		if w.askOne(0, tenantTokens/100) {
			passed++
		}
	}
	if took := time.Duration(w.now - start); passed < 190 || passed > 200 || took > 1900*time.Millisecond {
		t.Errorf("%d hundredths of the burst passed by %v", passed, took)
	}
	if excess := w.finish().Excess; excess < 0.5 {
		t.Errorf("excess %.2f bursts", excess)
	}
	if got := w.finish(); got.Trips != 800 || got.Messages != 800 {
		t.Errorf("%d round trips and %d messages for 400 requests, want two each", got.Trips, got.Messages)
	}
}

func TestWithoutAnAnswerPolicyDecides(t *testing.T) {
	for _, scheme := range []string{PerCall, Redis, Windows} {
		for policy, want := range map[string]bool{Open: true, Closed: false, Share: false} {
			w := fleetOf(10, time.Second, scheme)
			w.spec.Fault = Fault{To: time.Hour, Policy: policy}
			if got := w.askOne(0, 1); got != want {
				t.Errorf("%s, %s: passes %v", scheme, policy, got)
			}
			if waited := time.Duration(w.now - start); waited != time.Duration(patience) {
				t.Errorf("%s, %s: decided after %v", scheme, policy, waited)
			}
		}
	}
}

func TestCountersKnowNothingOfOthersUntilTheySync(t *testing.T) {
	w := fleetOf(10, time.Second, Counter)
	for router := range 2 {
		if !w.askOne(router, tenantTokens) {
			t.Errorf("router %d does not pass the burst that it takes for its own", router)
		}
	}
	if w.askOne(0, 1) {
		t.Error("a router passes more than it thinks there is")
	}
	if e := w.finish().Excess; e < 0.99 || e > 1.01 {
		t.Errorf("excess %.2f bursts, want 1", e)
	}
	// The debt is paid before anything passes: a burst takes a second.
	w.pass(time.Second)
	if w.askOne(0, 1) || w.askOne(1, 1) {
		t.Error("a second later the debt is not paid, and a request passes")
	}
	w.pass(300 * time.Millisecond)
	if !w.askOne(0, 1) {
		t.Error("the debt is paid, and no request passes")
	}
}

func TestAssignedRatesAreNeverMoreThanThereIs(t *testing.T) {
	s := small(5)
	s.Demand, s.Fault = 5, Fault{Lost: 0.1, Crash: 2 * time.Second}
	w := newWorld(&s)
	var a *assigned
	watch := func(w *world) scheme {
		a = newAssigned(w).(*assigned)
		w.every(10*time.Millisecond, func() {
			for i := range w.limits {
				sum := 0.0
				for _, g := range a.leases[i] {
					if g.until > w.storeUs() {
						sum += g.rate
					}
				}
				if most := a.perSecond(i); sum > most*1.0001 {
					t.Fatalf("%.0f a second are assigned of %s, which has %.0f", sum, w.limits[i].ID, most)
				}
			}
		})
		return a
	}
	if _, err := w.run(t.Context(), watch); err != nil {
		t.Fatal(err)
	}
}

func TestFairShares(t *testing.T) {
	for _, c := range []struct {
		capacity float64
		wants    []float64
		want     float64
	}{
		{120, []float64{1000, 50, 10}, 60}, // Doorman's example
		{120, []float64{1000, 1000, 1000}, 40},
		{120, []float64{30, 40}, math.Inf(1)},
		{120, []float64{500}, 120},
	} {
		if got := fairShare(c.capacity, c.wants); got != c.want {
			t.Errorf("%v of %v: %v, want %v", c.wants, c.capacity, got, c.want)
		}
	}
}
