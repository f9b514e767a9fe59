package bearer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"anabranch/dataplane/table"
)

const (
	// Fresh is how long a key set is not asked for again, a fifth more or less by random.
	Fresh = 10 * time.Minute
	// Retry is the pause after a failure, and the least between two looks for a key that is missing.
	Retry = 10 * time.Second
	// fetchTimeout bounds one look; maxBody what it reads; atOnce how many there are side by side.
	fetchTimeout = 5 * time.Second
	maxBody      = 256 << 10
	atOnce       = 4
	// maxKeys is how many keys of a set are used, the first: a token that names none is tried with all.
	maxKeys = 64
)

// KeysOptions says how key sets are fetched.
type KeysOptions struct {
	// Transport; nil: one of its own, with the system's authorities.
	Transport http.RoundTripper
	// Now; nil: time.Now.
	Now func() time.Time
	// Registerer of the metrics; nil: none.
	Registerer prometheus.Registerer
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Keys holds the public keys of issuers, by URL. A set that was fetched once stays until a newer one is:
// an issuer that is away makes no client a stranger. Not kept on disk: after a start in which the issuer
// is away its tokens are refused.
type Keys struct {
	o       KeysOptions
	client  *http.Client
	sets    atomic.Pointer[map[string]*jose.JSONWebKeySet] // replaced, never written to
	version atomic.Uint64                                  // rises with every change of sets
	look    chan struct{}                                  // one slot: something may be due

	mu     sync.Mutex // guards wanted
	wanted map[string]*source

	fetches *prometheus.CounterVec
	age     *prometheus.GaugeVec
}

// source is one URL.
type source struct {
	due     time.Time
	fetched time.Time // the last that succeeded; zero: none
	tried   time.Time
}

// NewKeys makes an empty holder.
func NewKeys(o KeysOptions) (*Keys, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	transport := o.Transport
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: fetchTimeout}
	}
	k := &Keys{
		o: o, look: make(chan struct{}, 1), wanted: map[string]*source{},
		client: &http.Client{Transport: transport, Timeout: fetchTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("it redirects: give the address itself")
		}},
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "anabranch_router_jwks_fetches_total", Help: "Looks for the public keys of token issuers, by outcome.",
		}, []string{"outcome"}),
		age: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "anabranch_router_jwks_fetched_timestamp_seconds", Help: "When an issuer's public keys were fetched last; 0: never.",
		}, []string{"url"}),
	}
	k.sets.Store(&map[string]*jose.JSONWebKeySet{})
	if o.Registerer != nil {
		for _, c := range []prometheus.Collector{k.fetches, k.age} {
			if err := o.Registerer.Register(c); err != nil {
				return nil, fmt.Errorf("register metrics of token keys: %w", err)
			}
		}
	}
	return k, nil
}

// at is the set behind a URL; nil: not fetched yet.
func (k *Keys) at(url string) *jose.JSONWebKeySet { return (*k.sets.Load())[url] }

// Sync sets which sets are wanted: those that a table names.
func (k *Keys) Sync(t *table.Table) {
	urls := t.KeysURLs()
	k.mu.Lock()
	defer k.mu.Unlock()
	keep := map[string]bool{}
	for _, u := range urls {
		keep[u] = true
		if k.wanted[u] == nil {
			k.wanted[u] = &source{}
			k.age.WithLabelValues(u).Set(0)
		}
	}
	for u := range k.wanted {
		if !keep[u] {
			delete(k.wanted, u)
			k.age.DeleteLabelValues(u)
			k.put(u, nil)
		}
	}
	k.nudge()
}

// missed is told that the key of a token of some rules' issuer is not known: the issuer may have a new one.
func (k *Keys) missed(rules []*table.TokenRule) {
	now := k.o.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	due := false
	for _, r := range rules {
		if s := k.wanted[r.KeysURL]; s != nil && now.Sub(s.tried) >= Retry {
			s.due, due = now, true
		}
	}
	if due {
		k.nudge()
	}
}

func (k *Keys) nudge() {
	select {
	case k.look <- struct{}{}:
	default:
	}
}

// Run fetches what is due until ctx ends.
func (k *Keys) Run(ctx context.Context) error {
	defer k.client.CloseIdleConnections()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		k.fetchDue(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.look:
		case <-tick.C:
		}
	}
}

func (k *Keys) fetchDue(ctx context.Context) {
	now := k.o.Now()
	var due []string
	k.mu.Lock()
	for u, s := range k.wanted {
		if !s.due.After(now) {
			due = append(due, u)
			s.tried, s.due = now, now.Add(Retry)
		}
	}
	k.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, u := range due {
		g.Go(func() error {
			k.refresh(ctx, u)
			return nil
		})
	}
	_ = g.Wait() // none of them gives an error
}

// refresh fetches one set. What is wrong with it is logged; the one before stays.
func (k *Keys) refresh(ctx context.Context, url string) {
	set, err := k.fetch(ctx, url)
	if err != nil {
		if ctx.Err() == nil {
			k.fetches.WithLabelValues("failed").Inc()
			k.o.Logger.Warn("keys of a token issuer not fetched", "url", url, "error", err)
		}
		return
	}
	k.fetches.WithLabelValues("fetched").Inc()
	now := k.o.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.wanted[url]
	if s == nil {
		return // not wanted any more
	}
	s.fetched, s.due = now, now.Add(time.Duration(float64(Fresh)*(0.8+0.4*rand.Float64())))
	k.age.WithLabelValues(url).Set(float64(now.Unix()))
	k.put(url, set)
}

// put changes the sets; nil takes one away. mu is held.
func (k *Keys) put(url string, set *jose.JSONWebKeySet) {
	next := map[string]*jose.JSONWebKeySet{}
	for u, s := range *k.sets.Load() {
		next[u] = s
	}
	next[url] = set
	if set == nil {
		delete(next, url)
	}
	k.sets.Store(&next)
	k.version.Add(1)
}

func (k *Keys) fetch(ctx context.Context, url string) (*jose.JSONWebKeySet, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Accept", "application/jwk-set+json, application/json")
	a, err := k.client.Do(q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.Body.Close() }()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %d", a.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(a.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read key set: %w", err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("the key set is longer than %d bytes", maxBody)
	}
	return parse(body)
}

// parse reads a key set, leaving out what checks no signatures and kinds of keys that are not known.
func parse(body []byte) (*jose.JSONWebKeySet, error) {
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, errors.New("it is no JSON Web Key Set")
	}
	set := &jose.JSONWebKeySet{}
	for _, r := range raw.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(r, &key) == nil && key.Valid() && key.IsPublic() && len(set.Keys) < maxKeys {
			set.Keys = append(set.Keys, key)
		}
	}
	if len(set.Keys) == 0 {
		return nil, errors.New("it holds no public key that is known")
	}
	return set, nil
}
