package quotas

import (
	"context"
	"math"
	"math/rand/v2"
	"sort"
	"time"

	"anabranch/ratelimit"
)

// scheme decides about requests, in virtual time and one call after the other.
type scheme interface {
	// ask ends in one call of world.admit or world.deny about the request, now or later.
	ask(r *request)
	// crash: the router has died, and another is in its place.
	crash(router int)
	// lose: the store knows nothing any more.
	lose()
}

// router is where a router stands.
type router struct {
	region int
	rtt    int64 // ns
}

// world is a run.
type world struct {
	spec    *Spec
	now     int64 // ns; begins at start, so that no time is 0
	queue   queue
	random  *rand.Rand // of faults and jitter
	limits  []ratelimit.Limit
	parts   []ratelimit.Share
	over    []*envelope
	routers []router
	scheme  scheme
	stepped int64 // µs by which the store's clock is off

	result Result
	waits  []int64
	asked  []float64 // tokens by region
	passed []float64
	used   int64 // the organisation's tokens, after the warm-up
}

const (
	start = int64(1_800_000_000 * time.Second) // a time of the Unix epoch, as clocks of stores have
	late  = int64(5 * time.Millisecond)
)

// Run simulates the scheme of that name, one of [Schemes]. The same spec gives the same result.
func Run(ctx context.Context, name string, s Spec) (Result, error) {
	if err := s.Validate(); err != nil {
		return Result{}, err
	}
	makeScheme, err := lookup(name)
	if err != nil {
		return Result{}, err
	}
	w := newWorld(&s)
	w.result.Scheme = name
	return w.run(ctx, makeScheme)
}

// run lets time pass.
func (w *world) run(ctx context.Context, makeScheme func(*world) scheme) (Result, error) {
	w.scheme = makeScheme(w)
	for _, st := range streams(w.spec) {
		w.come(st, start)
	}
	w.mishaps()
	end := start + w.spec.Time.Nanoseconds()
	for n := 0; ; n++ {
		e := w.queue.take()
		if e.at >= end {
			return w.finish(), nil
		}
		if n%4096 == 0 && ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		w.now = e.at
		e.call()
	}
}

func newWorld(s *Spec) *world {
	w := &world{
		spec: s, now: start, limits: s.limits(),
		random: rand.New(rand.NewPCG(s.Seed, math.MaxUint64)),
		asked:  make([]float64, len(s.Regions)), passed: make([]float64, len(s.Regions)),
	}
	for _, l := range w.limits {
		w.over = append(w.over, newEnvelope(l, start/1000))
	}
	w.parts = s.shares()
	for i, r := range s.Regions {
		for range r.Routers {
			w.routers = append(w.routers, router{region: i, rtt: r.RoundTrip.Nanoseconds()})
		}
	}
	return w
}

// come lets the stream's requests arrive one after the other.
func (w *world) come(s *stream, now int64) {
	r := s.next(now)
	w.queue.put(r.at, func() {
		w.come(s, r.at)
		w.asked[w.routers[r.router].region] += float64(r.costs[orgTokens])
		w.scheme.ask(r)
	})
}

// mishaps puts the fault's single events in the queue.
func (w *world) mishaps() {
	f := &w.spec.Fault
	if f.Lose > 0 {
		w.queue.put(start+f.Lose.Nanoseconds(), func() { w.scheme.lose() })
	}
	if f.Step != 0 {
		w.queue.put(start+f.StepAt.Nanoseconds(), func() { w.stepped += f.Step.Microseconds() })
	}
	if f.Crash > 0 {
		w.every(f.Crash, func() { w.scheme.crash(w.random.IntN(len(w.routers))) })
	}
}

// after calls back when so much time has passed.
func (w *world) after(d int64, call func()) { w.queue.put(w.now+d, call) }

// every calls back again and again.
func (w *world) every(d time.Duration, call func()) {
	w.after(d.Nanoseconds(), func() {
		w.every(d, call)
		call()
	})
}

// storeUs is the store's clock.
func (w *world) storeUs() int64 { return w.now/1000 + w.stepped }

// away says whether the router can't reach the store now.
func (w *world) away(router int) bool { return w.awayAt(router, w.now) }

func (w *world) awayAt(router int, now int64) bool {
	f := &w.spec.Fault
	t := time.Duration(now - start)
	if t < f.From || t >= f.To {
		return false
	}
	if len(f.Cut) == 0 {
		return true
	}
	for _, r := range f.Cut {
		if w.routers[router].region == r {
			return true
		}
	}
	return false
}

