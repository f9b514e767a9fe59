package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Options of a [Relay]. The zero value is useful.
type Options struct {
	// PeerTLS gives this router's certificate and the authority of its peers; it is asked at each
	// handshake, so that they may change. An empty ServerName is replaced by the peer's host. Nil: peers
	// are spoken to in plain text, for tests.
	PeerTLS func() *tls.Config
	// Connect bounds connecting to a place of this region, 0: 1 s; ConnectPeer to a peer, with
	// its handshake, 0: 3 s, an ocean's round trip times a lost packet.
	Connect, ConnectPeer time.Duration
	// Idle connections kept for each host, 0: 512, what a batch of streams ends with at once. How
	// many are in use is not bounded.
	Idle int
	// WarmEvery is the pause between the looks of [Relay.Warm] at the connections to peers, 0: 5 s.
	WarmEvery time.Duration
}

// Relay holds the warm connections. It is safe for concurrent use; make it with [New].
type Relay struct {
	places, peers *http.Transport
	warmEvery     time.Duration
	warmWithin    time.Duration
}

// How a connection whose other end has vanished without a word is found out: unanswered probes of
// the kernel on a silent one, and on one with bytes under way the age of what is unacknowledged.
const (
	aliveAfter  = 3 * time.Second // of silence the first probe is sent
	aliveEvery  = time.Second
	aliveProbes = 4
	deadAfter   = 7 * time.Second
)

// errHandshake says that nothing was sent, since the other end is not who it should be.
var errHandshake = errors.New("handshake")

// peerConnections bounds the connections to one peer. Each takes as many streams as the peer allows,
// hundreds at least.
const peerConnections = 16

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
	if o.WarmEvery <= 0 {
		o.WarmEvery = 5 * time.Second
	}
	places := transport(o.Connect, o.Idle)
	peers := transport(o.ConnectPeer, o.Idle)
	if o.PeerTLS != nil {
		peers.DialTLSContext = secured(o.ConnectPeer, o.PeerTLS)
		peers.ForceAttemptHTTP2 = true
		// A peer that vanished without a reset is noticed by pings, not by its requests' silence.
		peers.HTTP2 = &http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: 2 * time.Second}
		// When a region fails, everything turns to its peers at once, and a handshake for each
		// request would keep them all from ending.
		peers.MaxConnsPerHost = peerConnections
	}
	return &Relay{places: places, peers: peers, warmEvery: o.WarmEvery, warmWithin: 2 * o.ConnectPeer}
}

// Peer is the transport to peers, for what else is asked of them.
func (r *Relay) Peer() http.RoundTripper { return r.peers }

// Close drops the idle connections. Attempts under way go on.
func (r *Relay) Close() {
	r.places.CloseIdleConnections()
	r.peers.CloseIdleConnections()
}

// Dialer makes connections within connect, and finds out within seconds when their other end has
// vanished: for transports of places beside the relay's own.
func Dialer(connect time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout:         connect,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: aliveAfter, Interval: aliveEvery, Count: aliveProbes},
		Control:         giveUpAfter(deadAfter),
	}
}

// secured dials a peer and shakes hands with it as config says then, each within connect: a transport
// has one configuration for good. What goes wrong in the handshake can be told from what does later.
func secured(connect time.Duration, config func() *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := Dialer(connect)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		raw, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := config().Clone()
		c.NextProtos = []string{"h2", "http/1.1"}
		if c.ServerName == "" {
			c.ServerName = host
		}
		ctx, cancel := context.WithTimeout(ctx, connect)
		defer cancel()
		conn := tls.Client(raw, c)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close() // nothing was sent
			return nil, fmt.Errorf("%w: %w", errHandshake, err)
		}
		return conn, nil
	}
}

func transport(connect time.Duration, idle int) *http.Transport {
	return &http.Transport{
		DialContext:            Dialer(connect).DialContext,
		MaxIdleConnsPerHost:    idle,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    connect,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		// Each stream holds a connection, and thousands may be open. Bodies go past the buffers.
		WriteBufferSize: 2 << 10,
		ReadBufferSize:  2 << 10,
	}
}
