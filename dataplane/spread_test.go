package dataplane

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/pick"
)

// telling is a stub with a page of metrics of its own.
type telling struct {
	*stub
	page atomic.Pointer[func() string] // nil: it hangs
	open atomic.Int64                  // requests at work
}

// newTelling tells of so many running requests beside its own.
func newTelling(t *testing.T, running int64, kv float64) *telling {
	t.Helper()
	s := &telling{stub: &stub{}}
	s.tells(func() string { return page(running+s.open.Load(), kv) })
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			s.handle(w, r)
			return
		}
		if page := s.page.Load(); page != nil {
			_, _ = io.WriteString(w, (*page)())
			return
		}
		hangs(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *telling) tells(page func() string) { s.page.Store(&page) }

func page(running int64, kv float64) string {
	return fmt.Sprintf("vllm:num_requests_waiting 0\nvllm:num_requests_running %d\nvllm:kv_cache_usage_perc %g\n", running, kv)
}

// computes answers after what a model takes to.
func (s *telling) computes(w http.ResponseWriter, r *http.Request) {
	s.open.Add(1)
	defer s.open.Add(-1)
	select {
	case <-time.After(10 * time.Millisecond):
		answers(w, r)
	case <-r.Context().Done():
	}
}

// scraped waits until what all endpoints of a cluster say is known.
func (w *world) scraped(region, cluster string) {
	w.t.Helper()
	n := w.routers[region]
	w.eventually("the pages of "+cluster+" are read", func() bool {
		for _, e := range n.places.Cluster(fleet.ClusterID(cluster)).Endpoints() {
			if e.Candidate(&endpoint.Load{Model: "llama"}, time.Now()).Freshness != pick.Fresh {
				return false
			}
		}
		return true
	})
}

// TestABurstSpreads: sixty requests come before any page of metrics can show one of them.
func TestABurstSpreads(t *testing.T) {
	const burst = 60
	for _, tt := range []struct {
		name          string
		running       [3]int64 // beside its requests
		kv            float64
		promptLetters int
	}{
		{"short prompts", [3]int64{0, 3, 3}, 0.05, 100},
		{"long prompts", [3]int64{0, 3, 3}, 0.05, 20_000},
		{"two that have more to do", [3]int64{0, 8, 8}, 0.2, 2000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var there atomic.Int64
			all := make(chan struct{})
			var places [3]*telling
			for i := range places {
				places[i] = newTelling(t, tt.running[i], tt.kv*float64(min(i, 1)))
				places[i].does(func(w http.ResponseWriter, r *http.Request) {
					if there.Add(1) == burst {
						close(all)
					}
					select {
					case <-all:
						answers(w, r)
					case <-r.Context().Done():
					}
				})
			}
			w := newWorld(t, []site{
				{id: "us-a", region: us, weight: 1, endpoints: []*stub{places[0].stub, places[1].stub, places[2].stub}},
			}, func(pb *routerpb.Table) {
				// Nothing is held back, so that all are there before the first ends.
				pb.Classes[0].FirstByteFloorMs, pb.Classes[0].TtftObjectiveMs = 20_000, 100_000
			})
			w.run()
			w.scraped(us, "us-a")
			var clients sync.WaitGroup
			start := make(chan struct{})
			for i := range burst {
				clients.Go(func() {
					text := strings.Repeat(fmt.Sprint(i, " "), tt.promptLetters) // all differ
					body := strings.Replace(askStream, "hello", text[:tt.promptLetters], 1)
					<-start
					if r := w.ask(us, "acme", body); r.status != http.StatusOK || r.err != nil {
						t.Errorf("%d %v %q", r.status, r.err, r.body)
					}
				})
			}
			close(start)
			clients.Wait()
			w.idle()
			var counts []int64
			for _, p := range places {
				counts = append(counts, p.requests.Load())
			}
			t.Logf("of %d the idle one gets %d, the others %d and %d", burst, counts[0], counts[1], counts[2])
			for i, n := range counts {
				if n > burst/2 || n == 0 {
					t.Errorf("%d of %d requests at e%d", n, burst, i+1)
				}
			}
		})
	}
}

// TestAPageFrozenAtZeroDrawsNothing: a server hangs, its page says that it is idle, or can't be read
// any more. It is out of use within seconds, and gets nothing more.
func TestAPageFrozenAtZeroDrawsNothing(t *testing.T) {
	t.Parallel()
	const clients = 8
	for name, frozen := range map[string]func(*telling){
		"the page stands still": func(s *telling) { s.tells(func() string { return page(0, 0) }) },
		"the page hangs too":    func(s *telling) { s.page.Store(nil) },
	} {
		for _, shape := range []string{"a cluster", "an endpoint"} {
			t.Run(name+", "+shape, func(t *testing.T) {
				bad, good := newTelling(t, 0, 0), newTelling(t, 6, 0.05)
				bad.does(bad.computes)
				good.does(good.computes)
				sites := []site{
					{id: "us-a", region: us, weight: 0.5, endpoints: []*stub{bad.stub}}, {id: "us-b", region: us, weight: 0.5, endpoints: []*stub{good.stub}},
				}
				if shape == "an endpoint" {
					sites = []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{bad.stub, good.stub}}}
				}
				w := newWorld(t, sites, func(pb *routerpb.Table) { pb.Classes[0].QueueMs, pb.Classes[0].FirstByteFloorMs = 5000, 1500 })
				w.run()
				w.scraped(us, "us-a")
				var over atomic.Bool
				var answered atomic.Int64
				var all sync.WaitGroup
				for c := range clients {
					all.Go(func() {
						for i := 0; !over.Load(); i++ {
							body := strings.Replace(askStream, "hello", fmt.Sprint("hello ", c, " ", i), 1)
							if r := w.ask(us, "acme", body); r.status != http.StatusOK || r.err != nil {
								t.Errorf("%d %v %q", r.status, r.err, r.body)
							}
							answered.Add(1)
						}
					})
				}
				w.eventually("both are in use", func() bool { return bad.requests.Load() > clients && good.requests.Load() > clients })

				hang := http.HandlerFunc(hangs)
				frozen(bad)
				bad.canaries.Store(&hang)
				bad.does(hangs)
				began, before := time.Now(), bad.requests.Load()
				n := w.routers[us]
				place := n.places.Cluster("us-a").Endpoints()[0]
				w.eventually("it is ejected", func() bool { dead, _ := place.Ejected(); return dead })
				took, drawn := time.Since(began), bad.requests.Load()-before
				w.eventually("what is there has left", func() bool { return place.InFlight() == 0 })
				from, sofar := bad.requests.Load(), answered.Load()
				w.eventually("others are served", func() bool { return answered.Load() >= sofar+200 })
				over.Store(true)
				all.Wait()
				t.Logf("ejected after %s, having drawn %d requests; %d of the next %d", took.Round(time.Millisecond), drawn, bad.requests.Load()-from, answered.Load()-sofar)
				if took > 9*time.Second || drawn > 3*clients {
					t.Errorf("ejected after %s, having drawn %d requests of %d clients", took, drawn, clients)
				}
				if got := bad.requests.Load() - from; got != 0 {
					t.Errorf("%d requests still went there", got)
				}
				w.idle()
			})
		}
	}
}
