package replay

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/sim"
	"anabranch/sim/modelserver"
	"anabranch/sim/workload"
)

// pod starts a model server with one endpoint and returns its URL.
func pod(t *testing.T) string {
	t.Helper()
	s, err := modelserver.New(modelserver.Options{
		Cluster:   "test",
		Endpoints: []modelserver.Endpoint{{ID: "a", Listen: "127.0.0.1:0", Class: "h100"}},
		Models:    []modelserver.Model{{Name: "llama-3.1-8b"}},
		TimeScale: 0.1,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	if err := s.Listen(ctx); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Addrs()["a"]
}

// TestAModelServerFindsWhatTheWorkloadShares holds together the blocks that simulations count and the
// text that a server sees.
func TestAModelServerFindsWhatTheWorkloadShares(t *testing.T) {
	for _, api := range []API{Completions, Chat} {
		t.Run(string(api), func(t *testing.T) {
			spec := workload.SharedPrefix{
				// One client: what a prompt finds in the cache depends on those before it alone.
				Traffic:  workload.Traffic{Seed: 4, Arrivals: workload.Arrivals{Clients: 1}, Requests: 30},
				Mix:      workload.Mix{Models: []workload.Target{{Model: "llama-3.1-8b"}}},
				Prefixes: 5, Prefix: workload.Lengths{Fixed: 1000}, Suffix: workload.Lengths{Min: 20, Max: 120},
				Output: workload.Lengths{Min: 1, Max: 20},
			}
			source, err := spec.Source()
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			prompt, cached := 0, 0
			sum, err := Run(ctx, source, Options{URL: pod(t), API: api, IgnoreEOS: true}, func(r Record) {
				q := r.Request
				more := r.PromptTokens - q.PromptTokens
				if !r.OK() || r.Status != http.StatusOK || r.OutputTokens != q.OutputTokens || more < 0 || more > 7 || api == Completions && more > 0 {
					t.Errorf("record %+v", r)
				}
				if r.First < r.Sent || r.Last < r.First || r.Ended < r.Last || r.Sent < r.Due {
					t.Errorf("times are out of order: %+v", r)
				}
				prompt += q.PromptTokens
				cached += r.CachedTokens
			})
			if err != nil || sum.OK != 30 || sum.MostInFlight != 1 {
				t.Fatalf("summary %+v, error %v", sum, err)
			}
			again, err := spec.Source()
			if err != nil {
				t.Fatal(err)
			}
			ideal, err := workload.Measure(again, 1000, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			// 62 whole blocks of a prefix for all requests but the first of each.
			if want := 25 * 62 * sim.BlockSize; cached != want || ideal.Prompt.Sum != prompt || int(ideal.Hit*float64(prompt)+0.5) != want {
				t.Errorf("the server had %d tokens, the workload shares %v of %d, want %d", cached, ideal.Hit, prompt, want)
			}
		})
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var opened atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	sum, err := Run(t.Context(), steady(t, 20, workload.Arrivals{Clients: 1}), Options{URL: s.URL}, nil)
	if err != nil || sum.OK != 20 || opened.Load() != 1 {
		t.Errorf("%d connections for %+v, error %v", opened.Load(), sum, err)
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	sum, err := Run(t.Context(), steady(t, 3, workload.Arrivals{Clients: 1}), Options{URL: "http://" + addr}, func(r Record) {
		if r.Code != CodeConnect || r.Status != 0 {
			t.Errorf("record %+v", r)
		}
	})
	if err != nil || sum.Sent != 3 || sum.OK != 0 {
		t.Errorf("summary %+v, error %v", sum, err)
	}
}
