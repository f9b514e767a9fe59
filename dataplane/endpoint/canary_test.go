package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"anabranch/api/exposition"
	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

func TestJudge(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	tests := []struct {
		name string
		err  error
		want failover.Outcome
	}{
		{"answered", nil, failover.OK},
		{"refused", dial, failover.ConnectFailure},
		{"refused, wrapped", fmt.Errorf("ask: %w", dial), failover.ConnectFailure},
		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, failover.ServerFault},
		{"5xx", answered(503), failover.ServerFault},
		{"full", errFull, failover.Ignored},
		{"silent", context.DeadlineExceeded, failover.Silence},
		{"silent while dialling", errors.Join(context.DeadlineExceeded, dial), failover.Silence},
		{"anything else", errors.New("malformed HTTP response"), failover.ServerFault},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := judge(tt.err); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// A place that is full tells canaries so as well. That is no reason to eject it.
func TestAFullPlaceIsNotDead(t *testing.T) {
	for name, after := range map[string]string{"says when to come back": "1", "doesn't": ""} {
		t.Run(name, func(t *testing.T) {
			live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
				pass(time.Second)
				f.set("b1", func(s *server) { s.status, s.after = http.StatusServiceUnavailable, after })
				for range 20 {
					r.of("b")[0].breaker.doubt()
					pass(200 * time.Millisecond)
				}
				if n := f.get("b1").canaries; n < 3 {
					t.Fatalf("%d canaries", n)
				}
				if out, why := r.of("b")[0].Ejected(); out != (after == "") {
					t.Errorf("ejected %v, %s", out, why)
				}
			})
		})
	}
}

// A tenant sends requests that break every server that they come to, which answers all others. No
// more than half of the cluster is left for it, and canaries clear the rest again and again.
func TestPoisonDoesNotTakeAClusterDown(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		for _, id := range []fleet.ClusterID{"a", "b", "g"} {
			c := r.Cluster(id)
			for range 20 { // 20 s
				for range 10 { // on each endpoint in use, so that it would be ejected in two seconds
					eps, _ := c.Candidates(&Load{Model: "m"}, time.Now(), nil, nil, nil)
					for _, e := range eps {
						e.Begin(Load{Model: "m"}, time.Now()).Done(Result{Outcome: failover.ServerFault}, time.Now())
					}
					pass(100 * time.Millisecond)
					if out, why := c.Ejected(); out {
						t.Fatalf("%s is down: %s", id, why)
					}
				}
			}
			left := 0
			for _, e := range c.Endpoints() {
				if out, _ := e.Ejected(); out {
					left++
				}
			}
			if most := len(c.Endpoints()) / 2; left > most {
				t.Errorf("%d endpoints of %s are ejected, want at most %d", left, id, most)
			}
		}
		if f.get("b1").canaries == 0 {
			t.Error("nothing looked whether it is the server or the requests")
		}
	})
}

// The same with servers that are broken: canaries fail too, and all of it goes.
func TestABrokenClusterGoesDownAsAWhole(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		for _, host := range []string{"a1", "a2"} {
			f.set(host, func(s *server) { s.status = http.StatusInternalServerError })
		}
		for _, e := range r.of("a") {
			e.Begin(Load{Model: "m"}, time.Now()).Done(Result{Outcome: failover.ServerFault}, time.Now())
		}
		soon(t, time.Second, "a ejected", func() bool { return r.ejectedNow("a") })
	})
}

// Each of the cluster's endpoints is ejected. Whichever is back first brings the cluster back.
func TestAClusterComesBackWithItsFirstEndpoint(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		a := r.Cluster("a")
		for _, host := range []string{"a1", "a2"} {
			f.set(host, func(s *server) { s.refuse = true })
		}
		for i := range 12 {
			a.Endpoints()[i%2].Begin(Load{Model: "m"}, time.Now()).Done(Result{Outcome: failover.ConnectFailure}, time.Now())
		}
		if !r.ejectedNow("a") {
			t.Fatal("six requests in a row were refused by each, and the cluster is in use")
		}
		pass(5 * time.Minute)
		f.set("a2", func(s *server) { s.refuse = false })
		soon(t, 3*time.Second, "a back", func() bool { return !r.ejectedNow("a") })
		if eps, _ := a.Candidates(&Load{Model: "m"}, time.Now(), nil, nil, nil); len(eps) != 1 || eps[0].ID != "a2" {
			t.Errorf("candidates %v, want a2 alone", eps)
		}
	})
}

