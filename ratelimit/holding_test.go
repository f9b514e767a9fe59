package ratelimit

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

func rate(id string, amount, burst int64) Limit {
	return Limit{ID: id, Kind: TotalTokens, Amount: amount, PeriodMs: 60_000, Burst: burst}
}

// router is a Holding with the call that its owner makes.
type router struct {
	*Holding
	limits []Limit
	name   string
	policy int64
	lead   time.Duration
	region string
	shares []Share
}

func newRouter(name string, limits ...Limit) *router {
	return &router{Holding: NewHolding(limits), limits: limits, name: name, policy: 1, lead: MinSpan}
}

func (r *router) call(nowNs int64) In {
	in := In{Org: "acme", Epoch: 1, Young: true, Router: r.name, TTL: DefaultTTL, Policy: r.policy, Region: r.region, Shares: r.shares}
	for _, l := range r.limits {
		in.Path = append(in.Path, Level{Limit: l})
	}
	r.Call(&in, r.lead, nowNs)
	return in
}

// refresh calls the account and takes its answer.
func (r *router) refresh(t *testing.T, a *Account, nowNs int64) Out {
	t.Helper()
	in := r.call(nowNs)
	if err := in.Validate(); err != nil {
		t.Fatal(err)
	}
	out := a.Lease(&in, nowNs/1000)
	if !r.Answer(out, nowNs) {
		t.Fatalf("answer %+v changed nothing", out)
	}
	return out
}

func TestAHoldingWaitsForOneCallThenSpendsByItself(t *testing.T) {
	r, a := newRouter("r", rate("tpm", 60_000, 60_000)), &Account{}
	if r.Due(ms) {
		t.Error("due before anybody asked")
	}
	if v := r.Spend([]int64{100}, ms); v != Short {
		t.Fatalf("with no lease: %v, want Short", v)
	}
	if !r.Due(ms) {
		t.Fatal("somebody waits and no call is due")
	}
	r.refresh(t, a, ms)
	if v := r.Spend([]int64{100}, 2*ms); v != Spent {
		t.Fatalf("after the call: %v", v)
	}
	if !r.Due(3 * ms) {
		t.Error("more than half is spent and no call is due")
	}
	out := r.refresh(t, a, 100*ms)
	if out.Path[0].Level+out.Path[0].Held != 59_900 {
		t.Errorf("%+v: the authority does not know that 100 are spent", out)
	}
	if v := r.Spend([]int64{1}, 100*ms+DefaultTTL.Nanoseconds()); v != Short {
		t.Errorf("after the ttl: %v, want Short", v)
	}
}

func TestNothingIsTakenFromTheOthersOfAPath(t *testing.T) {
	r, a := newRouter("r", rate("a", 60_000, 60_000), rate("b", 60_000, 60_000), rate("c", 60_000, 500)), &Account{}
	r.Spend([]int64{500, 500, 500}, ms)
	r.refresh(t, a, ms)
	if v := r.Spend([]int64{10, 10, 501}, 2*ms); v == Spent {
		t.Fatal("501 of 500 were spent")
	}
	if v := r.Spend([]int64{500, 500, 500}, 2*ms); v != Spent {
		t.Errorf("what was there before the refusal is not there after it: %v", v)
	}
}

func TestNearTheLimitItIsHungry(t *testing.T) {
	r, a := newRouter("r", rate("tpm", 60, 400)), &Account{}
	other := newRouter("other", r.limits...)
	other.Spend([]int64{300}, ms)
	other.refresh(t, a, ms)
	r.Spend([]int64{200}, ms)
	r.refresh(t, a, ms)
	if !r.Hungry() {
		t.Fatal("it got 100 of 200 and is not hungry")
	}
	if v := r.Spend([]int64{200}, 2*ms); v != Refused {
		t.Fatalf("%v, want Refused at once", v)
	}
	if r.Due(ms+HungryEvery.Nanoseconds()-1) || !r.Due(ms+HungryEvery.Nanoseconds()) {
		t.Error("it does not ask each 50 ms")
	}
	if v := r.Spend([]int64{80}, 3*ms); v != Spent {
		t.Errorf("what it holds is not spent: %v", v)
	}
	// Cut off, it does not go on refusing by an old answer.
	if v := r.Spend([]int64{200}, 2000*ms); v != Short {
		t.Errorf("after the lease %v, want Short", v)
	}
}

