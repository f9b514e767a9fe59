package quotas

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"anabranch/ratelimit"
)

// small is a fleet that takes milliseconds: an eighth of the requests, buckets that run dry within seconds.
func small(seed uint64) Spec {
	s := Default()
	s.Requests, s.Tokens = s.Requests/8, s.Tokens/8
	s.Burst = 2 * time.Second
	s.Warm, s.Time = 3*time.Second, 6*time.Second
	s.Seed = seed
	return s
}

func play(t *testing.T, scheme string, s Spec) Result {
	t.Helper()
	r, err := Run(t.Context(), scheme, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Near a limit who lacks something is refused at once rather than after a wait that is in vain. Those that wait
// here begin.
func TestFewRequestsWaitNearALimit(t *testing.T) {
	s := small(1)
	s.Demand = 2
	if r := play(t, Leases, s); r.Late > 0.1 || r.MeanWait > 5*time.Millisecond {
		t.Errorf("%.1f %% wait more than 5 ms, %v on average", 100*r.Late, r.MeanWait)
	} else {
		t.Logf("%.1f %% wait more than 5 ms, %v on average", 100*r.Late, r.MeanWait)
	}
}

func TestLeasesKeepToTheEnvelopeAndUseTheLimit(t *testing.T) {
	var used, n float64
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		s := small(seed)
		s.Demand = []float64{1.5, 2, 3, 5}[seed%4]
		r := play(t, Leases, s)
		if r.Excess > 0 {
			t.Errorf("seed %d: %.3f bursts more than rate × t + burst were spent", seed, r.Excess)
		}
		if s.Demand >= 2 {
			used, n = used+r.Used, n+1
		}
		if r.WaitedMost > 50*time.Millisecond {
			t.Errorf("seed %d: a request waited %v", seed, r.WaitedMost)
		}
	}
	if used /= n; used < 0.95 {
		t.Errorf("on average %.1f %% of the limit were used", 100*used)
	}
}

func TestFaultsStayWithinTheirBounds(t *testing.T) {
	s := small(1)
	from, to := 4*time.Second, 7*time.Second
	s.Time = 10 * time.Second
	rows := Rows(s, from, to)
	if testing.Short() {
		rows = rows[len(rows)-3:] // a region's own outage, two, and all at once
	}
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			s.Fault = row.Fault
			r := play(t, Leases, s)
			if r.Excess > row.Bound {
				t.Errorf("excess of %.3f bursts, want %s: %.3f at most", r.Excess, row.Text, row.Bound)
			}
			if r.WaitedMost > 50*time.Millisecond {
				t.Errorf("a request waited %v", r.WaitedMost)
			}
			// A closed limit passes nothing while the store is away, which is half of the time.
			if least := map[bool]float64{true: 0.4, false: 0.75}[row.Fault.Policy == Closed && row.Fault.To > 0]; r.Used < least {
				t.Errorf("%.1f %% of the limit were used, want %.0f %%", 100*r.Used, 100*least)
			}
		})
	}
}

// broken are leases with a mistake in them.
type broken struct {
	*leases
	mistake func(b *broken, r *request)
}

func (b *broken) ask(r *request) { b.mistake(b, r) }

// TestMistakesAreFound shows that the measures see what must not be.
func TestMistakesAreFound(t *testing.T) {
	for name, mistake := range map[string]func(*broken, *request){
		"what is held is spent twice": func(b *broken, r *request) {
			twin := *r
			b.leases.ask(r)
			if r.decided && b.w.result.Admitted > 0 && b.routers[r.router].held[r.tenant].Left(1, b.w.now) > 0 {
				b.w.admit(&twin)
			}
		},
		"what was spent is given back": func(b *broken, r *request) {
			before := b.w.result.Admitted
			b.leases.ask(r)
			if b.w.result.Admitted > before {
				back := r.costs
				for i := range back {
					back[i] = -back[i]
				}
				b.routers[r.router].held[r.tenant].Charge(back[:])
			}
		},
		"the store's clock runs at twice the speed": func(b *broken, r *request) {
			b.w.stepped = (b.w.now - start) / 1000
			b.leases.ask(r)
		},
		"what is spent alone is not charged": func(b *broken, r *request) {
			l := b.routers[r.router]
			if h := l.held[r.tenant]; h.Spend(r.costs[:], b.w.now) == ratelimit.Spent || l.outage.have.take(r, b.w.now/1000, true) {
				b.w.admit(r)
			} else {
				b.w.deny(r)
			}
			b.turn(l)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := small(1)
			w := newWorld(&s)
			r, err := w.run(t.Context(), func(w *world) scheme {
				return &broken{newLeases(w).(*leases), mistake}
			})
			if err != nil {
				t.Fatal(err)
			}
			if r.Excess < 0.1 {
				t.Errorf("excess is only %.3f bursts", r.Excess)
			}
		})
	}
}

