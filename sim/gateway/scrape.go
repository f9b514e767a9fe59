package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// maxPage bounds what is read of a pod's metrics.
const maxPage = 4 << 20

// scrape watches one pod until ctx ends.
func (g *Gateway) scrape(ctx context.Context, m *member) {
	tick := time.NewTicker(g.opts.ScrapeEvery)
	defer tick.Stop()
	for {
		s, err := g.read(ctx, m)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			g.pool.miss(m, errors.Is(err, syscall.ECONNREFUSED))
		default:
			g.pool.observe(m, s)
		}
		g.firstScrape.done(m.ID)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (g *Gateway) read(ctx context.Context, m *member) (signals, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opts.ScrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.URL+"/metrics", http.NoBody)
	if err != nil {
		return signals{}, fmt.Errorf("scrape %s: %w", m.ID, err)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return signals{}, fmt.Errorf("scrape %s: %w", m.ID, err)
	}
	defer func() { _ = resp.Body.Close() }() // everything wanted has been read
	if resp.StatusCode != http.StatusOK {
		return signals{}, fmt.Errorf("scrape %s: status %d", m.ID, resp.StatusCode)
	}
	return parse(io.LimitReader(resp.Body, maxPage))
}

// parse reads vLLM's gauges from a metrics page, summed over engines; of the KV usage it takes
// the fullest.
func parse(page io.Reader) (signals, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		return signals{}, fmt.Errorf("parse metrics: %w", err)
	}
	var s signals
	for name, take := range map[string]func(float64){
		"vllm:num_requests_waiting": func(v float64) { s.waiting += v },
		"vllm:num_requests_running": func(v float64) { s.running += v },
		"vllm:kv_cache_usage_perc":  func(v float64) { s.kvUsage = max(s.kvUsage, v) },
	} {
		family, ok := families[name]
		if !ok {
			return signals{}, fmt.Errorf("parse metrics: no %s", name)
		}
		for _, metric := range family.GetMetric() {
			take(metric.GetGauge().GetValue())
		}
	}
	return s, nil
}
