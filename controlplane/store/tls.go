package store

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"anabranch/api/fleet"
	"anabranch/api/identity"
)

// NodeOf returns the node that a verified certificate belongs to.
func NodeOf(cert *x509.Certificate) (fleet.NodeID, error) {
	who, err := identity.Of(cert)
	if err != nil {
		return "", err
	}
	if who.Kind != identity.KindNode {
		return "", fmt.Errorf("certificate is not a node's but %s", who)
	}
	return who.Node, nil
}

// serverTLS is c for the handshake that a peer begins. It accepts nodes only.
func serverTLS(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion = tls.VersionTLS13
	c.ClientAuth = tls.RequireAndVerifyClientCert
	verify := c.VerifyConnection
	c.VerifyConnection = func(s tls.ConnectionState) error { return verifyNode(s, verify) }
	return c
}

// verifyNode asks of a verified peer what the owner of the configuration asks (nil: nothing), and
// that it is a node.
func verifyNode(s tls.ConnectionState, verify func(tls.ConnectionState) error) error {
	if verify != nil {
		if err := verify(s); err != nil {
			return err
		}
	}
	_, err := NodeOf(s.PeerCertificates[0])
	return err
}

// clientTLS is c for a handshake that this node begins. It trusts nodes only. Nodes are known by the id in their certificates, not by the name or
// address that they are reached at (which may change), so the standard check of the host name is
// replaced by one of the chain and the id.
func clientTLS(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion = tls.VersionTLS13
	c.InsecureSkipVerify = true
	roots, verify := c.RootCAs, c.VerifyConnection
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("peer has no certificate")
		}
		chain := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			chain.AddCert(cert)
		}
		leaf := s.PeerCertificates[0]
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: chain}); err != nil {
			return err
		}
		return verifyNode(s, verify)
	}
	return c
}
