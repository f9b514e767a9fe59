package dataplane

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"anabranch/dataplane/endpoint"
	"anabranch/ratelimit"
)

type stub struct {
	*httptest.Server
	serve    atomic.Pointer[http.HandlerFunc]
	canaries atomic.Pointer[http.HandlerFunc] // nil: a token
	canary   atomic.Pointer[[]byte]           // body of the last canary
	page     atomic.Pointer[string]           // of metrics; nil: an idle server's
	requests atomic.Int64                     // without canaries
	left     atomic.Int64                     // whose ctx ended first
	seen     atomic.Pointer[http.Header]
	body     atomic.Pointer[[]byte]
}

func newStub(t testing.TB, serve http.HandlerFunc) *stub {
	t.Helper()
	s := &stub{}
	s.serve.Store(&serve)
	s.Server = httptest.NewServer(http.HandlerFunc(s.handle))
	t.Cleanup(s.Close)
	return s
}

func (s *stub) does(h http.HandlerFunc) { s.serve.Store(&h) }

func (s *stub) handle(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what can't be read is not there
	switch {
	case r.URL.Path == "/metrics":
		page := s.page.Load()
		if page == nil {
			page = new("vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n")
		}
		_, _ = io.WriteString(w, *page)
		return
	case r.Header.Get(endpoint.CanaryHeader) != "":
		s.canary.Store(&body)
		if h := s.canaries.Load(); h != nil {
			(*h)(w, r)
			return
		}
		answers(w, r)
		return
	}
	s.requests.Add(1)
	s.seen.Store(&r.Header)
	s.body.Store(&body)
	defer func() {
		if r.Context().Err() != nil {
			s.left.Add(1)
		}
	}()
	if strings.Contains(string(body), `"stream":true`) {
		r.Header.Set("X-Streams", "1")
	}
	(*s.serve.Load())(w, r)
}

func send(w http.ResponseWriter, parts ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range parts {
		_, _ = io.WriteString(w, p)
		w.(http.Flusher).Flush()
	}
}

func answers(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Streams") != "" {
		send(w, role, content, content, content, finish, counted, done)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, whole)
}

func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func says(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", status) }
}

func cut() { panic(http.ErrAbortHandler) }

// ledger is a quota store that remembers what it was told of. Zero, it lends what there is.
type ledger struct {
	mu      sync.Mutex // guards what follows
	lending *ratelimit.Lending
	deny    bool
	charged map[string]int64 // by limit
}

// LeaseAll implements [admit.Store].
func (l *ledger) LeaseAll(ctx context.Context, calls []ratelimit.In) []ratelimit.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lending == nil {
		l.lending, l.charged = ratelimit.NewLending(nil), map[string]int64{}
	}
	lend := make([]ratelimit.In, len(calls))
	for i, c := range calls {
		c.Path = slices.Clone(c.Path)
		for j := range c.Path {
			v := &c.Path[j]
			l.charged[v.Limit.ID] += v.Used - v.Refund
			if l.deny && v.Limit.Kind != ratelimit.Slots && v.Limit.Kind != ratelimit.Money {
				v.Used += v.Limit.Burst // others have spent it
			}
		}
		lend[i] = c
	}
	return l.lending.LeaseAll(ctx, lend)
}

// denies has others spend all that there is of rates, or no more.
func (l *ledger) denies(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deny = yes
}

// Healthy implements [admit.Store].
func (*ledger) Healthy(string) error { return nil }

// total is what was charged to a limit, as far as the ledger was told.
func (l *ledger) total(limit string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.charged[limit]
}
