package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Load on each router.
const (
	perSecond = 14.0 // of the tenant that may be served anywhere
	fewer     = 2.0  // of the one that may not
	tokens    = 120  // of an answer at most
	prompts   = 24   // of a tenant
	// mostOpen bounds what is under way, lest a system that hangs takes this machine along.
	mostOpen = 1800
)

// load is traffic at an even mean pace, whatever comes of it, until stopped.
type load struct {
	s      *system
	right  map[string][]string // by tenant: what the model says to each prompt
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu      sync.Mutex // guards what follows
	answers []answer
	skipped int
	closed  map[string]bool // regions whose router takes nobody in
}

func prompt(tenant string, n int) string {
	return fmt.Sprintf("Question %d of %s: where does an anabranch go?", n, tenant)
}

// drive learns what the model says to each prompt, and then asks.
func (s *system) drive() *load {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{s: s, right: map[string][]string{}, cancel: cancel, closed: map[string]bool{}}
	home := s.router(euRegion).front
	for _, tenant := range []string{anywhere, onlyEU} {
		said := make([]string, prompts)
		var asking sync.WaitGroup
		for n := range prompts {
			asking.Go(func() {
				a := ask(ctx, home, s.keys[tenant], body(prompt(tenant, n), tokens, false))
				if a.status == 200 && a.done {
					said[n] = a.text
				}
			})
		}
		asking.Wait()
		if slices.Contains(said, "") {
			s.t.Fatalf("the model has not answered every prompt of %s", tenant)
		}
		l.right[tenant] = said
	}
	for i, router := range s.routers {
		for tenant, rate := range map[string]float64{anywhere: perSecond, onlyEU: fewer} {
			l.all.Go(func() { l.arrive(ctx, router, tenant, rate, uint64(i)) })
		}
	}
	s.t.Cleanup(l.stop)
	return l
}

// arrive sends a tenant's requests to one router, as a Poisson process.
func (l *load) arrive(ctx context.Context, at *part, tenant string, rate float64, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, uint64(rate)))
	next := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	slots := make(chan struct{}, mostOpen/6)
	for {
		next = next.Add(time.Duration(rnd.ExpFloat64() / rate * float64(time.Second)))
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		n, stream := rnd.IntN(prompts), rnd.Float64() < 0.8
		if l.isClosed(at.region) {
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			l.mu.Lock()
			l.skipped++
			l.mu.Unlock()
			continue
		}
		l.all.Go(func() {
			defer func() { <-slots }()
			a := ask(ctx, at.front, l.s.keys[tenant], body(prompt(tenant, n), tokens, stream))
			if ctx.Err() != nil {
				return // cut by the end of the test
			}
			a.stream, a.tenant, a.door, a.prompt = stream, tenant, at.region, n
			l.mu.Lock()
			l.answers = append(l.answers, a)
			l.mu.Unlock()
		})
	}
}

// leftOut is the share of requests, in %, that were not sent since too much was under way.
func (l *load) leftOut() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 100 * float64(l.skipped) / float64(max(1, len(l.answers)+l.skipped))
}

// bar keeps clients from a region's router, or lets them go there again.
func (l *load) bar(region string, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed[region] = closed
}

func (l *load) isClosed(region string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed[region]
}

// between gives the requests that were under way at some time between the moments and have ended.
func (l *load) between(from, to time.Time) []answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []answer
	for _, a := range l.answers {
		if a.ended.After(from) && a.began.Before(to) {
			out = append(out, a)
		}
	}
	return out
}

// began keeps those that began after a moment.
func began(answers []answer, after time.Time) []answer {
	var out []answer
	for _, a := range answers {
		if a.began.After(after) {
			out = append(out, a)
		}
	}
	return out
}

// stop ends the load and drops what is under way.
func (l *load) stop() {
	l.cancel()
	l.all.Wait()
}
