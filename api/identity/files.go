package identity

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// maxFile bounds a PEM file in bytes; bundles of authorities are a few hundred KiB at most.
const maxFile = 1 << 20

// text is what stands in the files at one look.
type text struct{ cert, key, ca []byte }

// read reads the files. They may be of different ages if they are being replaced.
func (f Files) read() (text, error) {
	var t text
	for _, part := range []struct {
		what, path string
		to         *[]byte
	}{{"certificate", f.Cert, &t.cert}, {"key", f.Key, &t.key}, {"certificate authority", f.CA, &t.ca}} {
		if part.path == "" {
			continue // the authority of a server that asks for no certificates
		}
		b, err := readFile(part.path)
		if err != nil {
			return text{}, fmt.Errorf("load %s: %w", part.what, err)
		}
		*part.to = b
	}
	return t, nil
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return b, nil
}

func (t text) sum() [sha256.Size]byte {
	h := sha256.New()
	for _, b := range [][]byte{t.cert, t.key, t.ca} {
		one := sha256.Sum256(b)
		h.Write(one[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// material is what a handshake needs. It is never changed.
type material struct {
	sum  [sha256.Size]byte
	pair tls.Certificate
	// pool and authorities are nil for a server that asks for no certificates.
	pool        *x509.CertPool
	authorities []*x509.Certificate
	// chains says whether the certificate is of one of the authorities.
	chains bool
}

// parse makes material of text, at now; f names the files in errors. A certificate that has ended
// is taken.
func (t text) parse(f Files, now time.Time) (*material, error) {
	m := &material{sum: t.sum()}
	var err error
	if _, err = certificates(t.cert); err != nil {
		return nil, fmt.Errorf("load certificate %s: %w", f.Cert, err)
	}
	if m.pair, err = tls.X509KeyPair(t.cert, t.key); err != nil {
		return nil, fmt.Errorf("load certificate %s and key %s: %w", f.Cert, f.Key, err)
	}
	if f.CA == "" {
		return m, nil
	}
	if m.authorities, err = certificates(t.ca); err != nil {
		return nil, fmt.Errorf("load certificate authority %s: %w", f.CA, err)
	}
	m.pool = x509.NewCertPool()
	for _, a := range m.authorities {
		m.pool.AddCert(a)
	}
	m.chains = m.trusted(now)
	return m, nil
}

// certificates reads PEM that holds nothing that can't be read: half of a bundle would be taken for
// all of it otherwise. Blocks of other kinds and text between blocks are passed over.
func certificates(b []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	begun, whole := bytes.Count(b, []byte("-----BEGIN ")), 0
	for {
		block, rest := pem.Decode(b)
		if block == nil {
			break
		}
		b = rest
		whole++
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d in it: %w", len(out)+1, err)
		}
		out = append(out, c)
	}
	switch {
	case whole < begun:
		return nil, fmt.Errorf("%d of %d PEM blocks in it are cut off or can't be read", begun-whole, begun)
	case len(out) == 0:
		return nil, errors.New("no PEM certificate in it")
	case bytes.Contains(b, []byte("-----")):
		return nil, errors.New("a PEM block at its end is cut off")
	}
	return out, nil
}

// trusted says whether the own certificate is of one of the own authorities at now, or was when it
// ended.
func (m *material) trusted(now time.Time) bool {
	if m.pool == nil {
		return false
	}
	between := x509.NewCertPool()
	for _, der := range m.pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil { // if it was needed, it will be missed
			between.AddCert(c)
		}
	}
	if end := m.pair.Leaf.NotAfter; now.After(end) {
		now = end
	}
	_, err := m.pair.Leaf.Verify(x509.VerifyOptions{
		Roots: m.pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err == nil
}

// follows says why m must not take the place of before, at now; nil: it may. What was wrong in
// before already may stay so: a party that was started like that was meant to be.
func (m *material) follows(before *material, now time.Time) error {
	leaf, old := m.pair.Leaf, before.pair.Leaf
	if !leaf.Equal(old) {
		switch {
		case now.After(leaf.NotAfter):
			return fmt.Errorf("new certificate has ended at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
		case now.Before(leaf.NotBefore):
			return fmt.Errorf("new certificate begins at %s only", leaf.NotBefore.UTC().Format(time.RFC3339))
		}
	}
	if was, err := Of(old); err == nil {
		is, err := Of(leaf)
		if err != nil {
			return fmt.Errorf("new certificate: %w", err)
		}
		if is != was {
			return fmt.Errorf("new certificate is of %s, this is %s", is, was)
		}
	}
	if before.chains && !m.chains {
		return errors.New("certificate would be of none of the authorities: first add the new authority to the bundle, then renew the certificate, and only then take the old authority away")
	}
	return nil
}
