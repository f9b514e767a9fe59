package store

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// authority signs certificates for tests.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{}
	a.cert, a.key = a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

func (a *authority) sign(t testing.TB, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// fixed makes a certificate with a URI name and trust in a's certificates, for good.
func (a *authority) fixed(t testing.TB, name string) func() *tls.Config {
	t.Helper()
	c := a.config(t, name)
	return func() *tls.Config { return c }
}

// config makes a certificate with a URI name and trust in a's certificates.
func (a *authority) config(t testing.TB, name string) *tls.Config {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if name != "" {
		u, err := url.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		c.URIs = []*url.URL{u}
	}
	cert, key := a.sign(t, c)
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}},
		RootCAs:      roots, ClientCAs: roots,
	}
}

// startMux runs a mux of node id until the test ends.
func startMux(t *testing.T, h hello, c func() *tls.Config) *mux {
	t.Helper()
	l := listen(t)
	m := newMux(l, c, l.Addr().String(), slog.New(slog.DiscardHandler))
	m.own = func() hello { return h }
	m.met = func(hello) {}
	var done sync.WaitGroup
	done.Go(m.serve)
	t.Cleanup(func() {
		m.close()
		done.Wait()
	})
	return m
}

func (m *mux) at() string { return m.listener.Addr().String() }

func TestTheFirstByteDecidesWhoGetsAConnection(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var server, client func() *tls.Config
		if secure {
			ca := newAuthority(t)
			server, client = ca.fixed(t, "anabranch://node/n1"), ca.fixed(t, "anabranch://node/n2")
		}
		a := startMux(t, hello{Cluster: "c", Node: "n1"}, server)
		b := startMux(t, hello{Cluster: "c", Node: "n2"}, client)
		for k, in := range map[kind]*inlet{kindRaft: a.raft, kindNode: a.node} {
			out, err := b.dial(t.Context(), k, a.at())
			if err != nil {
				t.Fatal(err)
			}
			got, err := in.Accept()
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.WriteString(out, "payload") }() // a failure shows at the other end
			b := make([]byte, 7)
			if _, err := io.ReadFull(got, b); err != nil || string(b) != "payload" {
				t.Errorf("TLS %v: %q, %v", secure, b, err)
			}
			if err := errors.Join(out.Close(), got.Close()); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
	}
}

func TestOnlyNodesOfTheClusterGetIn(t *testing.T) {
	ca, otherCA := newAuthority(t), newAuthority(t)
	server := startMux(t, hello{Cluster: "c", Node: "n1"}, ca.fixed(t, "anabranch://node/n1"))
	for _, c := range []struct {
		name  string
		hello hello
		tls   func() *tls.Config
		says  string // empty: any error
	}{
		{"router", hello{Cluster: "c", Node: "n2"}, ca.fixed(t, "anabranch://router/us/r1"), ""},
		{"no name", hello{Cluster: "c", Node: "n2"}, ca.fixed(t, ""), ""},
		{"another authority", hello{Cluster: "c", Node: "n2"}, otherCA.fixed(t, "anabranch://node/n2"), ""},
		{"no TLS", hello{Cluster: "c", Node: "n2"}, nil, ""},
		{"another node's name", hello{Cluster: "c", Node: "n3"}, ca.fixed(t, "anabranch://node/n2"), "not the one in its certificate"},
		{"another cluster", hello{Cluster: "d", Node: "n2"}, ca.fixed(t, "anabranch://node/n2"), "n1 is of cluster c, this node of d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := startMux(t, c.hello, c.tls)
			conn, err := client.dial(t.Context(), kindNode, server.at())
			if err == nil {
				t.Fatal("let in", conn.Close())
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if errors.As(err, new(refusedError)) != (c.says != "") {
				t.Errorf("%v: refused by the peer or not?", err)
			}
		})
	}
}

func TestTheDiallerChecksWhoAnswers(t *testing.T) {
	ca := newAuthority(t)
	client := startMux(t, hello{Cluster: "c", Node: "n2"}, ca.fixed(t, "anabranch://node/n2"))
	for name, server := range map[string]*mux{
		"router":               startMux(t, hello{Cluster: "c", Node: "n1"}, ca.fixed(t, "anabranch://router/us/r1")),
		"another authority":    startMux(t, hello{Cluster: "c", Node: "n1"}, newAuthority(t).fixed(t, "anabranch://node/n1")),
		"another node's name":  startMux(t, hello{Cluster: "c", Node: "n1"}, ca.fixed(t, "anabranch://node/n3")),
		"no TLS on that side":  startMux(t, hello{Cluster: "c", Node: "n1"}, nil),
		"expired or not begun": startMux(t, hello{Cluster: "c", Node: "n1"}, expired(t, ca)),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if c, err := client.dial(ctx, kindRaft, server.at()); err == nil {
				t.Error("accepted", c.Close())
			}
		})
	}
}

func expired(t *testing.T, a *authority) func() *tls.Config {
	t.Helper()
	c := a.config(t, "anabranch://node/n1")
	cert, key := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(3), NotAfter: time.Now().Add(-time.Hour),
		URIs: []*url.URL{{Scheme: "anabranch", Host: "node", Path: "/n1"}},
	})
	c.Certificates = []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}
	return func() *tls.Config { return c }
}

func TestNonsenseOnThePortIsCutOff(t *testing.T) {
	m := startMux(t, hello{Cluster: "c", Node: "n1"}, nil)
	for _, send := range []string{"GET / HTTP/1.1\r\n\r\n", "X", "R\x09", "N\x01\x00\x00\x00", "\x16\x03\x01"} {
		c, err := net.Dial("tcp", m.at())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, send); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); len(b) != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q is answered with %q, %v", send, b, err)
		}
		_ = c.Close() // done with it
	}
}

func TestClosingTheMuxEndsConnectionsAndListeners(t *testing.T) {
	a := startMux(t, hello{Cluster: "c", Node: "n1"}, nil)
	l := listen(t)
	b := newMux(l, nil, "b:1", slog.New(slog.DiscardHandler))
	b.own, b.met = func() hello { return hello{Cluster: "c", Node: "n2"} }, func(hello) {}
	var done sync.WaitGroup
	done.Go(b.serve)
	out, err := a.dial(t.Context(), kindRaft, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	in, err := b.raft.Accept()
	if err != nil {
		t.Fatal(err)
	}
	b.close()
	done.Wait()
	if _, err := out.Read(make([]byte, 1)); err == nil {
		t.Error("the other end is still open")
	}
	if _, err := b.node.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v, want closed", err)
	}
	if _, err := b.dial(t.Context(), kindRaft, a.at()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial: %v, want closed", err)
	}
	_ = in.Close() // closed already, below
	b.users.Wait()
	if got := b.raft.Addr().String(); got != "b:1" {
		t.Errorf("address %s, want the advertised one", got)
	}
}

func TestAClusterOverMutualTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	c := newTestCluster(t, 3, func(o *Options) { o.TLS = ca.fixed(t, "anabranch://node/"+string(o.ID)) })
	c.propose(initCommand("c1"))
	out := c.propose(register("a", "1"))
	for _, n := range c.nodes {
		n.caughtUp(out.GetRevision())
	}
}

func TestTheNodeOfACertificate(t *testing.T) {
	for name, want := range map[string]fleet.NodeID{
		"anabranch://node/n1":      "n1",
		"anabranch://node/":        "",
		"anabranch://node/n1/x":    "",
		"anabranch://router/us/r1": "",
		"https://node/n1":          "",
	} {
		u, err := url.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := NodeOf(&x509.Certificate{URIs: []*url.URL{u}})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}
