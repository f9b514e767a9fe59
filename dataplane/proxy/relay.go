package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Options of a [Relay]. The zero value is useful.
type Options struct {
	// PeerTLS is this router's certificate and the authority of its peers. Nil: peers are spoken
	// to in plain text, for tests.
	PeerTLS *tls.Config
	// Connect bounds connecting to a place of this region, 0: 1 s; ConnectPeer to a peer, with
	// its handshake, 0: 3 s, an ocean's round trip times a lost packet.
	Connect, ConnectPeer time.Duration
	// Idle connections kept for each host, 0: 512, what a batch of streams ends with at once.
	Idle int
}

// Relay holds the warm connections. It is safe for concurrent use; make it with [New].
type Relay struct {
	places, peers *http.Transport
}

// New makes a relay. It starts nothing.
func New(o Options) *Relay {
	if o.Connect <= 0 {
		o.Connect = time.Second
	}
	if o.ConnectPeer <= 0 {
		o.ConnectPeer = 3 * time.Second
	}
	if o.Idle <= 0 {
		o.Idle = 512
	}
	places := transport(o.Connect, o.Idle)
	peers := transport(o.ConnectPeer, o.Idle)
	if o.PeerTLS != nil {
		peers.TLSClientConfig = o.PeerTLS.Clone()
		peers.ForceAttemptHTTP2 = true
		// A peer that vanished without a reset is noticed by pings, not by its requests' silence.
		peers.HTTP2 = &http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: 2 * time.Second}
	}
	return &Relay{places: places, peers: peers}
}

// Peer is the transport to peers, for what else is asked of them.
func (r *Relay) Peer() http.RoundTripper { return r.peers }

// Close drops the idle connections. Attempts under way go on.
func (r *Relay) Close() {
	r.places.CloseIdleConnections()
	r.peers.CloseIdleConnections()
}

func transport(connect time.Duration, idle int) *http.Transport {
	dialer := &net.Dialer{Timeout: connect, KeepAlive: 5 * time.Second}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, &connectError{err}
			}
			return c, nil
		},
		MaxIdleConns:           8 * idle,
		MaxIdleConnsPerHost:    idle,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    connect,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
	}
}

// connectError marks that nothing was sent.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }
