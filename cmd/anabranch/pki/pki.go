// Package pki makes the certificates of a fleet on one machine: one authority, and for each node and
// router a certificate that names it in a URI, good for both ends of mutual TLS. Production brings
// its own; the names in the URIs are what both planes check.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"
)

// Lifetimes. Leaves are renewed by making them anew at each start, so they need not last.
const (
	AuthorityLife = 5 * 365 * 24 * time.Hour
	LeafLife      = 90 * 24 * time.Hour
	// Skew is how far before now a certificate is already valid, for clocks that disagree.
	Skew = 5 * time.Minute
)

// Pair is a certificate and its key, both PEM.
type Pair struct{ Cert, Key []byte }

// Authority signs leaves.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pair Pair
}

// NewAuthority makes a self-signed authority, ECDSA P-256, that may sign leaves only.
func NewAuthority(now time.Time) (*Authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Anabranch development CA"},
		NotBefore:             now.Add(-Skew),
		NotAfter:              now.Add(AuthorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make authority key: %w", err)
	}
	pair, err := sign(template, template, key, key)
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	return LoadAuthority(pair)
}

// LoadAuthority reads an authority that [Authority.Pair] gave.
func LoadAuthority(p Pair) (*Authority, error) {
	certBlock, _ := pem.Decode(p.Cert)
	keyBlock, _ := pem.Decode(p.Key)
	if certBlock == nil || keyBlock == nil {
		return nil, errors.New("load authority: not PEM")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("load authority: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("load authority key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("load authority: key and certificate do not belong together")
	}
	if !cert.IsCA {
		return nil, errors.New("load authority: certificate is not of an authority")
	}
	return &Authority{cert: cert, key: key, pair: p}, nil
}

// Pair returns the authority's own certificate and key.
func (a *Authority) Pair() Pair { return a.pair }

// Expires is when the authority's own certificate ends.
func (a *Authority) Expires() time.Time { return a.cert.NotAfter }

// Node makes the certificate of a control plane node: URI anabranch://node/<id>.
func (a *Authority) Node(id string, now time.Time) (Pair, error) {
	return a.leaf("node "+id, &url.URL{Scheme: "anabranch", Host: "node", Path: "/" + id}, now)
}

// Router makes the certificate of a router: URI anabranch://router/<region>/<id>.
func (a *Authority) Router(region, id string, now time.Time) (Pair, error) {
	return a.leaf("router "+id, &url.URL{Scheme: "anabranch", Host: "router", Path: "/" + region + "/" + id}, now)
}

// leaf makes a certificate for this machine's loopback names and the one URI.
func (a *Authority) leaf(name string, uri *url.URL, now time.Time) (Pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		NotBefore:   now.Add(-Skew),
		NotAfter:    now.Add(LeafLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{uri},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make key of %s: %w", name, err)
	}
	pair, err := sign(template, a.cert, key, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("make certificate of %s: %w", name, err)
	}
	return pair, nil
}

// sign completes the template with a random serial number and signs it.
func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (Pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return Pair{}, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return Pair{}, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	}, nil
}