// Who lacks what the authority has left asks at once, unless the answer comes too late for anybody; who lacks
// what it has not is refused, and makes nobody ask sooner.
func TestWhatIsThereIsAskedForAndNothingElse(t *testing.T) {
	for name, trip := range map[string]int64{"near": ms, "far": 70 * ms} {
		r, a := newRouter("r", rate("scarce", 60, 100), rate("plenty", 60_000, 100_000)), &Account{}
		r.Spend([]int64{10, 5000}, ms)
		r.Spend([]int64{200, 5000}, ms) // never to be had: the other's part is cut with it
		r.Spend([]int64{95, 5000}, ms)
		in := r.call(ms)
		in.Path[0].Want, in.Path[1].Want = 200, 10_000
		r.pending.Path = in.Path
		r.Answer(a.Lease(&in, 1000), ms+trip)
		now := ms + trip
		if v := r.Spend([]int64{1, 5000}, now); v != Spent {
			t.Fatalf("%s: %v", name, v)
		}
		if v := r.Spend([]int64{1000, 1}, now); v != Refused || r.Due(now) && trip == ms {
			t.Errorf("%s: what is not there: %v, a call is due: %v", name, v, r.Due(now))
		}
		want := map[string]Verdict{"near": Short, "far": Refused}[name]
		if v := r.Spend([]int64{1, 5000}, now); v != want || v == Short && !r.Due(now) {
			t.Errorf("%s: what is there and not held: %v, want %v; a call is due: %v", name, v, want, r.Due(now))
		}
	}
}

func TestSettlingIsToldOnce(t *testing.T) {
	r, a := newRouter("r", rate("tpm", 60, 10_000)), &Account{}
	r.Spend([]int64{1000}, ms)
	r.refresh(t, a, ms)
	left := func(want int64) {
		t.Helper()
		level, held, _ := a.Left("tpm")
		if level+held != want {
			t.Errorf("level %d and held %d, want %d together", level, held, want)
		}
	}
	r.Spend([]int64{1000}, 2*ms)
	r.refresh(t, a, 100*ms)
	left(9000)
	r.Charge([]int64{-400}) // it had reserved too much, in a call that is over
	r.refresh(t, a, 200*ms)
	left(9400)
	r.Charge([]int64{2400}) // and then too little
	r.refresh(t, a, 300*ms)
	left(7000)
	r.Charge([]int64{20_000}) // down to the burst and no further
	out := r.refresh(t, a, 400*ms)
	if out.Path[0].Level != -10_000 || !r.Hungry() && out.Path[0].Granted != 0 {
		t.Errorf("%+v, want a debt of the burst", out.Path[0])
	}
	// A refund of what was spent since the last call can be spent again and never travels.
	r, a = newRouter("r", rate("tpm", 60, 10_000)), &Account{}
	r.Spend([]int64{1000}, ms)
	r.refresh(t, a, ms)
	r.Spend([]int64{1000}, 2*ms)
	r.Charge([]int64{-600})
	in := r.call(3 * ms)
	if in.Path[0].Used != 400 || in.Path[0].Refund != 0 || r.Left(0, 3*ms) != 600 {
		t.Errorf("%+v with %d left, want 400 used and 600 left", in.Path[0], r.Left(0, 3*ms))
	}
}

func TestACallWithoutAnAnswerIsRepeatedAsItWas(t *testing.T) {
	r, a := newRouter("r", rate("tpm", 60, 60_000)), &Account{}
	r.Spend([]int64{1000}, ms)
	r.refresh(t, a, ms)
	r.Spend([]int64{700}, 2*ms)
	first := r.call(200 * ms)
	a.Lease(&first, 200*1000) // the answer is lost
	r.Spend([]int64{100}, 210*ms)
	if r.Due(220*ms) || !r.Due(260*ms) {
		t.Error("a call without an answer is not due 50 ms later")
	}
	again := r.call(260 * ms)
	if again.Seq != first.Seq || again.Path[0] != first.Path[0] {
		t.Fatalf("%+v, want %+v again", again, first)
	}
	out := a.Lease(&again, 260*1000)
	r.Answer(out, 270*ms)
	if v := r.Spend([]int64{1}, 200*ms+DefaultTTL.Nanoseconds()); v != Short {
		t.Errorf("%v: validity counts from the first sending", v)
	}
	r.refresh(t, a, 300*ms)
	level, held, _ := a.Left("tpm")
	if level+held != 60_000-800 {
		t.Errorf("level %d and held %d, want 59,200 together", level, held)
	}
}

