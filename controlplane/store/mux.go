package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"anabranch/api/fleet"
)

const (
	// helloTimeout bounds dialling, TLS and hello together.
	helloTimeout = 5 * time.Second
	// maxGreeting is how many incoming connections may be in TLS and hello at once.
	maxGreeting = 64
)

// mux shares the Raft port between Raft and the nodes' gRPC service: TLS first, then one byte for
// the kind, then the hello.
type mux struct {
	listener net.Listener       // nil: nothing comes in
	tls      func() *tls.Config // asked at each handshake; nil: plain TCP
	own      func() hello
	// met is told of every peer's hello, before the verdict takes effect.
	met func(peer hello)
	// knows says whether a node has held the state that this one holds. Never, by default.
	knows func(fleet.NodeID) bool
	// refused is told why a peer would not have this node.
	refused func(error)
	logger  *slog.Logger

	raft, node *inlet
	greeting   chan struct{} // slots
	done       chan struct{} // closed by close
	children   sync.WaitGroup
	users      sync.WaitGroup // accepted connections that were handed out and not closed yet

	mu     sync.Mutex // guards conns and closed
	conns  map[*conn]struct{}
	closed bool
}

func newMux(l net.Listener, c func() *tls.Config, advertise string, logger *slog.Logger) *mux {
	m := &mux{
		listener: l, tls: c, logger: logger,
		knows: func(fleet.NodeID) bool { return false }, refused: func(error) {},
		greeting: make(chan struct{}, maxGreeting),
		done:     make(chan struct{}),
		conns:    map[*conn]struct{}{},
	}
	m.raft, m.node = newInlet(advertise), newInlet(advertise)
	return m
}

// serve accepts connections until close, and returns when its children have.
func (m *mux) serve() {
	defer m.children.Wait()
	pause := time.Millisecond
	for m.listener != nil {
		c, err := m.listener.Accept()
		if err != nil {
			if m.isClosed() {
				return
			}
			m.logger.Warn("accept on the Raft port", "error", err)
			// Out of descriptors, probably: wait, but not for ever.
			select {
			case <-time.After(pause):
				pause = min(2*pause, time.Second)
				continue
			case <-m.done:
				return
			}
		}
		pause = time.Millisecond
		select {
		case m.greeting <- struct{}{}:
		case <-m.done:
			_ = c.Close() // never used
			return
		}
		m.children.Go(func() {
			defer func() { <-m.greeting }()
			if err := m.greet(c); err != nil {
				m.logger.Warn("refuse connection", "remote", c.RemoteAddr().String(), "error", err)
			}
		})
	}
}

// greet takes a connection through TLS and hello, and hands it to its inlet.
func (m *mux) greet(raw net.Conn) error {
	tracked := m.track(raw)
	if tracked == nil {
		return net.ErrClosed
	}
	to, err := m.accept(tracked)
	if err == nil && to == nil {
		return tracked.Close()
	}
	if err == nil {
		m.users.Add(1)
		tracked.handedOut = true
		err = to.put(tracked)
	}
	if err != nil {
		return errors.Join(err, tracked.Close())
	}
	return nil
}

