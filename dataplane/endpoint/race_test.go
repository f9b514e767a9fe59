package endpoint

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/pick"
	"anabranch/failover"
)

// Everything at once, with real goroutines: requests, tables, reports, scrapes and failures. What
// is in flight comes back to none, and Run ends when it is told to.
func TestEverythingAtOnce(t *testing.T) {
	f := &fakeFleet{}
	for _, host := range []string{"a1", "a2", "b1"} {
		f.set(host, func(s *server) { s.metrics = vllm(1, 2, 0.1) })
	}
	r := New(Options{Region: "us", Transport: f, ScrapeBusy: time.Millisecond, ScrapeIdle: time.Millisecond})
	tables := []func(*routerpb.Table){
		func(*routerpb.Table) {},
		func(pb *routerpb.Table) { pb.Clusters[0].Endpoints = pb.Clusters[0].Endpoints[:1] },
		func(pb *routerpb.Table) { pb.Clusters[0].Endpoints[1].Url = "http://elsewhere" },
	}
	r.Sync(world(t))
	ctx, cancel := context.WithCancel(t.Context())
	var all, runner sync.WaitGroup
	runner.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	var mu sync.Mutex
	used := map[*Endpoint]bool{}
	for g := range 4 {
		all.Go(func() {
			for i := range 300 {
				l := prompt(i % 5)
				eps, cands := r.Cluster("a").Candidates(&l, time.Now(), nil, nil, nil)
				k, _ := pick.Best(pick.Request{PromptTokens: l.PromptTokens}, cands, pick.PredictedTTFT, uint64(i*7919+g))
				if k < 0 {
					continue // all ejected at this moment
				}
				mu.Lock()
				used[eps[k]] = true
				mu.Unlock()
				call := eps[k].Begin(l, time.Now())
				call.FirstToken(time.Now())
				outcome := failover.OK
				if i%50 == 49 {
					outcome = failover.ServerFault
				}
				call.Done(Result{Outcome: outcome, FirstToken: time.Millisecond}, time.Now())
				r.Cluster("e").Hop(l, time.Now()).Done(Result{Outcome: outcome, FirstToken: time.Millisecond}, time.Now())
				r.Cluster("a").Evidence(time.Now())
				r.Asked("m", "interactive", 50, 10)
			}
		})
	}
	all.Go(func() {
		for i := range 50 {
			r.Sync(world(t, tables[i%len(tables)]))
			r.Report(time.Now())
		}
	})
	all.Wait()
	cancel()
	runner.Wait()
	for e := range used {
		if n := e.InFlight(); n != 0 {
			t.Errorf("%s: %d in flight", e.ID, n)
		}
	}
	if a, e := r.Cluster("a").InFlight(), r.Cluster("e").InFlight(); a != 0 || e != 0 {
		t.Errorf("clusters have %d and %d in flight", a, e)
	}
}

