package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestIdentityGoesThroughACertificateUnchanged(t *testing.T) {
	for _, want := range []Identity{Node("n1"), Router("us-east-1", "us-east-1-r1")} {
		got, err := Of(&x509.Certificate{URIs: []*url.URL{want.URI()}})
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v", want, got, err)
		}
	}
}

func TestMalformedNamesAreRefused(t *testing.T) {
	for _, c := range []struct{ name, uris, want string }{
		{"none", "", ErrNone.Error()},
		{"of others", "spiffe://a/b", ErrNone.Error()},
		{"two", "anabranch://node/a anabranch://node/b", "2 anabranch:// names"},
		{"kind", "anabranch://console/a", "neither"},
		{"router without region", "anabranch://router/a", "neither"},
		{"node with region", "anabranch://node/a/b", "neither"},
		{"empty id", "anabranch://node/", "is empty"},
		{"odd id", "anabranch://node/A%20B", "may hold only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cert := &x509.Certificate{}
			for _, s := range strings.Fields(c.uris) {
				u, err := url.Parse(s)
				if err != nil {
					t.Fatal(err)
				}
				cert.URIs = append(cert.URIs, u)
			}
			if _, err := Of(cert); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestFilesGoTogether(t *testing.T) {
	if err := (Files{}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (Files{Cert: "c", CA: "a"}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "--tls-key") {
		t.Error(err)
	}
}

// authority issues certificates into a folder.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key = a.sign(template, nil, nil, "ca")
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, by *ecdsa.PrivateKey, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", der)
	a.write(name+".key", "PRIVATE KEY", keyDER)
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) issue(name string, who Identity) Files {
	a.t.Helper()
	a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		URIs: []*url.URL{who.URI()}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key, name)
	return Files{
		Cert: filepath.Join(a.dir, name+".pem"), Key: filepath.Join(a.dir, name+".key"),
		CA: filepath.Join(a.dir, "ca.pem"),
	}
}

func open(t *testing.T, f Files) *Live {
	t.Helper()
	l, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// dialling is config for a dial to 127.0.0.1.
func dialling(config *tls.Config) *tls.Config {
	config.ServerName = "127.0.0.1"
	return config
}

// handshake lets client dial server over loopback and gives both ends' errors.
func handshake(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			done <- err
			return
		}
		defer conn.Close()
		done <- conn.(*tls.Conn).Handshake()
	}()
	conn, clientErr := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", listener.Addr().String(), client)
	if clientErr == nil {
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		// The server's verdict on the client arrives with the first read in TLS 1.3.
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			clientErr = err
		}
	}
	return <-done, clientErr
}

func TestOnlyTheRightKindConnects(t *testing.T) {
	ours, foreign := newAuthority(t), newAuthority(t)
	node, router := ours.issue("node", Node("n1")), ours.issue("router", Router("eu-west-1", "r1"))
	stranger := foreign.issue("node", Node("n1"))

	for _, c := range []struct {
		name           string
		server, client Files
		accept, expect Kind
		ok             bool
	}{
		{"router to node", node, router, KindRouter, KindNode, true},
		{"node to node", node, node, KindNode, KindNode, true},
		{"router where only nodes may", node, router, KindNode, KindNode, false},
		{"client expects a router, meets a node", node, router, KindRouter, KindRouter, false},
		{"client of another authority", node, stranger, KindNode, KindNode, false},
		{"server of another authority", stranger, node, KindNode, KindNode, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			serverErr, clientErr := handshake(t, open(t, c.server).Server(c.accept), dialling(open(t, c.client).Config(c.expect)))
			if ok := serverErr == nil && clientErr == nil; ok != c.ok {
				t.Errorf("connected: %v, want %v (server: %v, client: %v)", ok, c.ok, serverErr, clientErr)
			}
		})
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	a := newAuthority(t)
	files := a.issue("node", Node("n1"))
	empty := filepath.Join(a.dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Files{
		{Cert: empty, Key: files.Key, CA: files.CA},
		{Cert: files.Cert, Key: files.Key, CA: empty},
	} {
		if _, err := Open(f); err == nil || !strings.Contains(err.Error(), "empty.pem") {
			t.Errorf("got %v", err)
		}
	}
}
