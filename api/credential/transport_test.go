package credential

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// authority signs certificates for tests.
type authority struct {
	t      *testing.T
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	closed chan struct{} // one for each connection of its servers that is closed
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, closed: make(chan struct{}, 8)}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	return a
}

// issue makes a certificate and its key, in PEM.
func (a *authority) issue(name string) (cert, key []byte) {
	a.t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &own.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// serve answers with the protocol and the name of who asks, and lets in who has a certificate of
// the authority. The answer to /slow waits for release.
func (a *authority) serve(release <-chan struct{}) *httptest.Server {
	a.t.Helper()
	cert, key := a.issue("server")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		a.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush() // the test sees it if it fails
			<-release
		}
		_, _ = io.WriteString(w, r.Proto+" "+r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			select {
			case a.closed <- struct{}{}:
			default: // nobody counts that many
			}
		}
	}
	s.StartTLS()
	a.t.Cleanup(s.Close)
	return s
}

func ask(t *testing.T, transport http.RoundTripper, url string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

// shown is a world with a client certificate in files.
func shown(t *testing.T, a *authority, name string) (*world, *place) {
	t.Helper()
	w := newWorld(t, true)
	cert, key := a.issue(name)
	w.write("cert.pem", string(cert))
	w.write("key.pem", string(key))
	w.write("ca.pem", string(a.pem()))
	return w, cluster(Spec{Type: MTLS, CertFile: "cert.pem", KeyFile: "key.pem", CAFile: "ca.pem"})
}

func (w *world) transport(c *place) http.RoundTripper {
	w.t.Helper()
	credential, err := w.For(c.ID, c.Auth)
	if err != nil {
		w.t.Fatal(err)
	}
	r := request("GET", "https://a/")
	if err := credential.Sign(r, nil); err != nil || len(r.Header) != 0 {
		w.t.Errorf("signing added %v, %v", r.Header, err)
	}
	return credential.Transport()
}

func TestACertificateIsShownOverHTTP2(t *testing.T) {
	a := newAuthority(t)
	s := a.serve(nil)
	w, c := shown(t, a, "router-1")
	if got, err := ask(t, w.transport(c), s.URL); err != nil || got != "HTTP/2.0 router-1" {
		t.Errorf("%q, %v", got, err)
	}
	token := cluster(Spec{Type: Bearer, File: w.write("token", "x")})
	if w.transport(&place{ID: "open"}) != nil {
		t.Error("no credential has a transport")
	}
	credential, err := w.For(token.ID, token.Auth)
	if err != nil || credential.Transport() != nil {
		t.Errorf("a token has a transport, %v", err)
	}
}

func TestAServerOfAnotherAuthorityIsNotBelieved(t *testing.T) {
	a, b := newAuthority(t), newAuthority(t)
	s := b.serve(nil)
	w, c := shown(t, a, "router-1")
	if got, err := ask(t, w.transport(c), s.URL); err == nil || !strings.Contains(err.Error(), "x509") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestACertificateIsRotatedUnderWay(t *testing.T) {
	a := newAuthority(t)
	release := make(chan struct{})
	s := a.serve(release)
	w, c := shown(t, a, "first")
	old := w.transport(c)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/slow", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := old.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()

	cert, key := a.issue("second")
	w.write("cert.pem", string(cert)) // the key is still the first's
	w.pass(lookEvery)
	if w.transport(c) != old {
		t.Error("half of a pair was taken")
	}
	w.write("key.pem", string(key))
	w.pass(lookEvery)
	fresh := w.transport(c)
	if got, err := ask(t, fresh, s.URL); err != nil || got != "HTTP/2.0 second" {
		t.Errorf("after the rotation: %q, %v", got, err)
	}
	close(release)
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "HTTP/2.0 first" {
		t.Errorf("the request from before: %q, %v", body, err)
	}
	if strings.Contains(w.logs.String(), "PRIVATE") {
		t.Errorf("the log has a key:\n%s", w.logs.String())
	}
}

func TestReadingTheSameAgainKeepsTheConnections(t *testing.T) {
	a := newAuthority(t)
	w, c := shown(t, a, "router-1")
	first := w.transport(c)
	for range 3 {
		w.pass(lookEvery)
		later := time.Unix(0, w.ns.Load())
		if err := os.Chtimes(filepath.Join(w.dir, "cert.pem"), later, later); err != nil {
			t.Fatal(err)
		}
		if w.transport(c) != first {
			t.Fatal("the connections were dropped")
		}
	}
}

func TestAnAuthorityThatIsNoneIsRefused(t *testing.T) {
	a := newAuthority(t)
	w, c := shown(t, a, "router-1")
	w.write("ca.pem", "nothing of the kind")
	if _, err := w.For(c.ID, c.Auth); err == nil || !strings.Contains(err.Error(), "ca.pem") {
		t.Errorf("error %v", err)
	}
}

func TestWhatIsForgottenClosesItsConnections(t *testing.T) {
	for name, forget := range map[string]func(*world){
		"no cluster names it":  func(w *world) { w.Sync(map[fleet.ClusterID]*Spec{}) },
		"the store is closed":  func(w *world) { w.Close() },
		"another one is taken": nil,
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t)
			s := a.serve(nil)
			w, c := shown(t, a, "router-1")
			if _, err := ask(t, w.transport(c), s.URL); err != nil {
				t.Fatal(err)
			}
			if forget != nil {
				forget(w)
			} else {
				cert, key := a.issue("router-2")
				w.write("cert.pem", string(cert))
				w.write("key.pem", string(key))
				w.pass(lookEvery)
				w.transport(c)
			}
			select {
			case <-a.closed:
			case <-time.After(10 * time.Second):
				t.Error("its connection is still open")
			}
		})
	}
}

func TestConnectionsMayBeRefusedBeforeTheyAreMade(t *testing.T) {
	a := newAuthority(t)
	w, c := shown(t, a, "router")
	refused := errors.New("not there")
	w.control = func(_, address string, _ syscall.RawConn) error { return fmt.Errorf("%s: %w", address, refused) }
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:1/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.transport(c).RoundTrip(q)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
}
