package subscribe

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// selfSigned is a certificate for 127.0.0.1 that is its own authority.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestTheNodesCertificateIsVerified(t *testing.T) {
	cert, pool := selfSigned(t)
	_, stranger := selfSigned(t)
	n := serve(t, &node{}, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}})))

	wrong := client(t, t.TempDir(), n.address)
	wrong.o.TLS = func() *tls.Config { return &tls.Config{RootCAs: stranger} }
	wrong.start(t)
	right := client(t, t.TempDir(), n.address)
	right.o.TLS = func() *tls.Config { return &tls.Config{RootCAs: pool} }
	right.start(t)
	right.push(t, n, pushed(1, 1, 3))
	if right.revision() != 3 {
		t.Errorf("holds %d", right.revision())
	}
	if s := wrong.Status(); s.Connected || !s.LastContact.IsZero() {
		t.Errorf("a node of a strange authority was believed: %+v", s)
	}
}

// A node that greets and then says nothing for longer than three pings is left, and the status
// says so until the next is found.
func TestANodeThatFallsSilentIsLeft(t *testing.T) {
	n := serve(t, &node{})
	f := client(t, t.TempDir(), n.address)
	f.o.Silence = 50 * time.Millisecond
	f.start(t)
	for range 3 { // it comes back each time
		n.next(t, isHello)
	}
}

func TestTheStatusFollowsTheStream(t *testing.T) {
	n := serve(t, &node{})
	f := client(t, t.TempDir(), n.address)
	f.o.BackoffMin, f.o.BackoffMax = time.Hour, time.Hour
	f.start(t)
	f.push(t, n, pushed(1, 1, 3))
	if s := f.Status(); !s.Connected || s.Address != n.address {
		t.Errorf("status %+v", s)
	}
	n.push <- nil // the node ends the stream
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for f.Status().Connected {
		select {
		case <-deadline:
			t.Fatal("the status says that it is connected")
		case <-tick.C:
		}
	}
	if s := f.Status(); s.LastContact.IsZero() || s.Node != "" {
		t.Errorf("status %+v", s)
	}
	if f.revision() != 3 {
		t.Errorf("the table went with the stream: holds %d", f.revision())
	}
}

func TestWithoutAddressesItOnlyWaits(t *testing.T) {
	f := client(t, t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// Pushes that come faster than a router takes them are each judged in turn; the newest is in force
// at the end.
func TestABurstOfTablesEndsWithTheNewest(t *testing.T) {
	n := serve(t, &node{})
	f := client(t, t.TempDir(), n.address)
	f.start(t)
	order := []uint64{4, 2, 9, 9, 7, 12, 1}
	for i, revision := range order {
		ack := f.push(t, n, pushed(uint64(i+1), 1, revision))
		want := i == 0 || revision >= 4 && revision != 7
		if ack.GetOk() != want {
			t.Errorf("revision %d: answer %v, want ok %v", revision, ack, want)
		}
	}
	if f.revision() != 12 {
		t.Errorf("holds %d, want 12", f.revision())
	}
	if held := f.holder.Load().Proto().GetRef(); held.GetRevision() != 12 {
		t.Errorf("the table is %v", held)
	}
}

// A node behind a firewall may take connections and say nothing. Leaving does not wait for it.
func TestLeavingDoesNotWaitForANodeThatNeverAnswered(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := client(t, t.TempDir(), l.Addr().String())
	f.o.Silence = time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it waits")
	}
}
