package collect

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Of connections.
const (
	connectWithin = 5 * time.Second // a poll's own time-out is mostly sooner
	idleFor       = 2 * time.Minute
	maxHeader     = 64 << 10 // bytes
)

// instanceData is where EC2 answers for an instance's role over IPv6; over IPv4 that is a link-local
// address ("Instance metadata", Amazon EC2 User Guide).
var instanceData = netip.MustParseAddr("fd00:ec2::254")

// Allowed refuses addresses at which no cluster is: link-local ones, where clouds answer for the role of
// a machine, and those of no single host. It is for [net.Dialer.Control]: whoever may write clusters
// must not reach by way of a node what only the node should.
func Allowed(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connect to %q: %w", address, err)
	}
	switch ip := at.Addr().Unmap().WithZone(""); {
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip.IsUnspecified(), ip == instanceData, ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("connect to %s: clusters have no such address", ip)
	}
	return nil
}

// transport keeps one connection to each source, and follows no redirects since nobody tells it to.
func transport() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: connectWithin, Control: Allowed}).DialContext,
		TLSHandshakeTimeout:    connectWithin,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           MaxSources,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        idleFor,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		WriteBufferSize:        2 << 10,
		ReadBufferSize:         4 << 10,
	}
}
