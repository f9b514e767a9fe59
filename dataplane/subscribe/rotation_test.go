package subscribe

import (
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// A stream begun later trusts whom the router trusts by then; one that is open goes on.
func TestTheAuthorityOfNodesMayChangeWhileTheRouterRuns(t *testing.T) {
	old, trustOld := selfSigned(t)
	next, trustNext := selfSigned(t)
	var shown atomic.Pointer[tls.Certificate]
	shown.Store(&old)
	n := serve(t, &node{}, grpc.Creds(credentials.NewTLS(&tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return shown.Load(), nil },
	})))
	var trusted atomic.Pointer[x509.CertPool]
	trusted.Store(trustOld)
	var asked atomic.Int32
	f := client(t, t.TempDir(), n.address)
	f.o.TLS = func() *tls.Config {
		asked.Add(1)
		return &tls.Config{RootCAs: trusted.Load(), ServerName: "127.0.0.1"}
	}
	f.start(t)
	n.next(t, isHello)
	f.push(t, n, pushed(1, 1, 3))
	shown.Store(&next)
	trusted.Store(trustNext)
	f.push(t, n, pushed(1, 1, 4))
	if asked.Load() != 1 {
		t.Errorf("the open stream was begun %d times", asked.Load())
	}
	n.push <- nil // the node ends the stream
	n.next(t, isHello)
	f.push(t, n, pushed(1, 1, 5))
	if f.revision() != 5 || asked.Load() < 2 {
		t.Errorf("holds %d after %d streams", f.revision(), asked.Load())
	}
}
