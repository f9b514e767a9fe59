// Package rls is a second door to the tenants' quotas: Envoy's rate limit service, version 3, so that
// requests which other gateways carry count against the same limits as those that this router does.
// What descriptors say is put together into requests, which dataplane/admit judges; nothing is
// counted here. README.md says which descriptors there are and how Envoy is set up.
package rls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"

	"anabranch/dataplane/admit"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// Defaults of Options.
const (
	// DefaultDomain is the one that calls must name.
	DefaultDomain = "anabranch"
	// DefaultBudget is the longest that a call waits for the quota store. Envoy gives up a call after
	// 20 ms unless it is told otherwise, of which the way there and back takes a part.
	DefaultBudget = 12 * time.Millisecond
	// DefaultKeep is how long the end of a request is waited for: the longest that a request may
	// take, and half as much.
	DefaultKeep = 15 * time.Minute
	// DefaultMostOpen bounds the requests whose end is waited for.
	DefaultMostOpen = 1 << 16
	// DefaultMostAtOnce bounds the calls at the same time.
	DefaultMostAtOnce = 4096
)

// Quotas judges requests, as [admit.Admitter] does.
type Quotas interface {
	// Take charges a request to all of its limits or to none. It waits no longer than ctx lasts.
	Take(ctx context.Context, t *table.Table, q admit.Request) (*admit.Reservation, ratelimit.Decision)
	// Charge charges what a request used, whether or not it is there.
	Charge(t *table.Table, q admit.Request)
}

// Options of New.
type Options struct {
	// Tables has the table that calls are judged by. Required.
	Tables *table.Holder
	// Quotas judges them. Required.
	Quotas Quotas
	// Domains are those whose calls are judged; others are OK, and limited by nothing. Empty:
	// DefaultDomain.
	Domains []string
	// TLS of the listener. Nil: none.
	TLS *tls.Config
	// Budget bounds the wait of a call. 0: DefaultBudget.
	Budget time.Duration
	// Keep is how long the end of a request with an id is waited for. Then it is settled by what it
	// reserved. 0: DefaultKeep.
	Keep time.Duration
	// MostOpen bounds how many are waited for; beyond it the oldest is settled. 0: DefaultMostOpen.
	MostOpen int
	// MostAtOnce bounds the calls at the same time; others are told that the service is not available.
	// 0: DefaultMostAtOnce.
	MostAtOnce int
	// Registerer takes the metrics. Nil: none are kept.
	Registerer prometheus.Registerer
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Logger of what a person should know. Nil: none.
	Logger *slog.Logger
}

// Validate names the option that is wrong and the fix, or answers nil.
func (o Options) Validate() error {
	switch {
	case o.Tables == nil:
		return errors.New("rate limit service has no tables: give the router's holder")
	case o.Quotas == nil:
		return errors.New("rate limit service has no quotas: give the router's admitter")
	case slices.Contains(o.Domains, ""):
		return fmt.Errorf("rate limit domain is empty: leave all out for %s", DefaultDomain)
	case o.Budget < 0 || o.Keep < 0 || o.MostOpen < 0 || o.MostAtOnce < 0:
		return fmt.Errorf("rate limit service's budget %v, keep %v, most open %d and most at once %d must be 0, for the default, or more",
			o.Budget, o.Keep, o.MostOpen, o.MostAtOnce)
	}
	return nil
}

// Server answers Envoy. It is safe for concurrent use. Make it with [New]; [Server.Run] serves.
type Server struct {
	rlsv3.UnimplementedRateLimitServiceServer

	o       Options
	log     *slog.Logger
	open    *open
	metrics *metrics
	atOnce  atomic.Int64
}

// New makes a Server that does nothing yet.
func New(o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(o.Domains) == 0 {
		o.Domains = []string{DefaultDomain}
	}
	set(&o.Budget, DefaultBudget)
	set(&o.Keep, DefaultKeep)
	set(&o.MostOpen, DefaultMostOpen)
	set(&o.MostAtOnce, DefaultMostAtOnce)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, log: o.Logger.With(slog.String("component", "rls")), open: newOpen(o.Keep, o.MostOpen)}
	var err error
	s.metrics, err = newMetrics(o.Registerer, o.Domains, s.open)
	return s, err
}

func set[T comparable](to *T, standard T) {
	var none T
	if *to == none {
		*to = standard
	}
}
