package redisbucket

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"anabranch/ratelimit/redisbucket/redistest"
)

// certificate writes a certificate for 127.0.0.1 that signs itself, and its key.
func certificate(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return cert, key, roots
}

func TestTLSTowardsRedis(t *testing.T) {
	cert, key, roots := certificate(t)
	port := strconv.Itoa(redistest.Port(t))
	redistest.Start(t, "--tls-port", port, "--bind", "127.0.0.1", "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-auth-clients", "no", "--tls-ca-cert-file", cert)
	addr := "127.0.0.1:" + port
	l := lend(t, LenderOptions{Addrs: []string{addr}, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	if out := lease(t, l, rpm(60, 1)); out.Path[0].Granted != 1 {
		t.Errorf("%+v", out)
	}
	stranger := lend(t, LenderOptions{Addrs: []string{addr}, TLS: &tls.Config{MinVersion: tls.VersionTLS12}})
	if out, err := stranger.Lease(t.Context(), rpm(60, 1)); err == nil {
		t.Errorf("a certificate that nobody signed was taken: %+v", out)
	}
}

func TestSentinelsKnowThePrimary(t *testing.T) {
	primary, port := redistest.Port(t), redistest.Port(t)
	redistest.Start(t, "--port", strconv.Itoa(primary), "--bind", "127.0.0.1")
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := "port " + strconv.Itoa(port) + "\nbind 127.0.0.1\nsentinel monitor quota 127.0.0.1 " + strconv.Itoa(primary) + " 1\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel := exec.Command("redis-server", conf, "--sentinel")
	if err := sentinel.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sentinel.Process.Kill(); err != nil {
			t.Errorf("kill the sentinel: %v", err)
		}
		_ = sentinel.Wait() // says only that it was killed
	})
	l := lend(t, LenderOptions{Addrs: []string{"127.0.0.1:" + strconv.Itoa(port)}, Master: "quota"})
	running(t, l)
	in := rpm(60, 1)
	eventually(t, "the sentinel tells the primary", func() bool {
		out, err := l.Lease(t.Context(), in)
		return err == nil && out.Path[0].Granted == 1
	})
}
