package instance

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/cmd/anabranch/pki"
)

// trust writes the bundle of authorities that router and node share.
func (f *fixture) trust(authorities ...*pki.Authority) {
	f.t.Helper()
	var bundle []byte
	for _, a := range authorities {
		bundle = append(bundle, a.Pair().Cert...)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "ca.pem"), bundle, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// certify writes a certificate and its key.
func (f *fixture) certify(name string, pair pki.Pair, err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	for file, text := range map[string][]byte{name + ".pem": pair.Cert, name + ".key": pair.Key} {
		if err := os.WriteFile(filepath.Join(f.dir, file), text, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// roots are the certificates of an authority alone.
func roots(a *pki.Authority) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.Pair().Cert)
	return pool
}

// look takes what is new in the files, on both sides.
func (f *fixture) look(n *running) {
	f.t.Helper()
	for range 2 {
		n.certs.Look()
		if _, err := f.own.Check(time.Now()); err != nil {
			f.t.Error(err)
		}
	}
}

// newcomer asks at the door for peers, over a connection of its own, with a certificate of one
// authority, and trusts in another's.
func (f *fixture) newcomer(n *running, of, trusts *pki.Authority) error {
	f.t.Helper()
	pair, err := of.Router("us-east-1", "r9", time.Now())
	if err != nil {
		f.t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.shown(&tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots(trusts)}, n.Addresses().Peer, "/peer/probe?cluster=eu-a")
}

// shown gets something over a new connection.
func (f *fixture) shown(c *tls.Config, address, path string) error {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	res, err := client.Get("https://" + address + path)
	if err != nil {
		return err
	}
	if res.ProtoMajor != 2 {
		f.t.Errorf("%s over %s", path, res.Proto)
	}
	return res.Body.Close()
}

func TestARouterGoesFromOneAuthorityToTheNext(t *testing.T) {
	f := newFixture(t)
	old := f.authority
	next, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	o := f.options()
	o.FrontCert, o.FrontKey = o.TLS.Cert, o.TLS.Key
	n := f.start(o)
	n.eventually("it is ready", n.ready)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots(old)}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	q, err := http.NewRequest(http.MethodPost, "https://"+n.Addresses().Front+"/v1/chat/completions", strings.NewReader(ask))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer acme-key")
	stream, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()

	f.trust(old, next)
	f.look(n)
	for _, a := range []*pki.Authority{old, next} {
		if err := f.newcomer(n, a, old); err != nil {
			t.Errorf("both authorities: %v", err)
		}
	}
	pair, err := next.Router("eu-west-1", "r1", time.Now())
	f.certify("r1", pair, err)
	pair, err = next.Node("n1", time.Now())
	f.certify("n1", pair, err)
	f.look(n)
	if err := f.shown(&tls.Config{RootCAs: roots(next)}, n.Addresses().Front, "/"); err != nil {
		t.Errorf("the front shows no certificate of the new authority: %v", err)
	}
	f.trust(next)
	f.look(n)
	if err := f.newcomer(n, next, next); err != nil {
		t.Errorf("the new authority: %v", err)
	}
	if err := f.newcomer(n, old, next); err == nil {
		t.Error("a peer of the old authority is let in")
	}

	// What was open is open, and the next stream to the control plane is among the new.
	f.release <- struct{}{}
	if body, err := io.ReadAll(stream.Body); !strings.HasSuffix(string(body), done) || err != nil {
		t.Errorf("stream from before: %q, %v", body, err)
	}
	if !n.control.Status().Connected {
		t.Error("the stream to the control plane was cut")
	}
	f.hangUp <- struct{}{}
	n.eventually("it has come back to the control plane", func() bool { return f.streams.Load() == 2 })
	res, err := http.Get("http://" + n.Addresses().Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`anabranch_tls_reloads_total{outcome="renewed",use="tls"} 3`,
		`anabranch_tls_reloads_total{outcome="renewed",use="listen"} 1`,
		`anabranch_tls_files_refused{use="tls"} 0`,
		`anabranch_tls_certificate_expiry_timestamp_seconds{use="tls-ca"} `,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s among the metrics", want)
		}
	}
}

func TestARouterStartsWithACertificateThatHasEnded(t *testing.T) {
	f := newFixture(t)
	o := f.options()
	pair, err := f.authority.Router("eu-west-1", "r1", time.Now().Add(-2*pki.LeafLife))
	f.files("r1", pair, err)
	n := f.start(o)
	if err := f.newcomer(n, f.authority, f.authority); err == nil {
		t.Fatal("the peers' door shows a certificate that has ended, and is trusted")
	}
	pair, err = f.authority.Router("eu-west-1", "r1", time.Now())
	f.certify("r1", pair, err)
	f.look(n)
	n.eventually("it is ready", n.ready)
	if err := f.newcomer(n, f.authority, f.authority); err != nil {
		t.Error(err)
	}
}
