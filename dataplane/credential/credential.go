// Package credential is how a router proves itself to the clusters that it sends to. The table says
// where on this machine a secret is found, in a file or a variable, and never the secret; this
// package reads it, notices when it changes, and adds what the cluster wants to see: a bearer token,
// a client certificate, or an AWS signature. Secrets stay in memory and appear in no log or error.
package credential

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// lookEvery is how often the files of a credential in use are looked at: one stat each.
const lookEvery = time.Second

// Options of a [Store]. The zero value is useful.
type Options struct {
	// Dir is the folder below which all files must lie, symbolic links followed; paths that are not
	// absolute start there. Empty: files may lie anywhere, which trusts whoever may write clusters
	// with every file that the router can read.
	Dir string
	// Now tells the time. Nil: the clock.
	Now func() time.Time
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Store keeps the credentials in use. It is safe for concurrent use; make it with [New].
type Store struct {
	dir string
	now func() time.Time
	log *slog.Logger

	slots atomic.Pointer[map[table.Credential]*slot]

	mu     sync.Mutex      // guards what follows and the swaps of slots
	warned map[string]bool // files that others may read, by path
}

// slot is one credential as the table describes it, and what was read for it.
type slot struct {
	spec    table.Credential
	looked  atomic.Int64 // when its files were last looked at, in ns since 1970
	loading sync.Mutex   // one reads at a time
	held    atomic.Pointer[loaded]
}

// loaded is the outcome of reading a credential.
type loaded struct {
	credential *Credential // nil: there never was a good one
	files      []stamp
	settled    bool  // the files were older than what their times can tell apart
	err        error // of the last reading
}

// Credential is what one cluster wants to see. It is immutable; a nil Credential wants nothing.
type Credential struct {
	bearer    string // value of Authorization; empty: none
	transport *http.Transport
	signer    *signer
	now       func() time.Time
	digest    [sha256.Size]byte // of what it was read from
}

// same says whether both were read from the same; nil is like nothing.
func (c *Credential) same(o *Credential) bool { return c != nil && o != nil && c.digest == o.digest }

// New makes a store. It reads nothing yet.
func New(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Store{dir: o.Dir, now: o.Now, log: o.Logger.With("component", "credential"), warned: make(map[string]bool)}
	s.slots.Store(&map[table.Credential]*slot{})
	return s
}

// For is the credential towards a cluster: nil if it wants none. Its files are looked at no more
// than once a second and read again when they have changed; while a new content can't be used, the
// one before stays. The error names the file or variable.
func (s *Store) For(c *table.Cluster) (*Credential, error) {
	if c.Auth == nil {
		return nil, nil //nolint:nilnil // a nil Credential wants nothing, and all its methods work
	}
	at, ok := (*s.slots.Load())[*c.Auth]
	if !ok {
		at = s.add(*c.Auth)
	}
	now := s.now()
	held := at.held.Load()
	if last := at.looked.Load(); held == nil {
		held = s.first(at, now)
	} else if age := now.UnixNano() - last; (age >= int64(lookEvery) || age < 0) && at.looked.CompareAndSwap(last, now.UnixNano()) {
		held = s.look(at, now)
	}
	if held.credential == nil {
		return nil, fmt.Errorf("credential of cluster %s: %w", c.ID, held.err)
	}
	return held.credential, nil
}

// Sync reads what a table names, so that no request waits for it and what is missing is told at
// once, and forgets what no cluster of it names.
func (s *Store) Sync(t *table.Table) {
	wanted := make(map[table.Credential]fleet.ClusterID)
	for id, c := range t.Clusters {
		if c.Auth == nil {
			continue
		}
		wanted[*c.Auth] = id
		if _, err := s.For(c); err != nil {
			s.log.Warn("credential can't be read, nothing is sent there", "cluster", id, "error", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(map[table.Credential]*slot, len(wanted))
	for spec, at := range *s.slots.Load() {
		if _, ok := wanted[spec]; ok {
			kept[spec] = at
		} else {
			at.retire()
		}
	}
	s.slots.Store(&kept)
}

// Close drops idle connections. Requests under way go on, and their connections close after them.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range *s.slots.Load() {
		at.retire()
	}
}

// add makes room for a credential that was not seen before.
func (s *Store) add(spec table.Credential) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.slots.Load()
	if at, ok := old[spec]; ok {
		return at
	}
	at := &slot{spec: spec}
	grown := make(map[table.Credential]*slot, len(old)+1)
	for k, v := range old {
		grown[k] = v
	}
	grown[spec] = at
	s.slots.Store(&grown)
	return at
}

// first reads a credential that nobody has read; who comes meanwhile waits for it.
func (s *Store) first(at *slot, now time.Time) *loaded {
	at.loading.Lock()
	defer at.loading.Unlock()
	if held := at.held.Load(); held != nil {
		return held
	}
	held := s.load(&at.spec, now)
	at.looked.Store(now.UnixNano())
	at.held.Store(held)
	return held
}

// look reads again what has changed. A reading that takes long keeps nobody else waiting.
func (s *Store) look(at *slot, now time.Time) *loaded {
	if !at.loading.TryLock() {
		return at.held.Load()
	}
	defer at.loading.Unlock()
	old := at.held.Load()
	if old.err == nil && old.settled && s.unchanged(old.files) {
		return old
	}
	fresh := s.load(&at.spec, now)
	switch {
	case fresh.err == nil && old.credential.same(fresh.credential):
		fresh.credential = old.credential // read again, and it says the same
	case fresh.err == nil:
		s.log.Info("credential has changed", "type", at.spec.Type, "file", cmp.Or(at.spec.File, at.spec.CertFile))
		if old.credential != nil {
			old.credential.retire()
		}
	case old.credential != nil:
		if old.err == nil || old.err.Error() != fresh.err.Error() {
			s.log.Warn("credential can't be read again, the one before stays in use", "error", fresh.err)
		}
		fresh.credential = old.credential
	}
	at.held.Store(fresh)
	return fresh
}

func (at *slot) retire() {
	if held := at.held.Load(); held != nil && held.credential != nil {
		held.credential.retire()
	}
}

// Sign adds to a request what the cluster wants to see in it. It comes last: an AWS signature is
// over the request's method, URL, host, content type and body, so that none may change after it.
// Nothing is added for a client certificate, see [Credential.Transport].
func (c *Credential) Sign(r *http.Request, body []byte) error {
	switch {
	case c == nil:
	case c.bearer != "":
		r.Header.Set("Authorization", c.bearer)
	case c.signer != nil:
		return c.signer.sign(r, body, c.now())
	}
	return nil
}

// Transport has connections of its own that show the client certificate. Nil: the credential is of
// another type, and any transport will do.
func (c *Credential) Transport() http.RoundTripper {
	if c == nil || c.transport == nil {
		return nil
	}
	return c.transport
}