// accept does TLS and hello, and says where the connection goes; nil: nowhere.
func (m *mux) accept(c *conn) (*inlet, error) {
	ctx, cancel := context.WithTimeout(context.Background(), helloTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	var certified fleet.NodeID
	if m.tls != nil {
		secured := tls.Server(c.Conn, serverTLS(m.tls()))
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		certified, _ = NodeOf(secured.ConnectionState().PeerCertificates[0]) // checked by serverTLS
		c.Conn = secured
	}
	first, err := readByte(c)
	if err != nil {
		return nil, err
	}
	to, ok := map[kind]*inlet{kindRaft: m.raft, kindNode: m.node, kindHello: nil}[kind(first)]
	if !ok {
		return nil, fmt.Errorf("first byte %q: %w", first, errHello)
	}
	peer, err := readHello(c)
	if err != nil {
		return nil, err
	}
	own := m.own()
	v := judge(own, peer, certified, m.knows(peer.Node))
	if v != notYourName {
		m.met(peer)
	}
	if _, err := c.Write(append([]byte{byte(v)}, own.encode()...)); err != nil {
		return nil, err
	}
	if v != welcome {
		return nil, v.explain(peer, own)
	}
	return to, c.SetDeadline(time.Time{})
}

// dial connects to the Raft port of another node.
func (m *mux) dial(ctx context.Context, as kind, address string) (net.Conn, error) {
	c, err := m.reach(ctx, as, address)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// reach is dial for those who want to know whom they have reached.
func (m *mux) reach(ctx context.Context, as kind, address string) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := m.track(raw)
	if c == nil {
		return nil, net.ErrClosed
	}
	if err := m.introduce(ctx, c, as); err != nil {
		return nil, errors.Join(fmt.Errorf("greet %s: %w", address, err), c.Close())
	}
	return c, nil
}

func (m *mux) introduce(ctx context.Context, c *conn, as kind) error {
	deadline, _ := ctx.Deadline() // dial has set one
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	var certified fleet.NodeID
	if m.tls != nil {
		secured := tls.Client(c.Conn, clientTLS(m.tls()))
		if err := secured.HandshakeContext(ctx); err != nil {
			return err
		}
		certified, _ = NodeOf(secured.ConnectionState().PeerCertificates[0]) // checked by clientTLS
		c.Conn = secured
	}
	own := m.own()
	if _, err := c.Write(append([]byte{byte(as)}, own.encode()...)); err != nil {
		return err
	}
	answer, err := readByte(c)
	if err != nil {
		return err
	}
	peer, err := readHello(c)
	if err != nil {
		return err
	}
	if certified != "" && certified != peer.Node {
		return fmt.Errorf("peer calls itself %s, its certificate says %s", peer.Node, certified)
	}
	m.met(peer)
	if err := verdict(answer).explain(own, peer); err != nil {
		m.refused(err)
		return refusedError{err}
	}
	if v := judge(own, peer, certified, m.knows(peer.Node)); v == emptied {
		return v.explain(peer, own)
	}
	c.peer = peer
	return c.SetDeadline(time.Time{})
}

// refusedError is an error that a peer has answered with.
type refusedError struct{ error }

// Unwrap gives the reason.
func (r refusedError) Unwrap() error { return r.error }

// close ends everything, connections in use too. It is called once.
func (m *mux) close() {
	m.mu.Lock()
	m.closed = true
	close(m.done)
	conns := m.conns
	m.conns = nil
	m.mu.Unlock()
	m.raft.shut()
	m.node.shut()
	// The process is done with these: an error of closing changes nothing.
	if m.listener != nil {
		_ = m.listener.Close()
	}
	for c := range conns {
		_ = c.raw.Close()
	}
}

func (m *mux) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// track remembers a connection until it is closed; nil, and the connection closed, if the mux is.
func (m *mux) track(raw net.Conn) *conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		_ = raw.Close() // never used
		return nil
	}
	c := &conn{Conn: raw, raw: raw, mux: m}
	m.conns[c] = struct{}{}
	return c
}

// conn is a connection that the mux can still close.
type conn struct {
	net.Conn  // TLS once that is up; not changed after the hello
	raw       net.Conn
	mux       *mux
	handedOut bool  // counted in mux.users; not changed after the hello
	peer      hello // of a connection that was dialled; not changed after the hello
	once      sync.Once
}

// Close closes the connection and lets the mux forget it.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.mux.mu.Lock()
		delete(c.mux.conns, c)
		c.mux.mu.Unlock()
		if c.handedOut {
			c.mux.users.Done()
		}
	})
	return c.Conn.Close()
}

// inlet is the listener of one kind of connection.
type inlet struct {
	address address
	conns   chan net.Conn
	done    chan struct{}
	once    sync.Once
}

func newInlet(advertise string) *inlet {
	return &inlet{address: address(advertise), conns: make(chan net.Conn), done: make(chan struct{})}
}

func (i *inlet) put(c net.Conn) error {
	t := time.NewTimer(helloTimeout)
	defer t.Stop()
	select {
	case i.conns <- c:
		return nil
	case <-i.done:
		return net.ErrClosed
	case <-t.C:
		return errors.New("nobody takes connections of this kind")
	}
}

// Accept waits for the next connection; net.ErrClosed after the end.
func (i *inlet) Accept() (net.Conn, error) {
	select {
	case c := <-i.conns:
		return c, nil
	case <-i.done:
		return nil, net.ErrClosed
	}
}

func (i *inlet) shut() { i.once.Do(func() { close(i.done) }) }

// Close ends Accept. The port itself stays open until the store stops.
func (i *inlet) Close() error { i.shut(); return nil }

// Addr is the advertised address: Raft tells it to others.
func (i *inlet) Addr() net.Addr { return i.address }

// address is a host:port as others reach it.
type address string

// Network is always tcp.
func (address) Network() string { return "tcp" }

func (a address) String() string { return string(a) }

// stream is the part of the mux that Raft's network transport uses.
type stream struct {
	*inlet
	mux *mux
}

// Dial connects to the Raft of another node.
func (s stream) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.mux.dial(ctx, kindRaft, string(to))
}
