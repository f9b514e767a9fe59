package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// fakeFleet is a fleet as a transport: servers by host, each as the test says at that moment. In a
// synctest bubble its delays are virtual.
type fakeFleet struct {
	mu      sync.Mutex // guards servers and counts
	servers map[string]*server
}

// server is one model server or gateway.
type server struct {
	refuse  bool   // connections
	hang    bool   // canaries get nothing, until they give up
	mute    bool   // nor do scrapes
	status  int    // of canaries; 0: 200
	after   string // Retry-After of canaries
	metrics string // empty: those of an idle server
	noPage  bool   // metrics answer 500
	none    bool   // metrics answer 404

	broken map[string]string // models, and what canaries that ask for them are answered: a status, and a body after it

	canaries, scrapes int
	asked             map[string]int // canaries by model
	model             string         // of the last canary
	headers           http.Header    // of the last request
}

func (f *fakeFleet) set(host string, change func(*server)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.servers == nil {
		f.servers = make(map[string]*server)
	}
	if f.servers[host] == nil {
		f.servers[host] = &server{}
	}
	change(f.servers[host])
}

func (f *fakeFleet) get(host string) server {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.servers[host]; s != nil {
		return *s
	}
	return server{}
}

func (f *fakeFleet) RoundTrip(req *http.Request) (*http.Response, error) {
	canary := req.Header.Get(CanaryHeader) != ""
	f.set(req.URL.Hostname(), func(s *server) {
		s.headers = req.Header
		if canary {
			s.canaries++
		} else {
			s.scrapes++
		}
	})
	s := f.get(req.URL.Hostname())
	if s.refuse {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	answer := func(status int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, nil
	}
	switch {
	case canary && s.hang, s.mute:
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	case canary:
		body, err := io.ReadAll(req.Body)
		if err != nil || !bytes.Contains(body, []byte(`"max_tokens":1`)) {
			return nil, errors.New("a canary asks for one token")
		}
		var asked struct{ Model string }
		if err := json.Unmarshal(body, &asked); err != nil {
			return nil, err
		}
		f.set(req.URL.Hostname(), func(s *server) {
			if s.model = asked.Model; s.asked == nil {
				s.asked = make(map[string]int)
			}
			s.asked[asked.Model]++
		})
		if said := s.broken[asked.Model]; said != "" {
			status, body, _ := strings.Cut(said, " ")
			code, err := strconv.Atoi(status)
			if err != nil {
				return nil, err
			}
			return answer(code, body)
		}
		if s.status != 0 {
			resp, err := answer(s.status, "{}")
			if s.after != "" {
				resp.Header.Set("Retry-After", s.after)
			}
			return resp, err
		}
		return answer(http.StatusOK, `{"choices":[]}`)
	case s.noPage:
		return answer(http.StatusInternalServerError, "")
	case s.none:
		return answer(http.StatusNotFound, "")
	case s.metrics == "":
		return answer(http.StatusOK, vllm(0, 0, 0))
	}
	return answer(http.StatusOK, s.metrics)
}

// vllm is a page of metrics.
func vllm(waiting, running int, kv float64) string {
	return fmt.Sprintf("vllm:num_requests_waiting %d\nvllm:num_requests_running %d\nvllm:kv_cache_usage_perc %v\n", waiting, running, kv)
}

// world is a table: us has cluster a with endpoints a1 and a2, cluster b with b1, and gateway g;
// eu has cluster e.
func world(t testing.TB, change ...func(*routerpb.Table)) *table.Table {
	t.Helper()
	pb := &routerpb.Table{
		Ref: &routerpb.TableRef{ClusterId: "c", Revision: 1},
		Regions: []*routerpb.Region{
			{Id: "us", RttMs: map[string]float64{"eu": 80}}, {Id: "eu", PeerUrls: []string{"https://eu.example"}},
		},
		Models: []*routerpb.Model{{Id: "m", OutputWeight: 4, Adapters: []string{"lora"}}},
		Clusters: []*routerpb.Cluster{
			{Id: "a", Region: "us", Kind: "endpoints", Models: []string{"m"}, HealthCap: 1, Endpoints: []*routerpb.Endpoint{
				{Id: "a1", Url: "http://a1:8000", Class: "h100"}, {Id: "a2", Url: "http://a2:8000", Class: "a100"},
			}},
			{Id: "b", Region: "us", Kind: "endpoints", Models: []string{"m"}, HealthCap: 1, Endpoints: []*routerpb.Endpoint{{Id: "b1", Url: "http://b1:8000", Class: "h100"}}},
			{Id: "g", Region: "us", Kind: "gateway", Models: []string{"m"}, HealthCap: 1, GatewayUrl: "http://g:80", MetricsUrl: "http://g-metrics:9090/metrics"},
			{Id: "e", Region: "eu", Kind: "endpoints", Models: []string{"m"}, HealthCap: 1, Endpoints: []*routerpb.Endpoint{{Id: "e1", Url: "http://e1:8000", Class: "h100"}}},
		},
	}
	for _, f := range change {
		f(pb)
	}
	tab, err := table.Build(pb)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// still makes a registry of the world that doesn't run, with a clock that the test sets.
func still(t testing.TB) (*Registry, *time.Time) {
	t.Helper()
	now := time.Unix(1_764_400_000, 0)
	r := New(Options{Region: "us", Now: func() time.Time { return now }, Random: func() float64 { return 0.5 }})
	r.Sync(world(t))
	return r, &now
}

// of are the endpoints of a cluster; none if it isn't there.
func (r *Registry) of(cluster fleet.ClusterID) []*Endpoint {
	if c := r.Cluster(cluster); c != nil {
		return c.Endpoints()
	}
	return nil
}

// live tells a story in virtual time about a registry that runs against a fake fleet.
func live(t *testing.T, opt Options, story func(t *testing.T, r *Registry, f *fakeFleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeFleet{}
		opt.Region, opt.Transport = "us", f
		if opt.Random == nil {
			opt.Random = func() float64 { return 0.5 }
		}
		r := New(opt)
		r.Sync(world(t))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		story(t, r, f)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
}

// soon waits in virtual time until something holds, and says how long that took.
func soon(t *testing.T, limit time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(began) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		pass(10 * time.Millisecond)
	}
	return time.Since(began)
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }
