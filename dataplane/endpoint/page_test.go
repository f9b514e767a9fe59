package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/exposition"
	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

// page is one of those that package exposition is tested with: what servers write.
func page(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "api", "exposition", "testdata", "pages", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// parsed is what a page says.
func parsed(page []byte) exposition.Load {
	var p exposition.Page
	p.Read(page)
	return p.Load()
}

// What an answer to a scrape says of the page, and of the place.
func TestFetch(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		none   bool // the place is well, and has no page
		err    string
	}{
		{"a page", 200, vllm(1, 2, 0.5), false, ""},
		{"not found", 404, "", true, "answered 404"},
		{"no such method", 405, "", true, "answered 405"},
		{"gone", 410, "", true, "answered 410"},
		{"not made", 501, "", true, "answered 501"},
		{"something else", 200, "<html></html>", true, "no page of known metrics"},
		{"nothing", 200, "", true, "no page of known metrics"},
		{"a token is wanted", 401, vllm(1, 2, 0.5), false, "metrics answered 401"},
		{"an error", 500, "", false, "metrics answered 500"},
		{"too much", 200, vllm(1, 2, 0.5) + strings.Repeat("#", exposition.MaxBytes), false, "more than 4194304 bytes"},
		{"as much as may be", 200, vllm(1, 2, 0.5) + strings.Repeat("#", exposition.MaxBytes-len(vllm(1, 2, 0.5))), false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			t.Cleanup(srv.Close)
			r, now := still(t)
			e := r.of("b")[0]
			call := e.Begin(Load{Model: "m"}, *now)
			s, _, err := r.fetch(t.Context(), e, srv.URL)
			call.Done(Result{}, *now)
			if tt.err == "" {
				if err != nil || s.Waiting != 1 || s.Running != 2 || s.KV != 0.5 || s.inFlight != 1 || !s.At.Equal(*now) {
					t.Errorf("%+v, %v", s, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) || errors.Is(err, errNoPage) != tt.none {
				t.Errorf("error %v, want one with %q; no page: %v", err, tt.err, tt.none)
			}
		})
	}
}

// Buffers are used again, and what one page had must not show in the next.
func TestPagesLeaveNothingBehind(t *testing.T) {
	var mu sync.Mutex // guards next
	next := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(w, next)
	}))
	t.Cleanup(srv.Close)
	r, _ := still(t)
	e := r.of("b")[0]
	read := func(text string) *Signals {
		t.Helper()
		mu.Lock()
		next = text
		mu.Unlock()
		s, _, err := r.fetch(t.Context(), e, srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	said := func(s *Signals) string {
		plain := *s
		plain.At, plain.inFlight = time.Time{}, 0
		return fmt.Sprintf("%+v", plain)
	}
	first := read(string(page(t, "vllm-lora.prom")))
	before := said(first)
	for _, name := range []string{"llm-d.prom", "vllm.prom", "llm-d-empty.prom", "sglang.prom", "tgi.prom", "vllm-lora.prom", "trtllm.prom"} {
		alone := said((&Signals{}).fill(parsed(page(t, name))))
		if got := said(read(string(page(t, name)))); got != alone {
			t.Errorf("%s after others:\n%s\nalone:\n%s", name, got, alone)
		}
	}
	if got := said(first); got != before {
		t.Errorf("signals changed after they were made:\n%s\nwere\n%s", got, before)
	}
}

func TestRequestsOfOurOwnAreSignedWhole(t *testing.T) {
	var mu sync.Mutex // guards what follows
	var bodies []string
	var ways []string
	way := func(name string) http.RoundTripper {
		return roundTripper(func(q *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			ways = append(ways, name+" "+q.Method+" "+q.URL.Path+" "+q.Header.Get("Signature"))
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(vllm(0, 0, 0)))}, nil
		})
	}
	usual, own := way("usual"), way("own")
	r := New(Options{
		Region: "us", Transport: usual,
		TransportFor: func(c *table.Cluster) http.RoundTripper {
			if c.ID == "b" {
				return own
			}
			return nil
		},
		Sign: func(c *table.Cluster, q *http.Request, body []byte) error {
			mu.Lock()
			defer mu.Unlock()
			bodies = append(bodies, string(body))
			q.Header.Set("Signature", string(c.ID))
			return nil
		},
	})
	r.Sync(world(t))
	for _, id := range []fleet.ClusterID{"a", "b"} {
		e := r.of(id)[0]
		if _, _, err := r.fetch(t.Context(), e, e.pageURL(0)); err != nil {
			t.Fatal(err)
		}
		if err := r.ask(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	want := "usual GET /metrics a,usual POST /v1/chat/completions a,own GET /metrics b,own POST /v1/chat/completions b"
	if got := strings.Join(ways, ","); got != want {
		t.Errorf("went\n%s, want\n%s", got, want)
	}
	if len(bodies) != 4 || bodies[0] != "" || !strings.Contains(bodies[1], `"max_tokens":1`) {
		t.Errorf("signed %q", bodies)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// A server that takes the connection and says nothing costs a scrape its time and no more.
func TestAScrapeEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Region: "us", Transport: roundTripper(func(q *http.Request) (*http.Response, error) {
			<-q.Context().Done()
			return nil, context.Cause(q.Context())
		})})
		r.Sync(world(t))
		e := r.of("b")[0]
		began := time.Now()
		_, _, err := r.fetch(t.Context(), e, e.pageURL(0))
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != scrapeTimeout {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// Where the metrics of each kind of cluster are.
func TestWhereMetricsAre(t *testing.T) {
	r, _ := still(t)
	r.Sync(world(t, withProvider, func(pb *routerpb.Table) {
		pb.Clusters = append(pb.Clusters, &routerpb.Cluster{Id: "g2", Region: "us", Kind: "gateway", Models: []string{"m"}, HealthCap: 1, GatewayUrl: "http://g2"})
	}))
	for cluster, want := range map[fleet.ClusterID][2]string{
		"a": {"http://a1:8000/metrics", "http://a1:8000/prometheus/metrics"},
		"g": {"http://g-metrics:9090/metrics", "http://g-metrics:9090/metrics"}, "g2": {}, "p": {},
	} {
		if e := r.of(cluster)[0]; e.pageURL(0) != want[0] || e.pageURL(1) != want[1] || e.pageURL(2) != want[0] {
			t.Errorf("%s: %q, then %q", cluster, e.pageURL(0), e.pageURL(1))
		}
	}
}

// A cluster that becomes one of another kind is a new one.
func TestAnotherKindIsAnotherCluster(t *testing.T) {
	r, now := still(t)
	old := r.Cluster("g")
	old.Endpoints()[0].Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ConnectFailure}, *now)
	r.Sync(world(t))
	if r.Cluster("g") != old {
		t.Error("the same kind, and its state is lost")
	}
	r.Sync(world(t, func(pb *routerpb.Table) {
		pb.Clusters[2].Kind = table.KindProvider
		pb.Clusters[2].MetricsUrl = ""
	}))
	g := r.Cluster("g")
	if g == old || len(g.Endpoints()) != 1 || g.Endpoints()[0].pageURL(0) != "" {
		t.Errorf("a gateway that is a provider now: %+v", g)
	}
}
