// Package zmtp speaks as much of ZMTP 3.0, the wire protocol of ZeroMQ (rfc.zeromq.org/spec/23), as
// publishing and subscribing over TCP needs: the NULL mechanism, PUB and SUB sockets, multipart
// messages, and answers to heartbeats. Unlike the usual libraries it starts no goroutine, holds no
// queue, and bounds what a peer can make it hold; who uses it dials, listens and reconnects.
package zmtp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Socket is a type of socket, as peers call it.
type Socket string

// The types.
const (
	PUB Socket = "PUB"
	SUB Socket = "SUB"
)

// peers are the types that a type may talk to.
var peers = map[Socket][]Socket{PUB: {SUB, "XSUB"}, SUB: {PUB, "XPUB"}}

// Bounds of what a peer may send.
const (
	// MaxMessage is the most bytes in the frames of a message.
	MaxMessage = 8 << 20
	// MaxFrames is the most frames in a message.
	MaxFrames = 16

	maxCommand = 64 << 10
)

// sendTimeout bounds how long a peer may not take what is sent to it.
const sendTimeout = 10 * time.Second

// Errors of [Handshake] and [Conn.Receive]; the connection is of no use after one.
var (
	// ErrPeer: the other side is no ZMTP 3 peer, wants another mechanism than NULL, or is of a type
	// that doesn't fit.
	ErrPeer = errors.New("not a ZMTP 3 peer for this socket")
	// ErrFrame: a frame or command is malformed.
	ErrFrame = errors.New("malformed ZMTP frame")
	// ErrTooLarge: a message is above the bounds.
	ErrTooLarge = errors.New("ZMTP message is too large")
)

// Conn is a connection after its handshake. One goroutine may receive while others send.
type Conn struct {
	conn net.Conn
	in   *bufio.Reader

	mu  sync.Mutex // guards out, and the order of frames
	out []byte
}

// greetingSize and the fields of a greeting: signature, version, mechanism, as-server, filler.
const (
	greetingSize = 64
	versionAt    = 10
	mechanismAt  = 12
	serverAt     = 32
)

// greeting of a peer with the NULL mechanism.
func greeting() []byte {
	g := make([]byte, greetingSize)
	g[0], g[9], g[versionAt] = 0xff, 0x7f, 3
	copy(g[mechanismAt:serverAt], "NULL")
	return g
}

// Handshake makes a connection of one just dialled or accepted, which it owns from then on and
// closes on error. Timeout bounds it; what comes after has no bound but the connection's own, so that
// TCP keep-alives are left to find dead peers.
func Handshake(conn net.Conn, self Socket, timeout time.Duration) (*Conn, error) {
	c := &Conn{conn: conn, in: bufio.NewReaderSize(conn, 32<<10)}
	err := conn.SetDeadline(time.Now().Add(timeout))
	if err == nil {
		err = c.handshake(self)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close() // the first error tells more
		return nil, fmt.Errorf("ZMTP handshake: %w", err)
	}
	return c, nil
}

func (c *Conn) handshake(self Socket) error {
	if _, err := c.conn.Write(append(greeting(), command("READY", property("Socket-Type", string(self)))...)); err != nil {
		return err
	}
	var theirs [greetingSize]byte
	if err := c.full(theirs[:]); err != nil {
		return err
	}
	mechanism, _, _ := bytes.Cut(theirs[mechanismAt:serverAt], []byte{0})
	switch {
	case theirs[0] != 0xff || theirs[9]&1 != 1:
		return fmt.Errorf("%w: another signature", ErrPeer)
	case theirs[versionAt] < 3:
		return fmt.Errorf("%w: version %d", ErrPeer, theirs[versionAt])
	case string(mechanism) != "NULL":
		return fmt.Errorf("%w: mechanism %q", ErrPeer, mechanism)
	}
	f, err := c.frame(maxCommand)
	if err != nil {
		return err
	}
	name, body, ok := f.command()
	switch {
	case !ok:
		return ErrFrame
	case name == "ERROR":
		reason, _, _ := short(body)
		return fmt.Errorf("%w: it says %q", ErrPeer, reason)
	case name != "READY":
		return fmt.Errorf("%w: %q instead of READY", ErrFrame, name)
	}
	kind, ok := find(body, "Socket-Type")
	if !ok {
		return fmt.Errorf("%w: no socket type", ErrFrame)
	}
	for _, p := range peers[self] {
		if string(p) == kind {
			return nil
		}
	}
	return fmt.Errorf("%w: a %s meets a %q", ErrPeer, self, kind)
}

// Subscribe asks a publisher for all topics that begin with prefix. It isn't acknowledged.
func (c *Conn) Subscribe(prefix string) error { return c.Send(append([]byte{1}, prefix...)) }

// Send writes one message of at least one frame.
func (c *Conn) Send(frames ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = c.out[:0]
	for i, f := range frames {
		var flags byte
		if i < len(frames)-1 {
			flags = flagMore
		}
		c.out = appendFrame(c.out, flags, f)
	}
	return c.flush()
}

// flush writes what is in out. The mutex is held.
func (c *Conn) flush() error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	_, err := c.conn.Write(c.out)
	return err
}

// Receive waits for the next message, whose frames are the caller's. To a publisher, messages of one
// frame that begin with 1 or 0 are subscriptions and their end. Heartbeats are answered meanwhile.
func (c *Conn) Receive() ([][]byte, error) {
	var frames [][]byte
	left := MaxMessage
	for {
		f, err := c.frame(left)
		if err != nil {
			return nil, err
		}
		if f.flags&flagCommand != 0 {
			if len(frames) > 0 {
				return nil, ErrFrame
			}
			message, err := c.obey(&f)
			if err != nil {
				return nil, err
			}
			if message != nil {
				return [][]byte{message}, nil
			}
			continue
		}
		if len(frames) == MaxFrames {
			return nil, ErrTooLarge
		}
		frames = append(frames, f.body)
		left -= len(f.body)
		if f.flags&flagMore == 0 {
			return frames, nil
		}
	}
}

// obey does what a command says. ZMTP 3.1 has commands for subscriptions, which become messages as
// of 3.0; of others only PING wants something.
func (c *Conn) obey(f *frame) (message []byte, err error) {
	name, body, ok := f.command()
	if !ok {
		return nil, ErrFrame
	}
	switch name {
	case "SUBSCRIBE":
		return append([]byte{1}, body...), nil
	case "CANCEL":
		return append([]byte{0}, body...), nil
	case "PING":
		const ttl, context = 2, 16
		if len(body) < ttl || len(body) > ttl+context {
			return nil, ErrFrame
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.out = append(c.out[:0], command("PONG", body[ttl:])...)
		return nil, c.flush()
	}
	return nil, nil
}

// Close ends the connection; a Receive or Send under way returns with an error.
func (c *Conn) Close() error { return c.conn.Close() }