// way is how long a message takes one way: half of the round trip, and up to a tenth more.
func (w *world) way(router int) int64 {
	half := w.routers[router].rtt / 2
	return half + int64(0.1*float64(half)*w.random.Float64())
}

// lender is a new store, which has never heard of anybody.
func (w *world) lender() *ratelimit.Lending {
	return ratelimit.NewLending(func() time.Time { return time.UnixMicro(w.storeUs()) })
}

// in is a router's call about a tenant's path.
func (w *world) in(router, tenant int, name string) ratelimit.In {
	in := ratelimit.In{
		Org: "acme", Epoch: 1, Router: name, TTL: ratelimit.DefaultTTL, Policy: 1,
		Region: w.spec.Regions[w.routers[router].region].Name, Shares: w.parts,
		// A store that begins empty has lost nothing, one that is emptied later has.
		Young: w.now < start+time.Second.Nanoseconds(),
		Path:  make([]ratelimit.Level, levels),
	}
	for i, l := range path(tenant) {
		in.Path[i] = ratelimit.Level{Limit: w.limits[l], Cold: cold}
	}
	return in
}

// lease makes a call, which is a valid one.
func lease(lender *ratelimit.Lending, in ratelimit.In) ratelimit.Out {
	out, err := lender.Lease(context.Background(), in)
	if err != nil {
		panic(err)
	}
	return out
}

// send sends a message of a router to the store, where there is called, and calls back with true when
// its answer is there, or with false when that has not come in time.
func (w *world) send(router int, patience int64, there func(), back func(bool)) {
	w.result.Trips++
	f := &w.spec.Fault
	over := false
	w.after(patience, func() {
		if !over {
			over = true
			back(false)
		}
	})
	lost := w.random.Float64() < f.Lost
	again := w.random.Float64() < f.Repeated
	answer := func() {
		if w.away(router) || w.random.Float64() < f.Lost {
			return
		}
		w.after(w.way(router), func() {
			if !over {
				over = true
				back(true)
			}
		})
	}
	w.after(w.way(router), func() {
		if lost || w.away(router) {
			return
		}
		there()
		if !again {
			answer()
			return
		}
		w.after(int64(time.Millisecond), func() {
			if !w.away(router) {
				there()
			}
			answer()
		})
	})
}

// conclude decides now.
func (w *world) conclude(r *request, passes bool) {
	if passes {
		w.admit(r)
	} else {
		w.deny(r)
	}
}

// admit lets a request pass now.
func (w *world) admit(r *request) {
	w.decide(r)
	w.result.Admitted++
	for i, l := range path(r.tenant) {
		w.over[l].spend(r.costs[i], w.now/1000)
	}
	w.passed[w.routers[r.router].region] += float64(r.costs[orgTokens])
	if w.now >= start+w.spec.Warm.Nanoseconds() {
		w.used += r.costs[orgTokens]
	}
}

// deny refuses a request now.
func (w *world) deny(r *request) { w.decide(r) }

func (w *world) decide(r *request) {
	if r.decided {
		panic("a request was decided twice") // a scheme's mistake
	}
	r.decided = true
	w.result.Decided++
	w.waits = append(w.waits, w.now-r.at)
}

// finish counts what came of the run.
func (w *world) finish() Result {
	r := &w.result
	r.Demand, r.Seed = w.spec.Demand, w.spec.Seed
	r.Excess = math.Inf(-1)
	for _, e := range w.over {
		r.Excess = max(r.Excess, e.excess())
	}
	var sum float64
	for _, wait := range w.waits {
		sum += float64(wait)
		r.WaitedMost = max(r.WaitedMost, time.Duration(wait))
		if wait > late {
			r.Late++
		}
	}
	if n := float64(len(w.waits)); n > 0 {
		r.MeanWait, r.Late = time.Duration(sum/n), r.Late/n
		sort.Slice(w.waits, func(i, j int) bool { return w.waits[i] < w.waits[j] })
		r.P99Wait = time.Duration(w.waits[len(w.waits)*99/100])
	}
	r.Used = float64(w.used) / (float64(w.spec.Tokens) * (w.spec.Time - w.spec.Warm).Seconds())
	least, most := math.Inf(1), 0.0
	for i, asked := range w.asked {
		if asked > 0 {
			least, most = min(least, w.passed[i]/asked), max(most, w.passed[i]/asked)
		}
	}
	if most > 0 {
		r.Fair = least / most
	}
	return *r
}