func TestTheSameSpecGivesTheSameResult(t *testing.T) {
	for _, scheme := range Schemes() {
		s := small(3)
		s.Time = 4 * time.Second
		s.Fault = Fault{Crash: time.Second, Lost: 0.1, Repeated: 0.1}
		a, b := play(t, scheme, s), play(t, scheme, s)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %+v, then %+v", scheme, a, b)
		}
		if a.Decided == 0 || a.Scheme != scheme || a.Seed != 3 {
			t.Errorf("%s: %+v", scheme, a)
		}
	}
}

func TestRequestsThatWaitAreEventsOfTheirOwn(t *testing.T) {
	// The first request of a path waits for one round trip where the store is near, and for its budget
	// where it is far.
	for _, c := range []struct {
		ms          int
		least, most time.Duration
	}{
		{1, time.Millisecond, 2 * time.Millisecond},
		{30, 30 * time.Millisecond, 34 * time.Millisecond},
		{210, 50 * time.Millisecond, 50 * time.Millisecond},
	} {
		s := Default()
		s.Regions = []Region{{Name: "only", RoundTrip: time.Duration(c.ms) * time.Millisecond, Routers: 1, Share: 1}}
		w := newWorld(&s)
		w.scheme = newLeases(w)
		r := &request{at: start, costs: [levels]int64{1, 100, 1, 100}}
		w.scheme.ask(r)
		for !r.decided {
			e := w.queue.take()
			w.now = e.at
			e.call()
		}
		if wait := time.Duration(w.now - start); wait < c.least || wait > c.most || w.result.Admitted != 1 {
			t.Errorf("%d ms away: %d admitted after %v, want %v to %v", c.ms, w.result.Admitted, wait, c.least, c.most)
		}
	}
}

func TestFiguresAreWhatTheySay(t *testing.T) {
	s := Default()
	s.Time, s.Warm, s.Demand = 20*time.Second, 10*time.Second, 1
	s.Regions = s.Regions[:2]
	w := newWorld(&s)
	for i := range 10 {
		w.now = start + int64(11*time.Second)
		r := &request{at: w.now - int64(i)*int64(time.Millisecond), router: 4 * (i % 2), costs: [levels]int64{1, 1000, 1, 1000}}
		w.asked[i%2] += 1000
		if i == 9 {
			w.deny(r)
		} else {
			w.admit(r)
		}
	}
	w.result.Trips, w.result.Messages = 4, 20
	r := w.finish()
	want := Result{
		Decided: 10, Admitted: 9, Trips: 4, Messages: 20, Demand: 1, Seed: 1, Excess: r.Excess,
		MeanWait: 4500 * time.Microsecond, P99Wait: 9 * time.Millisecond, WaitedMost: 9 * time.Millisecond,
		Late: 0.4, Used: 9000.0 / 8e6, Fair: 0.8,
	}
	if r != want {
		t.Errorf("%+v\nwant %+v", r, want)
	}
	if math.Abs(r.Excess+1-9/400.0) > 1e-9 { // of the tenant's 400 thousand tokens nine
		t.Errorf("excess %v", r.Excess)
	}
	if r.PerTrip() != 2.5 || r.PerDecision() != 2 || r.Passed() != 0.9 || (&Result{}).PerTrip() != 0 {
		t.Errorf("%v, %v, %v", r.PerTrip(), r.PerDecision(), r.Passed())
	}
}

func TestSpecsThatMakeNoSense(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"at least one region":   func(s *Spec) { s.Regions = nil },
		"demand":                func(s *Spec) { s.Demand = 0 },
		"longer than":           func(s *Spec) { s.Warm = s.Time },
		"region 2: routers":     func(s *Spec) { s.Regions[1].Routers = 0 },
		"all/requests":          func(s *Spec) { s.Requests = 0 },
		"region 9 is cut":       func(s *Spec) { s.Fault.Cut = []int{9} },
		`policy "maybe"`:        func(s *Spec) { s.Fault.Policy = "maybe" },
		"lost 1":                func(s *Spec) { s.Fault.Lost = 1 },
		"must not be below":     func(s *Spec) { s.Fault.From = time.Second },
		`"magic" is none of [l`: nil,
	} {
		s, scheme := Default(), Leases
		if change == nil {
			scheme = "magic"
		} else {
			change(&s)
		}
		if _, err := Run(t.Context(), scheme, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Leases, Default()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func ExampleRun() {
	s := Default()
	s.Time, s.Warm = 5*time.Second, time.Second
	r, err := Run(context.Background(), Exact, s)
	fmt.Println(r.Excess <= 0, r.MeanWait, err)
	// Output: true 0s <nil>
}