// Ten thousand requests that end in every way, some more than once and some without a word: nothing is
// left of them in any count.
func TestNothingIsLeftOfRequests(t *testing.T) {
	r := New(Options{Region: "us"})
	r.Sync(world(t, withProvider))
	outcomes := []failover.Outcome{failover.OK, failover.OK, failover.OK, failover.ServerFault, failover.Silence, failover.Ignored}
	var all sync.WaitGroup
	for g := range 20 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 9))
			for range 500 {
				now := time.Now()
				l := prompt(rnd.IntN(6))
				l.Stream = rnd.IntN(2) == 0
				if rnd.IntN(4) == 0 {
					l.Adapter = strconv.Itoa(rnd.IntN(9))
				}
				var c *Call
				switch id := []fleet.ClusterID{"a", "b", "g", "p", "e"}[rnd.IntN(5)]; id {
				case "e":
					c = r.Cluster(id).Hop(l, now)
				default:
					list := r.of(id)
					c = list[rnd.IntN(len(list))].Begin(l, now)
				}
				result := Result{
					Outcome: outcomes[rnd.IntN(len(outcomes))], Output: rnd.Int64N(50), Busy: rnd.IntN(10) == 0, RetryAfter: time.Millisecond,
					Saturation: rnd.Float64(), HasSaturation: rnd.IntN(2) == 0,
				}
				if rnd.IntN(2) == 0 {
					c.FirstToken(now.Add(time.Millisecond))
					result.FirstToken = time.Millisecond
				}
				for range 1 + rnd.IntN(2) {
					c.Done(result, now.Add(2*time.Millisecond))
				}
			}
		})
	}
	all.Wait()
	requests := uint64(0)
	later := time.Now().Add(time.Hour)
	for _, c := range r.all() {
		if n := c.InFlight(); n != 0 {
			t.Errorf("%s: %d in flight", c.ID, n)
		}
		for _, e := range c.Endpoints() {
			if n := e.InFlight(); n != 0 || e.begun.Load() != e.ended.Load() {
				t.Errorf("%s: %d in flight, %d begun, %d ended", e.ID, n, e.begun.Load(), e.ended.Load())
			}
			if left := e.backlog.tokens(later, 1000, 0, 1); left != 0 {
				t.Errorf("%s: a backlog of %v tokens", e.ID, left)
			}
		}
	}
	for _, s := range r.Report(later).Clusters {
		requests += s.Requests
	}
	if requests != 10_000 {
		t.Errorf("%d requests were reported", requests)
	}
}

// crowd is a registry whose cluster a has so many endpoints, with fresh signals.
func crowd(b testing.TB, n int) (*Registry, []*Endpoint) {
	b.Helper()
	r := New(Options{Region: "us"})
	r.Sync(world(b, func(pb *routerpb.Table) {
		for i := range n - 2 {
			pb.Clusters[0].Endpoints = append(pb.Clusters[0].Endpoints, &routerpb.Endpoint{
				Id: strconv.Itoa(i), Url: "http://x", Class: "h100",
			})
		}
	}))
	for _, e := range r.of("a") {
		e.seen(&Signals{At: time.Now(), Ready: -1, Saturation: -1})
	}
	return r, r.of("a")
}

func TestTheAgeOfWhatIsKnownOfACluster(t *testing.T) {
	r, list := crowd(t, 3)
	now := time.Now()
	c := r.Cluster("a")
	list[0].seen(&Signals{At: now.Add(-3 * time.Second), Ready: -1, Saturation: -1})
	list[1].seen(&Signals{At: now.Add(-2 * time.Second), Ready: -1, Saturation: -1})
	list[2].signals.Store(nil)
	if got := c.SignalAge(now); got != 2000 {
		t.Errorf("%d ms, want that of the newest", got)
	}
	if got := c.SignalAge(now.Add(loadEvery / 2)); got != 2010 {
		t.Errorf("%d ms a moment later", got)
	}
	for _, e := range list {
		e.signals.Store(nil)
	}
	if got := c.SignalAge(now.Add(loadEvery)); got != -1 {
		t.Errorf("%d ms of nothing", got)
	}
}

// The request path: what it costs to look at a cluster and choose, for prompts of 4,000 and of 100,000
// tokens that every fifth endpoint has.
func BenchmarkCandidates(b *testing.B) {
	for _, n := range []int{10, 100} {
		for _, blocks := range []int{16, 400} {
			b.Run(strconv.Itoa(n)+"/"+strconv.Itoa(blocks*256), func(b *testing.B) {
				r, list := crowd(b, n)
				now := time.Now()
				l := prompt(blocks)
				for i, e := range list {
					if i%5 == 0 {
						e.index.Confirm(e.holder, l.Blocks, now)
					}
				}
				eps, cands := make([]*Endpoint, 0, n), make([]pick.Candidate, 0, n)
				b.ReportAllocs()
				for b.Loop() {
					eps, cands = r.Cluster("a").Candidates(&l, now, nil, eps[:0], cands[:0])
					pick.Best(pick.Request{PromptTokens: l.PromptTokens}, cands, pick.PredictedTTFT, 1)
				}
			})
		}
	}
}
