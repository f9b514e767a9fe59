package endpoint

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/dataplane/pick"
	"anabranch/failover"
)

// A server that queues is looked at twenty times a second, and each look sees the page of then.
func TestAQueueIsWatchedClosely(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		f.set("a1", func(s *server) { s.metrics = vllm(5, 16, 0.5) })
		pass(2 * time.Second)
		before := f.get("a1").scrapes
		pass(10 * time.Second)
		if n := f.get("a1").scrapes - before; n < 180 || n > 230 {
			t.Errorf("%d scrapes in 10 s, want 200", n)
		}
		f.set("a1", func(s *server) { s.metrics = vllm(0, 0, 0) })
		pass(2 * time.Second)
		before = f.get("a1").scrapes
		pass(10 * time.Second)
		if n := f.get("a1").scrapes - before; n > 14 {
			t.Errorf("%d scrapes of an idle server in 10 s, want 10", n)
		}
	})
}

// A request to a place that is looked at once a second brings the next look forward.
func TestARequestWakesTheScraper(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		pass(5 * time.Second)
		e := r.of("b")[0]
		n := f.get("b1").scrapes
		soon(t, 2*time.Second, "a look", func() bool { return f.get("b1").scrapes > n })
		n = f.get("b1").scrapes
		call := e.Begin(Load{Model: "m"}, time.Now())
		took := soon(t, time.Second, "the next look", func() bool { return f.get("b1").scrapes > n })
		if took > 150*time.Millisecond {
			t.Errorf("the next look came after %v", took)
		}
		call.Done(Result{Outcome: failover.Ignored}, time.Now())
	})
}

func TestPoolMetricsAreReadAtMostFourTimesASecond(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		f.set("g-metrics", func(s *server) { s.metrics = string(page(t, "llm-d.prom")) })
		pass(time.Second)
		before := f.get("g-metrics").scrapes
		for range 100 {
			r.of("g")[0].Begin(Load{Model: "m"}, time.Now()).Done(Result{Outcome: failover.Ignored}, time.Now())
			pass(100 * time.Millisecond)
		}
		if n := f.get("g-metrics").scrapes - before; n < 30 || n > 45 {
			t.Errorf("%d reads in 10 s of requests, want 40", n)
		}
	})
}

// The scrapes of many places begin apart, and go on so.
func TestManyPlacesAreNotScrapedInOneMoment(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	random := func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return rnd.Float64()
	}
	live(t, Options{Random: random}, func(t *testing.T, r *Registry, f *fakeFleet) {
		names := make([]string, 1000)
		for i := range names {
			names[i] = fmt.Sprintf("n%d", i)
		}
		r.Sync(world(t, discovering()))
		r.Discovered("a", found(names...))
		scraped := func() (n int) {
			for _, name := range names {
				n += f.get(name).scrapes
			}
			return n
		}
		for i := range 30 {
			before := scraped()
			pass(100 * time.Millisecond)
			if n := scraped() - before; n > 200 {
				t.Errorf("%d of 1,000 in a tenth of a second after %d00 ms", n, i)
			}
		}
		for _, name := range names {
			if f.get(name).scrapes < 2 {
				t.Fatalf("%s was read %d times in three seconds", name, f.get(name).scrapes)
			}
		}
	})
}

func TestAPlaceWithoutMetricsIsAskedRarely(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		pass(100 * time.Millisecond)
		f.set("b1", func(s *server) { s.none = true })
		pass(5 * time.Minute)
		if n := f.get("b1").scrapes; n < 4 || n > 25 {
			t.Errorf("%d looks for metrics in five minutes", n)
		}
		e := r.of("b")[0]
		if r.ejectedNow("b") || f.get("b1").canaries > 0 {
			t.Error("that it has no metrics puts it in doubt")
		}
		if c := e.Candidate(&Load{Model: "m"}, time.Now()); c.Freshness != pick.Absent {
			t.Errorf("signals of a page that isn't there: %+v", c)
		}
		if s := signalOf(t, r.Report(time.Now()), "b"); s.EndpointsReady != 1 || s.AgeMs < 250_000 {
			t.Errorf("report %+v: it is ready, and what is known of its load is old", s)
		}
		f.set("b1", func(s *server) { s.none = false })
		soon(t, time.Minute, "its page", func() bool { return e.Signals().Freshness(time.Now()) == pick.Fresh })
		before := f.get("b1").scrapes
		pass(10 * time.Second)
		if n := f.get("b1").scrapes - before; n < 8 {
			t.Errorf("%d looks in 10 s once it has one", n)
		}
	})
}

// trtllm-serve answers /metrics in JSON, and has its page elsewhere.
func TestTheSecondPlaceForMetrics(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`[{"iter":7}]`)) })
	mux.HandleFunc("GET /prometheus/metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page(t, "trtllm.prom")) })
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	r, _ := still(t)
	e := r.of("b")[0]
	e.URL = srv.URL
	s := &scraper{r: r, e: e, cadence: cadence{shortest: time.Millisecond, longest: time.Second}}
	if pause := s.once(t.Context()); pause > time.Millisecond {
		t.Errorf("it looks elsewhere only after %v", pause)
	}
	for range 3 {
		s.once(t.Context())
		if x := e.Signals(); x == nil || x.Waiting != 2 || x.Running != 5 || x.MaxBatch != 2048 {
			t.Fatalf("signals %+v", x)
		}
	}
	if got := e.slots.load(); !near(got, 5/0.6, 0.01) {
		t.Errorf("five requests take 60 %% of the KV cache, and the batch takes %v", got)
	}
}

func TestAPageThatFailsRaisesDoubtNowAndThen(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		pass(2 * time.Second)
		f.set("b1", func(s *server) { s.noPage = true })
		pass(time.Minute)
		if n := f.get("b1").canaries; n < 4 || n > 8 {
			t.Errorf("%d canaries in a minute, want one in ten seconds", n)
		}
		if r.ejectedNow("b") {
			t.Error("ejected while its canaries are answered")
		}
	})
}

// What one scrape of a page of 100 KB takes, over loopback, connection kept.
func BenchmarkScrape(b *testing.B) {
	whole := page(b, "vllm.prom")
	for i := 0; len(whole) < 100<<10; i++ {
		whole = fmt.Appendf(whole, "vllm:request_params_max_tokens_bucket{engine=\"0\",le=\"%d\",model_name=\"llama-3.1-8b\"} 117.0\n", i)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(whole)
	}))
	b.Cleanup(srv.Close)
	r := New(Options{Region: "us"})
	r.Sync(world(b))
	e := r.of("b")[0]
	b.SetBytes(int64(len(whole)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := r.fetch(b.Context(), e, srv.URL+"/metrics"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestFetchAsksForText(t *testing.T) {
	var accept string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		accept = q.Header.Get("Accept")
		_, _ = w.Write([]byte(vllm(1, 2, 0.5)))
	}))
	t.Cleanup(srv.Close)
	r, _ := still(t)
	s, _, err := r.fetch(t.Context(), r.of("b")[0], srv.URL)
	if err != nil || s.Waiting != 1 || !strings.HasPrefix(accept, "text/plain;version=0.0.4") {
		t.Errorf("%+v, %v, asked for %q", s, err, accept)
	}
}
