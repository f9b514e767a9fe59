package publish

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/test/bufconn"

	"anabranch/api/identity"
	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
)

// authority signs certificates for one test.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, pool: x509.NewCertPool()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	pair := a.sign(a.cert)
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)
	return a
}

// sign makes a key and a certificate of the template; the first signs itself.
func (a *authority) sign(template *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	parent, signer := a.cert, a.key
	if signer == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) issue(names ...string) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		u, err := url.Parse(n)
		if err != nil {
			a.t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	return a.sign(template)
}

func TestTheCertificateSaysWhoTheRouterIs(t *testing.T) {
	a := newAuthority(t)
	verified := func(cert tls.Certificate) credentials.TLSInfo {
		return credentials.TLSInfo{State: tls.ConnectionState{
			PeerCertificates: []*x509.Certificate{cert.Leaf}, VerifiedChains: [][]*x509.Certificate{{cert.Leaf, a.cert}},
		}}
	}
	tests := map[string]struct {
		info credentials.AuthInfo
		want string // "region router", or part of the error
		ok   bool
	}{
		"a router":            {verified(a.issue("anabranch://router/us/r1")), "us r1", true},
		"a node":              {verified(a.issue("anabranch://node/n1")), "is not a router", false},
		"nobody of ours":      {verified(a.issue("https://elsewhere/r1")), identity.ErrNone.Error(), false},
		"two at once":         {verified(a.issue("anabranch://router/us/r1", "anabranch://router/us/r2")), "one is allowed", false},
		"shown, not verified": {credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{a.issue("anabranch://router/us/r1").Leaf}}}, "trusted", false},
		"none":                {credentials.TLSInfo{}, "trusted", false},
		"no TLS":              {nil, "trusted", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			region, router, err := FromCertificate(peer.NewContext(t.Context(), &peer.Peer{AuthInfo: tt.info}))
			got := string(region) + " " + string(router)
			if !tt.ok {
				if err == nil {
					t.Fatalf("taken for %s", got)
				}
				got = err.Error()
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if _, _, err := FromCertificate(context.Background()); err == nil {
		t.Error("a stream without a peer has an identity")
	}
}

// Over real mutual TLS, a router gets in under its own name only.
func TestMutualTLS(t *testing.T) {
	a := newAuthority(t)
	r := newReplica(t)
	server, err := New(Options{Node: "n1", View: r.View, Changed: r.Changed, Signals: signal.New(nil), Identify: FromCertificate})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()
	listener := bufconn.Listen(1 << 16)
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{a.issue("anabranch://node/n1")}, ClientCAs: a.pool,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	})))
	routerpb.RegisterRouterControlServer(g, server)
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	t.Cleanup(func() {
		cancel()
		g.Stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	dial := func(name string) *router {
		conn, err := grpc.NewClient("passthrough:///localhost",
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
				Certificates: []tls.Certificate{a.issue(name)}, RootCAs: a.pool, ServerName: "localhost", MinVersion: tls.VersionTLS13,
			})))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
		stream, err := routerpb.NewRouterControlClient(conn).Connect(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return &router{t: t, stream: stream}
	}
	x := dial("anabranch://router/us/r1")
	x.say(hello("r1", nil))
	if x.hear().GetWelcome() == nil {
		t.Error("a router under its own name is not welcome")
	}
	y := dial("anabranch://router/us/r2")
	y.say(hello("r1", nil))
	wantCode(t, y.ended(), codes.PermissionDenied, "certificate is for router r2")
}
