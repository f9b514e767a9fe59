package instance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/credential"
	"anabranch/api/fleet"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/table"
	"anabranch/ratelimit/redisbucket"
)

// rereadEvery is how often files and variables with secrets of quota stores are looked at again.
const rereadEvery = 30 * time.Second

// stores are the quota stores that this router reaches: its own, and those of regions that are homes of
// organisations by the table in force. It is safe for concurrent use.
type stores struct {
	own    admit.Store         // of the empty home
	redis  *redisbucket.Lender // own, if that is a Redis
	region fleet.RegionID
	clocks *clocks
	// secrets reads passwords.
	secrets *credential.Store
	log     *slog.Logger

	homes atomic.Pointer[map[fleet.RegionID]*home]
	table atomic.Pointer[table.Table]
	bell  chan struct{}
	mu    sync.Mutex // held while homes are made anew
	gone  []*home    // to be closed; guarded by mu
}

// home is a connected store and what it was made from.
type home struct {
	lender *redisbucket.Lender // nil: it could not be made
	spec   table.QuotaStore
	budget time.Duration
	secret string
	stop   func() // its probes; nil: they do not run
}

func newStores(region fleet.RegionID, own admit.Store, c *clocks, secrets *credential.Store, log *slog.Logger) *stores {
	s := &stores{own: own, region: region, clocks: c, secrets: secrets, log: log, bell: make(chan struct{}, 1)}
	s.redis, _ = own.(*redisbucket.Lender)
	s.homes.Store(&map[fleet.RegionID]*home{})
	return s
}

// Of implements [admit.Stores].
func (s *stores) Of(region fleet.RegionID) admit.Store {
	if region == "" {
		return s.own
	}
	if h := (*s.homes.Load())[region]; h != nil && h.lender != nil {
		return h.lender
	}
	return nil
}

// sync takes in the stores of a table. It connects to nothing yet.
func (s *stores) sync(t *table.Table) {
	s.table.Store(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := *s.homes.Load()
	now := make(map[fleet.RegionID]*home, len(before))
	for id, r := range t.Regions {
		if r.QuotaStore == nil {
			continue
		}
		// A store that is far has as much more time, which no request waits for.
		now[id] = s.connect(id, r.QuotaStore, redisbucket.DefaultBudget+2*t.RTT(s.region, id), before[id])
	}
	s.homes.Store(&now)
	for id, h := range before {
		if now[id] != h {
			s.gone = append(s.gone, h)
		}
	}
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// connect makes a store, or takes the one that there is if that is the same.
func (s *stores) connect(id fleet.RegionID, spec *table.QuotaStore, budget time.Duration, before *home) *home {
	h := &home{spec: *spec, budget: budget}
	var err error
	if h.secret, err = s.secret(spec); err == nil {
		if before != nil && before.lender != nil && before.same(h) {
			return before
		}
		var conf *tls.Config
		if spec.TLS {
			conf, err = towards(spec.CAFile, spec.CertFile, spec.KeyFile)
		}
		if err == nil {
			h.lender, err = redisbucket.NewLender(redisbucket.LenderOptions{
				Addrs: spec.Addresses, Master: spec.Master, Cluster: spec.Cluster, Username: spec.Username, Password: h.secret,
				TLS: conf, Budget: budget, Logger: s.log.With("home", id), Stepped: s.clocks.of(id),
			})
		}
	}
	if err != nil {
		s.log.Error("a region's quota store can't be used, its organisations' limits are kept by their degraded policy",
			"region", id, "error", err)
		if before != nil && before.lender == nil {
			return before
		}
	}
	return h
}

// same says whether the other would be connected to in the same way.
func (h *home) same(other *home) bool {
	a, b := h.spec, other.spec
	same := slices.Equal(a.Addresses, b.Addresses) && a.Master == b.Master && a.Cluster == b.Cluster && a.Username == b.Username &&
		a.TLS == b.TLS && a.CAFile == b.CAFile && a.CertFile == b.CertFile && a.KeyFile == b.KeyFile
	return same && h.budget == other.budget && h.secret == other.secret
}

// run runs the probes of all stores until ctx ends. Stop who uses them first.
func (s *stores) run(ctx context.Context) error {
	var probes sync.WaitGroup
	defer probes.Wait()
	if s.redis != nil {
		probes.Go(func() { _ = s.redis.Run(ctx) }) // it ends with ctx alone
	}
	again := time.NewTicker(rereadEvery)
	defer again.Stop()
	for {
		if err := s.attend(ctx, &probes); err != nil {
			s.log.Warn("a quota store that is no longer needed was not closed well", "error", err)
		}
		select {
		case <-s.bell:
		case <-again.C:
			if t := s.table.Load(); t != nil {
				s.sync(t)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// attend has the probes of new stores run, and closes stores that are no longer needed.
func (s *stores) attend(ctx context.Context, probes *sync.WaitGroup) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range *s.homes.Load() {
		if h.lender != nil && h.stop == nil {
			probing, stop := context.WithCancel(ctx)
			h.stop = stop
			probes.Go(func() { _ = h.lender.Run(probing) }) // it ends with its context alone
		}
	}
	gone := s.gone
	s.gone = nil
	return closeAll(gone)
}

// close closes all stores.
func (s *stores) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.gone
	for _, h := range *s.homes.Load() {
		all = append(all, h)
	}
	s.gone = nil
	s.homes.Store(&map[fleet.RegionID]*home{})
	err := closeAll(all)
	if s.redis != nil {
		err = errors.Join(err, s.redis.Close())
	}
	return err
}

func closeAll(all []*home) error {
	var problems []error
	for _, h := range all {
		if h.stop != nil {
			h.stop()
		}
		if h.lender != nil {
			problems = append(problems, h.lender.Close())
		}
	}
	return errors.Join(problems...)
}

// secret is a store's password. Its errors don't tell it. Who writes regions names it and where it is sent, so
// that it is bound to --secrets-dir as the credentials of clusters are.
func (s *stores) secret(spec *table.QuotaStore) (string, error) {
	if spec.PasswordFile == "" && spec.PasswordEnv == "" {
		return "", nil
	}
	return s.secrets.Secret(spec.PasswordFile, spec.PasswordEnv)
}

// password reads a file that holds one.
func password(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}

// towards are the settings of connections to a store, by the files of authorities to believe (empty: the
// system's) and of a certificate to show with its key (empty: none).
func towards(ca, cert, key string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificates in PEM", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}