func TestTokensOnThePageAreProgress(t *testing.T) {
	var tokens atomic.Int64
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		e := r.of("b")[0]
		f.set("b1", func(s *server) { s.hang = true }) // canaries wait behind a long answer
		call := e.Begin(Load{Model: "m", Stream: true}, time.Now())
		call.FirstToken(time.Now())
		for range 100 { // 20 s of one answer, token by token
			n := tokens.Add(30)
			f.set("b1", func(s *server) {
				s.metrics = fmt.Sprintf("vllm:num_requests_running 1\nvllm:generation_tokens_total %d\n", n)
			})
			pass(200 * time.Millisecond)
		}
		if r.ejectedNow("b") || f.get("b1").canaries > 0 {
			t.Errorf("ejected %v after %d canaries, while the page showed tokens", r.ejectedNow("b"), f.get("b1").canaries)
		}
		call.Done(Result{Outcome: failover.OK, FirstToken: time.Millisecond}, time.Now())
	})
}

func TestAMissingSecretIsToldWithoutIt(t *testing.T) {
	opt := Options{Sign: func(c *table.Cluster, _ *http.Request, _ []byte) error {
		if c.ID == "b" {
			return errors.New("variable B_TOKEN is not set")
		}
		return nil
	}}
	live(t, opt, func(t *testing.T, r *Registry, f *fakeFleet) {
		soon(t, 3*time.Second, "b ejected", func() bool { return r.ejectedNow("b") })
		if f.get("b1").scrapes+f.get("b1").canaries != 0 {
			t.Error("something was sent without the secret")
		}
		if _, why := r.Cluster("b").Ejected(); !strings.Contains(why, "B_TOKEN is not set") {
			t.Errorf("reason %q", why)
		}
	})
}

func TestPagesThatAreNoUse(t *testing.T) {
	tests := []struct {
		name string
		set  func(*server)
	}{
		{"an error", func(s *server) { s.noPage = true }},
		{"far too much", func(s *server) { s.metrics = strings.Repeat("x 1\n", exposition.MaxBytes/4+1) }},
		{"refused", func(s *server) { s.refuse = true }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
				f.set("b1", func(s *server) { s.metrics = vllm(0, 5, 0.1) })
				e := r.of("b")[0]
				soon(t, 2*time.Second, "a page", func() bool { return e.Signals() != nil && e.Signals().Running == 5 })
				f.set("b1", tt.set)
				pass(3 * time.Second)
				if s := e.Signals(); s.Running != 5 || time.Since(s.At) < 2*time.Second {
					t.Errorf("signals %+v; want the last good ones", s)
				}
			})
		})
	}
}

func TestAGatewayWithoutMetricsIsReadyWhileItAnswers(t *testing.T) {
	r, now := still(t)
	r.Sync(world(t, func(pb *routerpb.Table) { pb.Clusters[2].MetricsUrl = "" }))
	if s := signalOf(t, r.Report(*now), "g"); s.Scraped || s.EndpointsTotal != 1 || s.EndpointsReady != 1 {
		t.Errorf("%+v", s)
	}
	for range 3 {
		r.of("g")[0].Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ConnectFailure}, *now)
	}
	*now = now.Add(time.Second)
	if s := signalOf(t, r.Report(*now), "g"); !s.Ejected || s.EndpointsReady != 0 {
		t.Errorf("after three refusals: %+v", s)
	}
}

// The real thing: a model server on loopback is scraped, killed, and left within two seconds without
// a request having been spent on it.
func TestOverRealSockets(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(vllm(1, 6, 0.3)))
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"choices":[]}`))
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	r := New(Options{Region: "us"})
	r.Sync(world(t, func(pb *routerpb.Table) {
		pb.Clusters = pb.Clusters[1:2]
		pb.Clusters[0].Endpoints[0].Url = srv.URL
	}))
	ctx, cancel := context.WithCancel(t.Context())
	var runner sync.WaitGroup
	runner.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	defer runner.Wait()
	defer cancel()
	await := func(what string, holds func() bool) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second) // of a busy machine; usually far less
		for !holds() {
			if time.Now().After(deadline) {
				t.Fatalf("not within 20 s: %s", what)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	e := r.of("b")[0]
	await("signals", func() bool { s := e.Signals(); return s != nil && s.Running == 6 && s.KV == 0.3 })
	if out, why := e.Ejected(); out {
		t.Fatalf("ejected: %s", why)
	}
	srv.CloseClientConnections()
	srv.Close()
	await("ejection", func() bool { return r.ejectedNow("b") })
}

// A dial goes on when the request that it was for has been given up. Looks at a machine that drops
// all packets must not pile up.
func TestDialsEndByThemselves(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }() // it has been bound to nothing else
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
	dial := New(Options{Region: "eu"}).own.DialContext
	for range 8 { // the queue of who waits to be accepted fills up, and then nothing is answered
		ctx, cancel := context.WithTimeout(context.Background(), 5*scrapeTimeout)
		c, err := dial(ctx, "tcp", address)
		late := ctx.Err() != nil
		cancel()
		if err == nil {
			defer c.Close()
			continue
		}
		if late {
			t.Errorf("the dial went on until it was told to end: %v", err)
		}
		return
	}
	t.Error("every dial was answered")
}
