package gateway

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"anabranch/api/fleet"
)

// Time-outs towards clients and pods. Answers have none of their own: a stream lasts as long as
// it does.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	dialTimeout   = time.Second
	writeTimeout  = 30 * time.Second
	stopTimeout   = 2 * time.Second
)

// Gateway is one tier-1 gateway.
type Gateway struct {
	opts        Options
	log         *slog.Logger
	pool        *pool
	metrics     *metrics
	client      *http.Client
	firstScrape *barrier

	mu         sync.Mutex // guards the listeners
	front, adm net.Listener
}

// New makes a gateway; it binds and starts nothing yet.
func New(opts Options) (*Gateway, error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("gateway options: %w", err)
	}
	g := &Gateway{
		opts: opts, log: opts.Logger.With("component", "gateway", "pool", opts.Name),
		pool:        &pool{queueThreshold: opts.QueueThreshold, kvThreshold: opts.KVThreshold},
		firstScrape: newBarrier(len(opts.Endpoints)),
		client: &http.Client{
			// A redirect is an answer like any other.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
				MaxIdleConnsPerHost: 64, IdleConnTimeout: idleTimeout, DisableCompression: true,
			},
		},
	}
	for _, e := range opts.Endpoints {
		u, err := url.Parse(e.URL)
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", e.ID, err)
		}
		g.pool.members = append(g.pool.members, &member{Endpoint: e, host: u.Host})
	}
	g.metrics = newMetrics(opts)
	return g, nil
}

// Listen binds the addresses, so that Addr and MetricsAddr are known; Run serves them. An error
// leaves nothing bound.
func (g *Gateway) Listen(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.front != nil {
		return nil
	}
	var lc net.ListenConfig
	front, err := lc.Listen(ctx, "tcp", g.opts.Listen)
	if err != nil {
		return fmt.Errorf("gateway %s: listen: %w", g.opts.Name, err)
	}
	if g.opts.Metrics != "" {
		g.adm, err = lc.Listen(ctx, "tcp", g.opts.Metrics)
		if err != nil {
			_ = front.Close() // the error below is the one that counts
			return fmt.Errorf("gateway %s: listen for metrics: %w", g.opts.Name, err)
		}
	}
	g.front = front
	return nil
}

// Addr is the host:port for requests, once Listen has returned.
func (g *Gateway) Addr() string { return g.address(func() net.Listener { return g.front }) }

// MetricsAddr is the host:port of the pool metrics, empty without one.
func (g *Gateway) MetricsAddr() string { return g.address(func() net.Listener { return g.adm }) }

func (g *Gateway) address(of func() net.Listener) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ln := of(); ln != nil {
		return ln.Addr().String()
	}
	return ""
}

// Run serves until ctx ends, calling Listen first if nobody has. Requests are answered from the
// first scrape of every pod on. It returns when every goroutine is gone.
func (g *Gateway) Run(ctx context.Context) error {
	if err := g.Listen(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	for _, m := range g.pool.members {
		running.Go(func() { g.scrape(ctx, m) })
	}
	running.Go(func() { g.refresh(ctx) })
	servers := map[*http.Server]net.Listener{g.server(ctx, http.HandlerFunc(g.serve)): g.front}
	if g.adm != nil {
		servers[g.server(ctx, g.metricsHandler())] = g.adm
	}
	failed := make(chan error, len(servers))
	for srv, ln := range servers {
		running.Go(func() {
			if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("gateway %s: serve: %w", g.opts.Name, err)
			}
		})
	}
	g.log.Info("gateway is up", "address", g.Addr(), "metrics", g.MetricsAddr())
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		cancel()
	}
	stop, ended := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer ended()
	for srv := range servers {
		// Handlers see ctx end and return; what doesn't within the time is cut.
		if srv.Shutdown(stop) != nil {
			_ = srv.Close() // the last resort
		}
	}
	running.Wait()
	g.client.CloseIdleConnections()
	return err
}

func (g *Gateway) server(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
	}
}

// refresh brings the pool metrics up to date from time to time.
func (g *Gateway) refresh(ctx context.Context) {
	if g.firstScrape.wait(ctx) != nil {
		return
	}
	tick := time.NewTicker(g.opts.RefreshEvery)
	defer tick.Stop()
	for {
		g.metrics.refresh(g.pool.view())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (g *Gateway) metricsHandler() http.Handler {
	page := g.metrics.handler(g.pool)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		want := "Bearer " + g.opts.Token
		if g.opts.Token != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(want)) != 1 {
			http.Error(w, "the metrics need the bearer token", http.StatusUnauthorized)
			return
		}
		page.ServeHTTP(w, r)
	})
	return mux
}

// barrier opens when everybody has arrived once.
type barrier struct {
	mu      sync.Mutex // guards arrived
	arrived map[fleet.EndpointID]bool
	all     int
	open    chan struct{}
}

func newBarrier(all int) *barrier {
	return &barrier{arrived: map[fleet.EndpointID]bool{}, all: all, open: make(chan struct{})}
}

func (b *barrier) done(id fleet.EndpointID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.arrived[id] {
		return
	}
	b.arrived[id] = true
	if len(b.arrived) == b.all {
		close(b.open)
	}
}

func (b *barrier) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-b.open:
		return nil
	}
}
