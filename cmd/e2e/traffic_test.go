package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// result is one request of the traffic.
type result struct {
	from   string // region asked
	stream bool
	began  time.Time
	ended  time.Time
	answer
}

// traffic is steady load on all routers by one tenant, until stopped.
type traffic struct {
	part *part

	mu      sync.Mutex // guards results
	results []result
}

// drive sends requests from each region: workers of each take turns with streams and whole answers,
// one request at a time, at most one each 50 ms.
func (s *System) drive(tenant, model string, workers int, regions ...string) *traffic {
	tr := &traffic{}
	tr.part = begin(func(ctx context.Context) error {
		var all sync.WaitGroup
		for _, region := range regions {
			for w := range workers {
				all.Go(func() { tr.work(ctx, s, region, tenant, model, w) })
			}
		}
		all.Wait()
		return nil
	})
	s.t.Cleanup(func() { tr.stop() })
	return tr
}

func (tr *traffic) work(ctx context.Context, s *System, region, tenant, model string, worker int) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := worker; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		body := chat(model, n%2 == 0)
		body["prompt_cache_key"] = fmt.Sprintf("%s-%d-%d", region, worker, n)
		r := result{from: region, stream: n%2 == 0, began: time.Now()}
		r.answer = s.ask(region, tenant, body)
		r.ended = time.Now()
		tr.mu.Lock()
		tr.results = append(tr.results, r)
		tr.mu.Unlock()
	}
}

// stop ends the traffic, waits for what is in flight and gives everything.
func (tr *traffic) stop() []result {
	_ = tr.part.end() // has no error
	return tr.since(time.Time{})
}

// since gives the requests that began at or after a moment and have ended.
func (tr *traffic) since(at time.Time) []result {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var out []result
	for _, r := range tr.results {
		if !r.began.Before(at) {
			out = append(out, r)
		}
	}
	return out
}

// share is the part of the requests from a region that another one served.
func share(results []result, from, servedBy string) float64 {
	all, hit := 0, 0
	for _, r := range results {
		if r.from == from && r.status == http.StatusOK {
			all++
			if r.region() == servedBy {
				hit++
			}
		}
	}
	if all == 0 {
		return 0
	}
	return float64(hit) / float64(all)
}

// lost lists the requests that a region's death may not cost: all but streams that had content,
// which must end with an error event.
func (s *System) lost(results []result) []string {
	var out []string
	for _, r := range results {
		err := r.whole()
		if err == nil {
			continue
		}
		if r.stream && r.text() != "" && r.failure().Message != "" {
			// The connection is cut behind the event, lest the end looks clean.
			continue
		}
		id := r.header.Get("x-anabranch-request-id")
		line := fmt.Sprintf("%s from %s after %v: %v", id, r.from, r.ended.Sub(r.began).Round(time.Millisecond), err)
		if len(out) == 0 {
			_, why := s.get(s.routers[r.from].admin() + "/explain/" + id)
			line += "\n" + why
		}
		out = append(out, line)
	}
	return out
}