func TestAStaleCallLosesNothing(t *testing.T) {
	r, a := newRouter("r", rate("tpm", 60, 60_000)), &Account{}
	r.Spend([]int64{1000}, ms)
	r.refresh(t, a, ms)
	other := newRouter("other", r.limits...)
	other.policy = 2
	other.Spend([]int64{1}, ms)
	other.refresh(t, a, ms)
	r.Spend([]int64{300}, 2*ms)
	r.Charge([]int64{-20})
	in := r.call(100 * ms)
	out := a.Lease(&in, 100*1000)
	if out.Status != Stale || r.Answer(out, 100*ms) {
		t.Fatalf("%+v, want stale", out)
	}
	r.policy = 2
	r.refresh(t, a, 110*ms)
	level, held, _ := a.Left("tpm")
	if level+held != 60_000-280 {
		t.Errorf("level %d and held %d, want 59,720 together", level, held)
	}
}

func TestSlotsAreNeverMoreThanThereAre(t *testing.T) {
	slots := Limit{ID: "slots", Kind: Slots, Burst: 10}
	a := &Account{}
	routers := []*router{newRouter("a", slots), newRouter("b", slots), newRouter("c", slots)}
	var busy [3]int64
	random := rand.New(rand.NewPCG(1, 2))
	reached := int64(0)
	for now := ms; now < 20_000*ms; now += ms {
		i := random.IntN(3)
		r := routers[i]
		if r.Due(now) {
			r.refresh(t, a, now)
		}
		if busy[i] > 0 && random.IntN(30) == 0 {
			r.Charge([]int64{-1})
			busy[i]--
		} else if r.Spend([]int64{1}, now) == Spent {
			busy[i]++
		}
		all := busy[0] + busy[1] + busy[2]
		if all > 10 {
			t.Fatalf("%d requests at the same time", all)
		}
		reached = max(reached, all)
	}
	if reached != 10 {
		t.Errorf("at most %d of 10 slots were ever in use", reached)
	}
	// When all are done, all come back.
	for i, r := range routers {
		r.Charge([]int64{-busy[i]})
	}
	for now := 20_000 * ms; now < 23_000*ms; now += 10 * ms {
		for _, r := range routers {
			if r.Due(now) {
				r.refresh(t, a, now)
			}
		}
	}
	if level, held, _ := a.Left("slots"); level != 10 || held != 0 {
		t.Errorf("level %d and held %d after everybody is done", level, held)
	}
}

func TestAnIdleRouterGivesBackAndFallsSilent(t *testing.T) {
	r, a := newRouter("r", rate("tpm", 60_000, 60_000)), &Account{}
	for now := ms; now < 2000*ms; now += ms {
		r.Spend([]int64{20}, now)
		if r.Due(now) {
			r.refresh(t, a, now)
		}
	}
	calls, last := 0, int64(0)
	for now := 2000 * ms; now < 30_000*ms; now += ms {
		if r.Due(now) {
			r.refresh(t, a, now)
			calls, last = calls+1, now
		}
	}
	if _, held, _ := a.Left("tpm"); held != 0 || r.Due(60_000*ms) {
		t.Errorf("%d are still held", held)
	}
	if calls > 40 || last > 20_000*ms {
		t.Errorf("an idle router made %d calls, the last after %v", calls, time.Duration(last-2000*ms))
	}
}

// TestSpendersNeverGetMoreThanIsHeld lets many goroutines spend while the owner calls.
func TestSpendersNeverGetMoreThanIsHeld(t *testing.T) {
	const burst = 200_000
	limits := []Limit{rate("a", 1, burst), rate("b", 1, 2*burst)}
	for i := range limits {
		limits[i].PeriodMs = 86_400_000 // nothing flows in
	}
	r, a := newRouter("r", limits...), &Account{}
	var spent, clock atomic.Int64
	clock.Store(ms)
	var spenders sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		spenders.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if r.Spend([]int64{7, 3}, clock.Load()) == Spent {
					spent.Add(7)
				}
			}
		})
	}
	for deadline := time.Now().Add(30 * time.Second); spent.Load() < burst*99/100 && time.Now().Before(deadline); {
		if now := clock.Add(ms / 10); r.Due(now) {
			r.refresh(t, a, now)
		}
		runtime.Gosched()
	}
	close(done)
	spenders.Wait()
	for range 3 {
		r.refresh(t, a, clock.Add(100*ms))
	}
	level, held, _ := a.Left("a")
	if got := burst - level - held; got < spent.Load() || got > spent.Load()+1 || spent.Load() > burst {
		t.Errorf("%d spent and %d charged, of %d", spent.Load(), got, burst)
	}
	if spent.Load() < burst*95/100 {
		t.Errorf("only %d of %d were ever spent", spent.Load(), burst)
	}
}
