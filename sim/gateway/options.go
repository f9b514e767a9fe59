// Package gateway is a small tier-1 gateway: it stands in front of the model servers of one
// cluster, picks the pod with the least waiting and running requests, and relays answers byte for
// byte. It behaves as endpoint pickers of the Gateway API Inference Extension do where a router
// above can tell: 503 when no pod is ready, 429 with a reason when the pool is saturated, and
// pool metrics named llm_d_epp_…, with their habit of freezing when no pod is ready.
package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"anabranch/api/fleet"
)

// Options of a gateway. Name, Endpoints and Listen are required.
type Options struct {
	// Name is the pool's name in metrics.
	Name string
	// Endpoints are the pods.
	Endpoints []Endpoint
	// Listen is the address for requests, Metrics that of the pool metrics. Port 0 takes a free
	// one. Metrics empty: none.
	Listen, Metrics string
	// Token must be sent as bearer to read the metrics. Empty: anybody may.
	Token string
	// Models bounds the label values of metrics; other names are counted as "unknown". Empty:
	// the first 64 names seen.
	Models []fleet.ModelID
	// ScrapeEvery is the pause between scrapes of a pod. 0: 200 ms. Endpoint pickers scrape each
	// 50 ms; this leaves the CPU to others on one machine.
	ScrapeEvery time.Duration
	// ScrapeTimeout bounds one scrape. 0: 1 s.
	ScrapeTimeout time.Duration
	// RefreshEvery is the pause between updates of the pool metrics. 0: 5 s, as in llm-d.
	RefreshEvery time.Duration
	// QueueThreshold and KVThreshold are where a pod counts as saturated. 0: 5 waiting requests
	// and 0.8, as in llm-d.
	QueueThreshold, KVThreshold float64
	// MaxSaturation is where every request is refused. 0: 2. Sheddable ones are refused from 1.
	MaxSaturation float64
	// Sheddable lists the objectives with a negative priority. Nil: "batch".
	Sheddable []string
	// Logger may be nil: nothing is logged.
	Logger *slog.Logger
}

// Endpoint is one pod.
type Endpoint struct {
	ID fleet.EndpointID
	// URL is "http://host:port".
	URL string
}

func (o Options) withDefaults() Options {
	if o.ScrapeEvery <= 0 {
		o.ScrapeEvery = 200 * time.Millisecond
	}
	if o.ScrapeTimeout <= 0 {
		o.ScrapeTimeout = time.Second
	}
	if o.RefreshEvery <= 0 {
		o.RefreshEvery = 5 * time.Second
	}
	if o.QueueThreshold <= 0 {
		o.QueueThreshold = 5
	}
	if o.KVThreshold <= 0 {
		o.KVThreshold = 0.8
	}
	if o.MaxSaturation <= 0 {
		o.MaxSaturation = 2
	}
	if o.Sheddable == nil {
		o.Sheddable = []string{"batch"}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate names the first option that cannot work, and what would.
func (o Options) Validate() error {
	if err := fleet.CheckName(o.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if o.Listen == "" {
		return errors.New("listen: is empty; 127.0.0.1:0 takes a free port")
	}
	if len(o.Endpoints) == 0 {
		return errors.New("endpoints: name at least one")
	}
	seen := map[fleet.EndpointID]bool{}
	for i, e := range o.Endpoints {
		if err := fleet.CheckName(string(e.ID)); err != nil {
			return fmt.Errorf("endpoints[%d].id: %w", i, err)
		}
		if seen[e.ID] {
			return fmt.Errorf("endpoints[%d].id: %q is there twice", i, e.ID)
		}
		seen[e.ID] = true
		u, err := url.Parse(e.URL)
		if err != nil || u.Scheme != "http" || u.Host == "" {
			return fmt.Errorf("endpoints[%d].url: %q is not http://host:port", i, e.URL)
		}
	}
	return nil
}
