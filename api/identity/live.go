package identity

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Live is what stands in the [Files] of a party, for as long as it runs. The files may be replaced
// in place, by renaming, or by swapping a symbolic link above them; [Live.Check] looks. Handshakes
// that begin later have what it took; connections that are open stay as they are. It is safe for
// concurrent use. Make it with [Open].
type Live struct {
	files Files
	held  atomic.Pointer[material]

	mu   sync.Mutex // guards seen
	seen [sha256.Size]byte
}

// Open reads the files. A certificate that has ended, or is none of ours, is taken, so that a party
// can start and be given a better one.
func Open(f Files) (*Live, error) {
	t, err := f.read()
	if err != nil {
		return nil, err
	}
	m, err := t.parse(f, time.Now())
	if err != nil {
		return nil, err
	}
	l := &Live{files: f}
	l.held.Store(m)
	return l, nil
}

// Verdict is what a look at the files found.
type Verdict int

// The verdicts. Current is that what stands in the files is in force; Changing, that they were other
// at the last look, so that the next will judge them; Renewed, that what is new in them was taken;
// Refused, that it is not fit to be.
const (
	Current Verdict = iota
	Changing
	Renewed
	Refused
)

// Check looks at the files, at now. What is new in them is judged when it was the same at the last
// look, so that files that are being written are left in peace; call it each second or so. It is
// Refused, with the reason as error, and what was held stays in force, if a file can't be read or is
// cut off, the key is another certificate's, the certificate has ended or not begun, names somebody
// else than the one before or nobody, or is of none of the authorities though the one before was.
// A look that refuses is repeated by the next.
func (l *Live) Check(now time.Time) (Verdict, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, err := l.files.read()
	sum := t.sum()
	if err != nil {
		sum = sha256.Sum256([]byte(err.Error()))
	}
	before := l.held.Load()
	settled := sum == l.seen
	l.seen = sum
	switch {
	case err == nil && sum == before.sum:
		return Current, nil
	case !settled:
		return Changing, nil
	case err != nil:
		return Refused, err
	}
	m, err := t.parse(l.files, now)
	if err != nil {
		return Refused, err
	}
	if err := m.follows(before, now); err != nil {
		return Refused, fmt.Errorf("load certificate %s: %w", l.files.Cert, err)
	}
	l.held.Store(m)
	return Renewed, nil
}

// Files are where it comes from.
func (l *Live) Files() Files { return l.files }

// Ends is when the certificate in force ends.
func (l *Live) Ends() time.Time { return l.held.Load().pair.Leaf.NotAfter }

// AuthorityEnds is when the first of the authorities ends that have not at now; if all have, when
// the last did. Zero: there are none.
func (l *Live) AuthorityEnds(now time.Time) time.Time {
	var next, last time.Time
	for _, a := range l.held.Load().authorities {
		end := a.NotAfter
		if end.After(last) {
			last = end
		}
		if !end.Before(now) && (next.IsZero() || end.Before(next)) {
			next = end
		}
	}
	if next.IsZero() {
		return last
	}
	return next
}

// Config is for mutual TLS in handshakes that begin now, at either end: it takes only peers of the
// kinds named, which must show a certificate of one of the authorities. Who dials sets ServerName,
// which is verified too, as always. TLS 1.3 only, and without sessions that are resumed: the
// authorities of today judge every connection. Without any it takes nobody.
func (l *Live) Config(accept ...Kind) *tls.Config {
	m := l.held.Load()
	trusted := m.pool
	if trusted == nil { // which crypto/tls would take for the system's
		trusted = x509.NewCertPool()
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{m.pair},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: trusted, RootCAs: trusted,
		SessionTicketsDisabled: true,
		VerifyConnection:       func(state tls.ConnectionState) error { return check(state, accept) },
	}
}

// Server is for a listener of HTTP or gRPC, for good: each handshake has the [Live.Config] of its time.
func (l *Live) Server(accept ...Kind) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := l.Config(accept...)
			c.NextProtos = []string{"h2", "http/1.1"} // what net/http adds does not reach a config made here
			return c, nil
		},
	}
}

// Mutual is for a listener of others than our own parts, for good: it takes who shows a certificate of
// one of the authorities, whatever it is for. TLS 1.2 or newer, which is as much as some clients offer.
// Without authorities it takes nobody.
func (l *Live) Mutual() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := l.Config()
			c.MinVersion, c.VerifyConnection = tls.VersionTLS12, nil
			c.NextProtos = []string{"h2"}
			return c, nil
		},
	}
}

// Client is for parts that dial: they ask it for the [Live.Config] of each handshake.
func (l *Live) Client(accept ...Kind) func() *tls.Config {
	return func() *tls.Config { return l.Config(accept...) }
}

// Front is for a listener that asks nobody for a certificate, for good. TLS 1.2 or newer.
func (l *Live) Front() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &l.held.Load().pair, nil },
	}
}
