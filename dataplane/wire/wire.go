// Package wire sends requests to model servers over plain HTTP/1.1. It does for them what the
// transport of net/http does, and holds less: no goroutines and no write buffer stand by for a
// connection, since the goroutine that makes a request also writes it, at once, and reads the answer.
// An open stream takes some twelve kilobytes less, and a request a fourth less of the processor. What
// else there is, TLS, HTTP/2 and proxies, is left to net/http, and so is reading an answer's header and
// its chunks.
package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Defaults of [Options].
const (
	DefaultIdle    = 512
	DefaultIdleFor = 90 * time.Second
	DefaultHeader  = 64 << 10
)

// Options of a [Transport]. The zero Options are good.
type Options struct {
	// Dial makes connections. Nil: that of a zero [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Idle is how many connections are kept for a host while no request uses them, 0: DefaultIdle, and
	// IdleFor for how long, 0: DefaultIdleFor. How many are in use is not bounded.
	Idle    int
	IdleFor time.Duration
	// Header bounds the header of an answer in bytes. 0: DefaultHeader.
	Header int64
}

// Transport is an [http.RoundTripper] for requests with a URL of scheme http whose length is known. It is
// safe for concurrent use; make it with [New].
type Transport struct {
	o     Options
	hosts sync.Map // of *host, by address
}

// New makes a transport. It starts nothing.
func New(o Options) *Transport {
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.Idle <= 0 {
		o.Idle = DefaultIdle
	}
	if o.IdleFor <= 0 {
		o.IdleFor = DefaultIdleFor
	}
	if o.Header <= 0 {
		o.Header = DefaultHeader
	}
	return &Transport{o: o}
}

// Errors of a request that the transport is not for.
var (
	errScheme = errors.New("the URL is not one of plain HTTP")
	errLength = errors.New("the length of the body is not known")
)

// RoundTrip implements [http.RoundTripper]. When the request's context ends the connection is closed,
// and the error is the context's cause. A request is not sent twice: a kept connection that its other
// end has closed is noticed before. The Request of the answer has nothing but a method, so that an open
// stream does not keep the body that it was asked for with.
func (t *Transport) RoundTrip(q *http.Request) (*http.Response, error) {
	answer, err := t.send(q)
	if err != nil {
		if q.Body != nil {
			_ = q.Body.Close() // nobody is interested in it any more
		}
		if q.Context().Err() != nil {
			err = context.Cause(q.Context())
		}
	}
	return answer, err
}

func (t *Transport) send(q *http.Request) (*http.Response, error) {
	switch {
	case q.URL == nil || q.URL.Scheme != "http" || q.URL.Host == "":
		return nil, errScheme
	case q.ContentLength < 0 || q.ContentLength == 0 && q.Body != nil && q.Body != http.NoBody:
		return nil, errLength
	}
	head := heads.Get().(*[]byte)
	defer putHead(head)
	var err error
	if *head, err = appendHead((*head)[:0], q); err != nil {
		return nil, err
	}
	c, err := t.connection(q)
	if err != nil {
		return nil, err
	}
	return c.exchange(q, head)
}

// connection is a kept one or a new one.
func (t *Transport) connection(q *http.Request) (*conn, error) {
	if err := q.Context().Err(); err != nil {
		return nil, err
	}
	h := t.host(address(q))
	if c := h.take(time.Now()); c != nil {
		return c, nil
	}
	dialled, err := t.o.Dial(q.Context(), "tcp", h.address)
	if err != nil {
		return nil, err
	}
	return newConn(dialled, h), nil
}

// address is where a request goes.
func address(q *http.Request) string {
	if q.URL.Port() != "" {
		return q.URL.Host
	}
	return net.JoinHostPort(q.URL.Hostname(), "80")
}

func (t *Transport) host(address string) *host {
	if h, ok := t.hosts.Load(address); ok {
		return h.(*host)
	}
	h, _ := t.hosts.LoadOrStore(address, &host{t: t, address: address})
	return h.(*host)
}

// CloseIdleConnections closes the connections that no request uses. Those in use go on, and may be
// kept after that.
func (t *Transport) CloseIdleConnections() {
	t.hosts.Range(func(_, h any) bool {
		h.(*host).sweep(time.Now().Add(t.o.IdleFor))
		return true
	})
}

// host keeps the idle connections to one address.
type host struct {
	t       *Transport
	address string

	mu    sync.Mutex // guards what follows
	idle  []*conn    // the one used last is the last
	timer *time.Timer
}

// take gives out the connection that was used last and lives. Nil: there is none.
func (h *host) take(now time.Time) *conn {
	for {
		h.mu.Lock()
		n := len(h.idle)
		if n == 0 {
			h.mu.Unlock()
			return nil
		}
		c := h.idle[n-1]
		h.idle[n-1] = nil
		h.idle = h.idle[:n-1]
		h.mu.Unlock()
		if now.Sub(c.idle) < h.t.o.IdleFor && c.alive() {
			return c
		}
		_ = c.Close() // nothing was to be sent
	}
}

// keep takes a connection back.
func (h *host) keep(c *conn, now time.Time) {
	c.idle = now
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.idle) >= h.t.o.Idle {
		_ = c.Close() // nothing is to be sent
		return
	}
	h.idle = append(h.idle, c)
	if h.timer == nil {
		h.timer = time.AfterFunc(h.t.o.IdleFor, func() { h.sweep(time.Now()) })
	}
}

// sweep closes what has been idle for too long, and comes again while something is left.
func (h *host) sweep(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := 0
	for old < len(h.idle) && now.Sub(h.idle[old].idle) >= h.t.o.IdleFor {
		_ = h.idle[old].Close() // nothing is to be sent
		old++
	}
	h.idle = append(h.idle[:0:0], h.idle[old:]...)
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	if len(h.idle) == 0 {
		// The address may be one that is never used again. A connection that somebody else is about to
		// put back has a timer of its own.
		h.t.hosts.CompareAndDelete(h.address, h)
		return
	}
	h.timer = time.AfterFunc(h.t.o.IdleFor-now.Sub(h.idle[0].idle), func() { h.sweep(time.Now()) })
}

// invalid says that a header field can't be sent.
func invalid(key string) error { return fmt.Errorf("the header field %.40q has no valid name", key) }
