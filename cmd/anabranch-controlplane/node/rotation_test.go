package node

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/identity"
	"anabranch/cmd/anabranch/pki"
)

// papers are certificate files of a test, which changes them.
type papers struct {
	t   *testing.T
	dir string
}

func (p papers) put(name string, parts ...[]byte) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, bytes.Join(parts, nil), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// certify writes the certificate of node n1.
func (p papers) certify(a *pki.Authority) (cert, key string) {
	p.t.Helper()
	pair, err := a.Node("n1", time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	return p.put("n1.pem", pair.Cert), p.put("n1.key", pair.Key)
}

// enters says whether a port takes a peer, which speaks first or waits for the port to. The answer to
// its certificate comes with the first read.
func enters(t *testing.T, address string, pair pki.Pair, trusted *pki.Authority, protocol, first string) bool {
	t.Helper()
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(trusted.Pair().Cert)
	c := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: pool}
	if protocol != "" {
		c.NextProtos = []string{protocol}
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", address, c)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, first); err != nil {
		return false
	}
	_, err = conn.Read(make([]byte, 1))
	return err == nil || errors.Is(err, io.EOF)
}

func TestANodeGoesFromOneAuthorityToTheNext(t *testing.T) {
	var authorities [2]*pki.Authority
	var nodes, routers [2]pki.Pair
	for i := range authorities {
		a, err := pki.NewAuthority(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var err2 error
		nodes[i], err = a.Node("n2", time.Now())
		routers[i], err2 = a.Router("eu", "r1", time.Now())
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		authorities[i] = a
	}
	old, next := authorities[0], authorities[1]
	p := papers{t, t.TempDir()}
	o := options(t.TempDir(), "n1")
	o.TLS = identity.Files{CA: p.put("ca.pem", old.Pair().Cert)}
	o.TLS.Cert, o.TLS.Key = p.certify(old)
	o.HTTPCert, o.HTTPKey = o.TLS.Cert, o.TLS.Key
	n := run(t, o)

	// trusts is whose certificates it takes, shows whose it shows.
	check := func(step string, trusts []int, shows int) {
		t.Helper()
		n.certs.Look()
		n.certs.Look()
		for i := range authorities {
			want := false
			for _, j := range trusts {
				want = want || i == j
			}
			if got := enters(t, n.Addresses().GRPC, routers[i], authorities[shows], "h2", ""); got != want {
				t.Errorf("%s: router of authority %d enters at --grpc: %v", step, i, got)
			}
			if got := enters(t, n.Addresses().Raft, nodes[i], authorities[shows], "", "X"); got != want {
				t.Errorf("%s: node of authority %d enters at --raft: %v", step, i, got)
			}
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authorities[shows].Pair().Cert)
		secure := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
		defer secure.CloseIdleConnections()
		resp, err := secure.Get("https://" + n.Addresses().HTTP + "/healthz")
		if err != nil {
			t.Fatalf("%s: --http: %v", step, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
			t.Errorf("%s: --http: %s over %s", step, resp.Status, resp.Proto)
		}
	}
	check("at the start", []int{0}, 0)
	p.put("ca.pem", old.Pair().Cert, next.Pair().Cert)
	check("with both authorities", []int{0, 1}, 0)
	p.put("n1.key", []byte("half"))
	check("with half a key", []int{0, 1}, 0)
	p.certify(next)
	check("with a new certificate", []int{0, 1}, 1)
	p.put("ca.pem", next.Pair().Cert)
	check("with the new authority only", []int{1}, 1)

	families, err := n.registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "anabranch_tls_") {
			told = append(told, f.GetName())
		}
	}
	if want := "anabranch_tls_certificate_expiry_timestamp_seconds anabranch_tls_files_refused anabranch_tls_reloads_total"; strings.Join(told, " ") != want {
		t.Errorf("metrics %v, want %s", told, want)
	}
}
