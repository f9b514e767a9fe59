// Package credential is how a router or a node of the control plane proves itself to the clusters that
// it asks. Who configures a cluster says where on this machine a secret is found, in a file or a
// variable, and never the secret; this package reads it, notices when it changes, and adds what the
// cluster wants to see: a bearer token, a client certificate, or an AWS signature. Secrets stay in
// memory and appear in no log or error.
package credential

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"anabranch/api/fleet"
)

// lookEvery is how often the files of a credential in use are looked at: one stat each.
const lookEvery = time.Second

// Options of a [Store]. The zero value is useful.
type Options struct {
	// Dir is the folder below which all files must lie, symbolic links followed; paths that are not
	// absolute start there. Empty: files may lie anywhere, which trusts whoever may write clusters
	// with every file that this process can read.
	Dir string
	// Variable says which variables may be read. Nil: all, which trusts the same people with them.
	Variable func(name string) bool
	// Control has a word in connections that show a certificate before they are made, see
	// [net.Dialer]. Nil: it has none.
	Control func(network, address string, c syscall.RawConn) error
	// Now tells the time. Nil: the clock.
	Now func() time.Time
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Types of [Spec].
const (
	Bearer = "bearer" // a token in Authorization
	MTLS   = "mtls"   // a client certificate
	SigV4  = "sigv4"  // AWS Signature Version 4
)

// Spec says where a secret is found, never the secret.
type Spec struct {
	// Type is [Bearer], [MTLS] or [SigV4].
	Type string
	// File and Env of bearer and sigv4, exactly one is set: the path of the token or of an AWS
	// credentials file; the variable with the token, or the prefix of the three that AWS's tools read
	// ("AWS": AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN).
	File string
	Env  string
	// CertFile and KeyFile of mtls; CAFile may be empty: the system's authorities.
	CertFile, KeyFile, CAFile string
	// Region and Service of sigv4; Profile is the section of File, empty: default.
	Region, Service, Profile string
}

// Store keeps the credentials in use. It is safe for concurrent use; make it with [New].
type Store struct {
	dir      string
	variable func(name string) bool
	control  func(network, address string, c syscall.RawConn) error
	now      func() time.Time
	log      *slog.Logger

	slots atomic.Pointer[map[Spec]*slot]

	mu     sync.Mutex      // guards what follows and the swaps of slots
	warned map[string]bool // files that others may read, by path
}

// slot is one credential as it is described, and what was read for it.
type slot struct {
	spec    Spec
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
	s := &Store{dir: o.Dir, variable: o.Variable, control: o.Control, now: o.Now, log: o.Logger.With("component", "credential"), warned: make(map[string]bool)}
	s.slots.Store(&map[Spec]*slot{})
	return s
}

// For is the credential towards a cluster that is described so: nil if it wants none, as a nil spec says. Its files are looked at no more
// than once a second and read again when they have changed; while a new content can't be used, the
// one before stays. The error names the file or variable.
func (s *Store) For(cluster fleet.ClusterID, spec *Spec) (*Credential, error) {
	if spec == nil {
		return nil, nil //nolint:nilnil // a nil Credential wants nothing, and all its methods work
	}
	at, ok := (*s.slots.Load())[*spec]
	if !ok {
		at = s.add(*spec)
	}
	now := s.now()
	held := at.held.Load()
	if last := at.looked.Load(); held == nil {
		held = s.first(at, now)
	} else if age := now.UnixNano() - last; (age >= int64(lookEvery) || age < 0) && at.looked.CompareAndSwap(last, now.UnixNano()) {
		held = s.look(at, now)
	}
	if held.credential == nil {
		return nil, fmt.Errorf("credential of cluster %s: %w", cluster, held.err)
	}
	return held.credential, nil
}

// Sync reads what these clusters want, so that no request waits for it and what is missing is told at
// once, and forgets what none of them does. A nil Spec wants nothing.
func (s *Store) Sync(clusters map[fleet.ClusterID]*Spec) {
	wanted := make(map[Spec]bool)
	for id, spec := range clusters {
		if spec == nil {
			continue
		}
		wanted[*spec] = true
		if _, err := s.For(id, spec); err != nil {
			s.log.Warn("credential can't be read, nothing is sent there", "cluster", id, "error", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(map[Spec]*slot, len(wanted))
	for spec, at := range *s.slots.Load() {
		if wanted[spec] {
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
func (s *Store) add(spec Spec) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.slots.Load()
	if at, ok := old[spec]; ok {
		return at
	}
	at := &slot{spec: spec}
	grown := make(map[Spec]*slot, len(old)+1)
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
