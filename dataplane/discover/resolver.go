package discover

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
)

// Resolver looks names up in DNS. A name that exists without a record of the kind asked for gives
// an empty list; a name that doesn't exist gives a [net.DNSError] that says so; and half an answer,
// as when only one of A and AAAA came, is an error.
type Resolver interface {
	// LookupNetIP lists the addresses of a host; network is "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	// LookupSRV lists the records of name, service and proto being empty, by priority.
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// system asks the name servers of this machine with [net.Resolver], and hears in their answers what
// that doesn't tell: whether a name that has no records exists.
type system struct {
	// dial replaces the connection to a name server. Nil: the usual one.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// LookupNetIP implements [Resolver].
func (s *system) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	r, exists := s.ask()
	list, err := r.LookupNetIP(ctx, network, host)
	if notFound(err) && exists.Load() {
		return nil, nil
	}
	return list, err
}

// LookupSRV implements [Resolver].
func (s *system) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	r, exists := s.ask()
	cname, list, err := r.LookupSRV(ctx, service, proto, name)
	if notFound(err) && exists.Load() {
		return "", nil, nil
	}
	return cname, list, err
}

// ask makes a resolver for one question; exists is set when a server answers without an error.
func (s *system) ask() (r *net.Resolver, exists *atomic.Bool) {
	exists = &atomic.Bool{}
	dial := s.dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return &net.Resolver{
		PreferGo: true, StrictErrors: true,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if udp, ok := c.(*net.UDPConn); ok && err == nil {
				return &overheard{udp, exists}, nil
			}
			return c, err // over TCP comes only what was too long for UDP, and so isn't empty
		},
	}, exists
}

// overheard is a connection to a name server whose answers are noted. It stays a packet connection,
// by which the resolver knows how messages are framed.
type overheard struct {
	*net.UDPConn
	exists *atomic.Bool
}

// Read implements [net.Conn].
func (o *overheard) Read(b []byte) (int, error) {
	n, err := o.UDPConn.Read(b)
	// RFC 1035, 4.1.1: bit 7 of byte 2 is set in answers, the low half of byte 3 is the code.
	if err == nil && n >= 12 && b[2]&0x80 != 0 && b[3]&0x0f == 0 {
		o.exists.Store(true)
	}
	return n, err
}

func notFound(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}
