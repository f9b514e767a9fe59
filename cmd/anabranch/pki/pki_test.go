package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func authority(t *testing.T, at time.Time) *Authority {
	t.Helper()
	a, err := NewAuthority(at)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func parse(t *testing.T, p Pair) *x509.Certificate {
	t.Helper()
	b, rest := pem.Decode(p.Cert)
	if b == nil || len(rest) != 0 {
		t.Fatalf("not one PEM block: %q", p.Cert)
	}
	c, err := x509.ParseCertificate(b.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLeavesNameTheirHolder(t *testing.T) {
	a := authority(t, now)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.Pair().Cert) {
		t.Fatal("authority is no PEM certificate")
	}
	node, err := a.Node("n1", now)
	if err != nil {
		t.Fatal(err)
	}
	router, err := a.Router("us-east-1", "us-east-1-r1", now)
	if err != nil {
		t.Fatal(err)
	}
	for want, p := range map[string]Pair{
		"anabranch://node/n1":                       node,
		"anabranch://router/us-east-1/us-east-1-r1": router,
	} {
		c := parse(t, p)
		if len(c.URIs) != 1 || c.URIs[0].String() != want {
			t.Errorf("URIs %v, want %s", c.URIs, want)
		}
		if k, ok := c.PublicKey.(*ecdsa.PublicKey); !ok || k.Curve != elliptic.P256() {
			t.Errorf("%s: key is %T, want ECDSA P-256", want, c.PublicKey)
		}
		for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
			for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
				_, err := c.Verify(x509.VerifyOptions{
					Roots: pool, DNSName: host, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use},
				})
				if err != nil {
					t.Errorf("%s at %s: %v", want, host, err)
				}
			}
		}
	}
}

func TestLeavesEndAndStrangersAreRefused(t *testing.T) {
	a, stranger := authority(t, now), authority(t, now)
	node, err := a.Node("n1", now)
	if err != nil {
		t.Fatal(err)
	}
	c := parse(t, node)
	for name, v := range map[string]struct {
		by *Authority
		at time.Time
		ok bool
	}{
		"now":                     {a, now, true},
		"a clock a little behind": {a, now.Add(-Skew), true},
		"too early":               {a, now.Add(-Skew - time.Second), false},
		"at its end":              {a, now.Add(LeafLife), true},
		"after its end":           {a, now.Add(LeafLife + time.Second), false},
		"another authority":       {stranger, now, false},
	} {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(v.by.Pair().Cert)
		_, err := c.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: v.at})
		if (err == nil) != v.ok {
			t.Errorf("%s: verify = %v, want ok %v", name, err, v.ok)
		}
	}
}

func TestLoadedAuthoritySignsTheSame(t *testing.T) {
	a := authority(t, now)
	b, err := LoadAuthority(a.Pair())
	if err != nil {
		t.Fatal(err)
	}
	if !b.Expires().Equal(now.Add(AuthorityLife)) {
		t.Errorf("expires %v", b.Expires())
	}
	p, err := b.Node("n2", now)
	if err != nil {
		t.Fatal(err)
	}
	if err := parse(t, p).CheckSignatureFrom(parse(t, a.Pair())); err != nil {
		t.Error(err)
	}
}

func TestLoadAuthorityRefusesOtherThings(t *testing.T) {
	a, b := authority(t, now), authority(t, now)
	leaf, err := a.Node("n1", now)
	if err != nil {
		t.Fatal(err)
	}
	for want, p := range map[string]Pair{
		"not PEM":          {Cert: []byte("x"), Key: a.Pair().Key},
		"belong together":  {Cert: a.Pair().Cert, Key: b.Pair().Key},
		"not of an author": leaf,
		"load authority":   {Cert: a.Pair().Key, Key: a.Pair().Key},
	} {
		if _, err := LoadAuthority(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("LoadAuthority = %v, want %q", err, want)
		}
	}
}

func TestMutualTLSHandshake(t *testing.T) {
	at := time.Now()
	a := authority(t, at)
	side := func(p Pair, err error) tls.Certificate {
		if err != nil {
			t.Fatal(err)
		}
		c, err := tls.X509KeyPair(p.Cert, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.Pair().Cert)
	server, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{side(a.Node("n1", at))},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS13,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	seen := make(chan string, 1)
	go func() {
		c, err := server.Accept()
		if err != nil {
			seen <- err.Error()
			return
		}
		defer func() { _ = c.Close() }()
		if _, err := io.WriteString(c, "x"); err != nil {
			seen <- err.Error()
			return
		}
		seen <- c.(*tls.Conn).ConnectionState().PeerCertificates[0].URIs[0].String()
	}()
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{
		Certificates: []tls.Certificate{side(a.Router("eu-west-1", "r1", at))}, RootCAs: pool, MinVersion: tls.VersionTLS13,
	}}
	c, err := d.DialContext(t.Context(), "tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "anabranch://router/eu-west-1/r1" {
		t.Errorf("server saw %q", got)
	}
}
