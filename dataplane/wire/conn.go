package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// atOnce is the largest body that goes in one write with its header: what the other end's kernel
	// takes in even if nobody reads it there, so that nobody waits for the other.
	atOnce = 32 << 10
	// maxInformed is how many answers of status 1xx may come before the answer.
	maxInformed = 5
	// readBuffer is for headers and small chunks; larger reads go past it.
	readBuffer = 2 << 10
)

var (
	errHeader = errors.New("the header of the answer is too large")
	errShort  = errors.New("the body is not as long as it was said to be")
)

// conn is one connection, of one request at a time.
type conn struct {
	net.Conn
	home  *host
	in    *bufio.Reader // nil while it is idle
	room  int64         // bytes that the header of an answer may still have; -1: it has been read
	idle  time.Time     // since when
	sent  chan error    // of the body, which goes beside the reading of the answer; nil: it has gone
	raw   syscall.RawConn
	probe func(fd uintptr) bool
	quiet bool // what probe found
}

// posted stands for the request that an answer is read for. The answer keeps it, and the true one would
// keep its body.
var posted = &http.Request{Method: http.MethodPost}

// readers are those of connections in use.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBuffer) }}

func newConn(dialled net.Conn, h *host) *conn {
	c := &conn{Conn: dialled, home: h}
	if s, ok := dialled.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			c.raw, c.probe = raw, c.look
		}
	}
	return c
}

// Read is what the buffered reader reads from.
func (c *conn) Read(p []byte) (int, error) {
	switch {
	case c.room == 0:
		return 0, errHeader
	case c.room > 0 && int64(len(p)) > c.room:
		p = p[:c.room]
	}
	n, err := c.Conn.Read(p)
	if c.room > 0 {
		c.room -= int64(n)
	}
	return n, err
}

// alive says whether nothing has come on an idle connection, neither its end nor what nobody asked for.
func (c *conn) alive() bool {
	if c.raw == nil {
		return true
	}
	c.quiet = false
	return c.raw.Read(c.probe) == nil && c.quiet
}

// abort ends what is under way on the connection, in whatever goroutine.
func (c *conn) abort() { _ = c.SetDeadline(time.Unix(1, 0)) } // one that is closed has ended

// exchange sends a request, whose head is given, and returns the answer, whose body gives the
// connection back.
func (c *conn) exchange(q *http.Request, head *[]byte) (*http.Response, error) {
	stop := context.AfterFunc(q.Context(), c.abort)
	answer, err := c.ask(q, head)
	if err != nil {
		stop()
		c.leave()
		return nil, err
	}
	b := &body{ReadCloser: answer.Body, c: c, ctx: q.Context(), stop: stop, keep: !answer.Close && !q.Close}
	if answer.Body == http.NoBody {
		b.end(true)
		return answer, nil
	}
	answer.Body = b
	return answer, nil
}

// ask sends a request and reads the header of its answer.
func (c *conn) ask(q *http.Request, head *[]byte) (*http.Response, error) {
	c.in = readers.Get().(*bufio.Reader)
	c.in.Reset(c)
	if err := c.write(q, head); err != nil {
		return nil, err
	}
	c.room = c.home.t.o.Header
	asked := posted
	if q.Method != http.MethodPost {
		asked = &http.Request{Method: q.Method}
	}
	for range maxInformed {
		answer, err := http.ReadResponse(c.in, asked)
		if err != nil {
			return nil, err
		}
		if answer.StatusCode >= 200 || answer.StatusCode == http.StatusSwitchingProtocols {
			c.room = -1
			return answer, nil
		}
	}
	return nil, fmt.Errorf("no answer after %d of status 1xx", maxInformed)
}

// write sends a request. A large body goes beside the reading of the answer: a server that answers
// before it has read all of it would wait for its answer to be read, while this end waits for it to read
// on.
func (c *conn) write(q *http.Request, head *[]byte) error {
	if q.ContentLength == 0 {
		_, err := c.Write(*head)
		return err
	}
	if q.ContentLength > atOnce {
		if _, err := c.Write(*head); err != nil {
			return err
		}
		c.sent = make(chan error, 1)
		go func(body io.ReadCloser, size int64, sent chan<- error) {
			n, err := io.Copy(c.Conn, body)
			_ = body.Close() // all of it that matters has been read
			if err == nil && n != size {
				err = errShort
			}
			// A server that has closed the connection may have answered before.
			if op := (*net.OpError)(nil); err != nil && !errors.As(err, &op) {
				c.abort() // it waits for the rest
			}
			sent <- err
		}(q.Body, q.ContentLength, c.sent)
		return nil
	}
	from, size := len(*head), int(q.ContentLength)
	*head = append(*head, make([]byte, size)...)
	n, err := io.ReadFull(q.Body, (*head)[from:])
	_ = q.Body.Close() // all of it that matters has been read
	if err != nil {
		return fmt.Errorf("%w: %d of %d bytes", errShort, n, size)
	}
	_, err = c.Write(*head)
	return err
}

// leave closes a connection that can't be used again, and waits for what still writes to it.
func (c *conn) leave() {
	_ = c.Close() // nobody waits for what is still under way
	if c.sent != nil {
		_ = <-c.sent // the close has ended it
		c.sent = nil
	}
}

// body is the body of an answer. Its end gives the connection back.
type body struct {
	io.ReadCloser
	c     *conn
	ctx   context.Context //nolint:containedctx // of the request that it answers
	stop  func() bool     // lets the context's end not touch the connection; false: it has
	keep  bool            // neither side wants it closed
	err   error           // of a read; nil: the end has not been read
	ended atomic.Bool
}

// Read implements [io.Reader]. After the end of the context its error is the context's cause.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case b.ended.Load():
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		whole := errors.Is(err, io.EOF)
		if !whole && b.ctx.Err() != nil {
			err = context.Cause(b.ctx)
		}
		b.err = err
		b.end(whole)
	}
	return n, err
}

// Close implements [io.Closer]. Before the end of the body it closes the connection.
func (b *body) Close() error {
	b.end(false)
	return nil
}

// end gives the connection back if all of the answer has been read and all of the request been sent, or
// closes it.
func (b *body) end(whole bool) {
	if b.ended.Swap(true) {
		return
	}
	c := b.c
	clean := b.stop() && whole && b.keep && c.in.Buffered() == 0
	if c.sent != nil {
		select {
		case err := <-c.sent:
			c.sent = nil
			clean = clean && err == nil
		default:
			clean = false
		}
	}
	if !clean {
		c.leave() // its reader is not used again, since somebody may still read
		return
	}
	c.in.Reset(nil)
	readers.Put(c.in)
	c.in = nil
	c.home.keep(c, time.Now())
}
