// Package identity says who is at the other end of a mutual TLS connection between parts of
// Anabranch. A certificate carries one URI name, anabranch://node/<id> for a control plane node or
// anabranch://router/<region>/<id> for a router, beside the usual host names. Both planes read it
// alike, so it belongs to neither.
//
// [Live] is a party's own end of it: certificate, key and authorities as they stand in files, read
// again when these change.
package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"anabranch/api/fleet"
)

// Scheme of the URI names.
const Scheme = "anabranch"

// Kind is what a certificate was issued for.
type Kind string

// The kinds of identity.
const (
	KindNode   Kind = "node"
	KindRouter Kind = "router"
)

// Identity is who a certificate says its holder is.
type Identity struct {
	Kind Kind
	// Node is set for KindNode.
	Node fleet.NodeID
	// Region and Router are set for KindRouter.
	Region fleet.RegionID
	Router fleet.RouterID
}

// Node is the identity of a control plane node.
func Node(id fleet.NodeID) Identity { return Identity{Kind: KindNode, Node: id} }

// Router is the identity of a router.
func Router(region fleet.RegionID, id fleet.RouterID) Identity {
	return Identity{Kind: KindRouter, Region: region, Router: id}
}

// URI is the name that stands in the certificate.
func (i Identity) URI() *url.URL {
	u := &url.URL{Scheme: Scheme, Host: string(i.Kind)}
	if i.Kind == KindNode {
		u.Path = "/" + string(i.Node)
	} else {
		u.Path = "/" + string(i.Region) + "/" + string(i.Router)
	}
	return u
}

// String is the URI.
func (i Identity) String() string { return i.URI().String() }

// ErrNone says that a certificate carries no name of ours.
var ErrNone = errors.New("certificate has no " + Scheme + ":// URI name")

// Of reads the identity of a verified certificate. It fails with ErrNone when there is no URI name
// of ours, and with a description when there are several or one is malformed.
func Of(cert *x509.Certificate) (Identity, error) {
	var found []*url.URL
	for _, u := range cert.URIs {
		if u.Scheme == Scheme {
			found = append(found, u)
		}
	}
	if len(found) == 0 {
		return Identity{}, ErrNone
	}
	if len(found) > 1 {
		return Identity{}, fmt.Errorf("certificate has %d %s:// names, one is allowed", len(found), Scheme)
	}
	u := found[0]
	parts := strings.Split(strings.TrimPrefix(u.Path, "/"), "/")
	for _, part := range parts {
		if err := fleet.CheckName(part); err != nil {
			return Identity{}, fmt.Errorf("certificate name %s: %w", u, err)
		}
	}
	switch {
	case Kind(u.Host) == KindNode && len(parts) == 1:
		return Node(fleet.NodeID(parts[0])), nil
	case Kind(u.Host) == KindRouter && len(parts) == 2:
		return Router(fleet.RegionID(parts[0]), fleet.RouterID(parts[1])), nil
	}
	return Identity{}, fmt.Errorf("certificate name %s is neither node/<id> nor router/<region>/<id>", u)
}

// Files are the PEM files of one party. For mutual TLS all three are set, or none; for a server that
// asks nobody for a certificate there is no CA.
type Files struct {
	Cert, Key, CA string
}

// Empty says that no file is set: the party speaks without TLS.
func (f Files) Empty() bool { return f == Files{} }

// Validate names the flag of mutual TLS that is missing when only some are set.
func (f Files) Validate() error {
	if f.Empty() {
		return nil
	}
	for _, part := range []struct{ flag, value string }{{"--tls-cert", f.Cert}, {"--tls-key", f.Key}, {"--tls-ca", f.CA}} {
		if part.value == "" {
			return fmt.Errorf("%s is missing: --tls-cert, --tls-key and --tls-ca go together", part.flag)
		}
	}
	return nil
}

// check runs after the chain was verified.
func check(state tls.ConnectionState, accept []Kind) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("peer showed no certificate")
	}
	who, err := Of(state.PeerCertificates[0])
	if err != nil {
		return err
	}
	for _, kind := range accept {
		if who.Kind == kind {
			return nil
		}
	}
	return fmt.Errorf("peer is %s, here only %v may connect", who, accept)
}
