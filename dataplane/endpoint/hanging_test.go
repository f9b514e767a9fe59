package endpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/inference"
	"anabranch/failover"
)

// clients sends streams to a cluster, as often as it says, each to an endpoint in use by chance. They are answered
// after first, unless the cluster hangs.
type clients struct {
	r       *Registry
	cluster fleet.ClusterID
	rnd     *rand.Rand
	rate    float64 // requests a second
	first   func() time.Duration
	prompt  int64
	hangs   atomic.Bool
	mute    time.Time // when the first request came that is not answered
}

func (c *clients) send(d time.Duration, until func() bool) (took time.Duration, over bool) {
	began := time.Now()
	for next := time.Duration(0); time.Since(began) < d; {
		for time.Since(began) < next {
			if until != nil && until() {
				return time.Since(began), true
			}
			pass(min(10*time.Millisecond, next-time.Since(began)))
		}
		next += time.Duration(c.rnd.ExpFloat64() / c.rate * float64(time.Second))
		eps, _ := c.r.Cluster(c.cluster).Candidates(&Load{Model: "m"}, time.Now(), nil, nil, nil)
		if len(eps) == 0 {
			continue
		}
		c.one(eps[c.rnd.IntN(len(eps))])
	}
	return time.Since(began), false
}

func (c *clients) one(e *Endpoint) {
	call, first := e.Begin(Load{Model: "m", PromptTokens: c.prompt, Stream: true}, time.Now()), c.first()
	if c.hangs.Load() && c.mute.IsZero() {
		c.mute = time.Now()
	}
	go func() {
		pass(first)
		if c.hangs.Load() {
			pass(10 * time.Second)
			call.Done(Result{Outcome: failover.Silence}, time.Now())
			return
		}
		call.FirstToken(time.Now())
		pass(500 * time.Millisecond)
		call.Done(Result{Outcome: failover.OK, FirstToken: first, Output: 20, Usage: inference.Usage{Prompt: c.prompt, Completion: 20}}, time.Now())
	}()
}

func between(rnd *rand.Rand, least, most time.Duration) func() time.Duration {
	return func() time.Duration { return least + time.Duration(rnd.Int64N(int64(most-least))) }
}

// A cluster takes requests and emits nothing, or its packets are lost: the last of its endpoints is left within 5 s of
// that, whatever the moment, at two requests a second as at twenty. It takes longest where an endpoint had none at
// hand, and waits for its next.
func TestWhatEmitsNothingIsLeftWithinFiveSeconds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cluster fleet.ClusterID
		rate    float64
		breaks  func(*server)
	}{
		{"20 a second, two endpoints hang", "a", 20, func(s *server) { s.hang = true }},
		{"2 a second, one endpoint hangs", "b", 2, func(s *server) { s.hang = true }},
		{"20 a second, packets are lost", "a", 20, func(s *server) { s.mute = true }},
		{"2 a second, packets are lost", "b", 2, func(s *server) { s.mute = true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var most, sum, worst time.Duration
			runs := 1
			if os.Getenv("ANABRANCH_STRESS") != "" {
				runs = 20
			}
			for seed := range uint64(runs) {
				live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
					rnd := rand.New(rand.NewPCG(seed, 6))
					c := clients{r: r, cluster: tt.cluster, rnd: rnd, rate: tt.rate, prompt: 400, first: between(rnd, 100*time.Millisecond, 500*time.Millisecond)}
					if took, out := c.send(time.Duration(200/tt.rate*float64(time.Second)), func() bool { return r.ejectedNow(tt.cluster) }); out {
						t.Fatalf("it was ejected after %v while all was well", took)
					}
					for i := range r.of(tt.cluster) {
						f.set(fmt.Sprint(tt.cluster, i+1), tt.breaks)
					}
					c.hangs.Store(true)
					took, out := c.send(10*time.Second, func() bool { return r.ejectedNow(tt.cluster) })
					met := time.Since(c.mute)
					if !out || took > 5*time.Second {
						t.Errorf("seed %d: left %t after %v, %v since the first request that met it", seed, out, took, met)
					}
					worst = max(worst, met)
					most, sum = max(most, took), sum+took
					pass(11 * time.Second)
				})
			}
			t.Logf("left after %v on average, %v at most; since the first request that met it %v at most", (sum / time.Duration(runs)).Round(10*time.Millisecond), most, worst)
		})
	}
}

// One that is slow is not one that hangs: first tokens took nearly three seconds now and then, and while a prompt of
// 60,000 tokens is computed nothing else comes, not even a canary's token.
func TestASlowPromptDoesNotEject(t *testing.T) {
	t.Run("as slow as it has been", func(t *testing.T) {
		live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
			rnd := rand.New(rand.NewPCG(1, 6))
			c := clients{r: r, cluster: "b", rnd: rnd, rate: 5, prompt: 400, first: between(rnd, 2*time.Second, 3*time.Second)}
			c.send(90*time.Second, nil)
			pass(4 * time.Second)
			f.set("b1", func(s *server) { s.hang = true })
			call := r.of("b")[0].Begin(Load{Model: "m", PromptTokens: 400, Stream: true}, time.Now())
			pass(5500 * time.Millisecond)
			if out, why := r.of("b")[0].Ejected(); out {
				t.Errorf("ejected in less than twice the time that its slowest first tokens took: %s", why)
			}
			soon(t, 2*time.Second, "ejected after twice that time", func() bool { return r.ejectedNow("b") })
			call.Done(Result{Outcome: failover.Silence}, time.Now())
		})
	})
	t.Run("a long prompt among short ones", func(t *testing.T) {
		live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
			rnd := rand.New(rand.NewPCG(2, 6))
			c := clients{r: r, cluster: "b", rnd: rnd, rate: 5, prompt: 800, first: func() time.Duration { return 120 * time.Millisecond }}
			c.send(90*time.Second, nil) // 8,000 tokens a second
			pass(4 * time.Second)
			e := r.of("b")[0]
			f.set("b1", func(s *server) { s.hang = true })
			long := e.Begin(Load{Model: "m", PromptTokens: 60_000, Stream: true}, time.Now())
			var others []*Call
			for range 8 {
				pass(time.Second)
				others = append(others, e.Begin(Load{Model: "m", PromptTokens: 100, Stream: true}, time.Now()))
				if out, why := e.Ejected(); out {
					t.Fatalf("ejected over a prompt that takes 8 s: %s", why)
				}
			}
			long.FirstToken(time.Now())
			soon(t, 5*time.Second, "ejected when the short ones show nothing either", func() bool { return r.ejectedNow("b") })
			for _, c := range append(others, long) {
				c.Done(Result{Outcome: failover.Silence}, time.Now())
			}
		})
	})
}
