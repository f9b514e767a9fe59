package endpoint

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"anabranch/dataplane/pick"
	"anabranch/dataplane/table"
)

const (
	scrapeTimeout = time.Second
	// maxPage bounds a page of metrics. vLLM's is about 100 KB.
	maxPage = 4 << 20
)

// scrape follows an endpoint's metrics until ctx ends.
func (r *Registry) scrape(ctx context.Context, e *Endpoint) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var batch slots
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		busy := e.inFlight.Load() > 0
		if url := e.metricsURL(); url != "" {
			s, err := r.fetch(ctx, e, url)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !failing {
					r.log.Info("scrape stopped working", "cluster", e.Cluster.ID, "endpoint", e.ID, "error", err)
				}
				failing = true
				e.unseen(r.opt.Now())
				e.breaker.doubt()
			default:
				busy = busy || s.Waiting+s.Running > 0
				e.slots.store(batch.learn(s.Waiting, s.Running, s.KV))
				e.seen(s)
				if failing {
					r.log.Info("scrape works again", "cluster", e.Cluster.ID, "endpoint", e.ID)
					e.breaker.hurry()
				}
				failing = false
			}
		}
		if e.stuck(r.opt.Now()) {
			e.breaker.doubt()
		}
		pause := r.opt.ScrapeIdle
		if busy {
			pause = r.opt.ScrapeBusy
		}
		timer.Reset(time.Duration((0.9 + 0.2*r.opt.Random()) * float64(pause))) // so that they spread
	}
}

// metricsURL is where its metrics are; empty: nowhere.
func (e *Endpoint) metricsURL() string {
	spec := e.Cluster.Spec()
	if spec.Kind == table.KindGateway {
		return spec.MetricsURL
	}
	return e.URL + "/metrics"
}

func (r *Registry) fetch(ctx context.Context, e *Endpoint, url string) (*Signals, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if err := r.authorize(e.Cluster, req.Header); err != nil {
		return nil, err
	}
	s := &Signals{At: r.opt.Now(), inFlight: e.inFlight.Load()}
	resp, err := r.opt.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end or given up
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics answered %d", resp.StatusCode)
	}
	page, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	if err != nil {
		return nil, err
	}
	if len(page) > maxPage {
		return nil, fmt.Errorf("metrics are more than %d bytes", maxPage)
	}
	return s.fill(read(page)), nil
}

func (r *Registry) authorize(c *Cluster, h http.Header) error {
	if r.opt.Authorize == nil {
		return nil
	}
	if err := r.opt.Authorize(c.Spec(), h); err != nil {
		return fmt.Errorf("authorize towards %s: %w", c.ID, err)
	}
	return nil
}

// fill turns a reading into signals. A gateway's means are turned into sums, but without a ready
// endpoint they are frozen at what they were last, and worth nothing; a saturation of exactly 1 may
// mean that the pool is empty or its signals old, so it counts only with a queue beside it.
func (s *Signals) fill(r reading) *Signals {
	s.Ready, s.Saturation, s.tokens = -1, -1, -1
	s.Waiting, s.Running, s.KV = r.sums[waiting], r.sums[running], min(r.sums[kvUsage], 1)
	s.MaxLoRA, s.Adapters = r.maxLoRA, r.adapters
	if r.found[tokensOut] {
		s.tokens = r.sums[tokensOut]
	}
	if !r.found[poolReady] && !r.found[poolWaiting] {
		return s
	}
	servers := 1.0
	if r.found[poolReady] {
		s.Ready = int(min(r.sums[poolReady], 1e6))
		servers = float64(s.Ready)
	}
	s.Waiting, s.Running = r.sums[poolWaiting]*servers, r.sums[poolRunning]*servers
	s.KV = min(r.sums[poolKV], 1)
	if v := r.sums[poolSaturation]; r.found[poolSaturation] && (v != 1 || s.Waiting > 0) {
		s.Saturation = v
	}
	return s
}

// seen takes in new signals. Tokens that were generated since the last ones are progress.
func (e *Endpoint) seen(s *Signals) {
	if old := e.signals.Swap(s); old != nil && s.tokens > old.tokens {
		e.flows(s.At)
	}
	e.empty.Store(s.Ready == 0)
}

// unseen notes that a scrape didn't work. That a pool was empty counts on for as long as stale
// signals count.
func (e *Endpoint) unseen(now time.Time) {
	if e.signals.Load().Freshness(now) == pick.Absent {
		e.empty.Store(false)
	}
}

// stuck says whether requests are there and nothing has come of any for half the time that
// silence is given: time to look with a canary.
func (e *Endpoint) stuck(now time.Time) bool {
	return e.silent(now) >= e.floor()/2
}

// silent is for how long requests have been there with nothing to show; 0 if there are none.
func (e *Endpoint) silent(now time.Time) time.Duration {
	if e.inFlight.Load() == 0 {
		return 0
	}
	return now.Sub(time.Unix(0, e.progress.Load()))
}

// floor is the silence that is never judged sooner.
func (e *Endpoint) floor() time.Duration { return e.Cluster.class.Load().FirstByteFloor }
