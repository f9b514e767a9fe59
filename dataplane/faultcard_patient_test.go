package dataplane

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patient is the place at fault: it notes when its last word was, and whether and when its requests
// were ended by the router.
type patient struct {
	*stub
	arrivals atomic.Int64 // requests, or connections with no server behind
	open     atomic.Int64 // of those
	broke    atomic.Bool  // it broke off by itself
	came     chan struct{}
	release  chan struct{} // closed when the client has its answer
	breaks   func()        // breaks what is kept; nil: nothing is

	mu    sync.Mutex // guards what follows
	last  time.Time
	ended []time.Duration // from the last word to the end by the router
}

// sick is a server that does something wrong with each request; nil: it is well, and something
// before it is wrong.
func sick(t *testing.T, does illness) *patient {
	t.Helper()
	p := &patient{came: make(chan struct{}, 64), release: make(chan struct{})}
	if does == nil {
		p.stub = newStub(t, answers)
		return p
	}
	p.stub = newStub(t, func(w http.ResponseWriter, r *http.Request) {
		defer p.arrived()()
		noted := make(chan struct{})
		stop := context.AfterFunc(r.Context(), func() {
			p.end()
			close(noted)
		})
		defer func() {
			if !stop() {
				<-noted
			} else if r.Context().Err() != nil {
				p.end() // it is faster than what was to note it
			}
		}()
		defer func() {
			if err := recover(); err != nil {
				p.broke.Store(true)
				panic(err)
			}
		}()
		does(p, w, r)
	})
	return p
}

// arrived counts a request in; what it returns counts it out.
func (p *patient) arrived() (left func()) {
	p.word()
	p.arrivals.Add(1)
	p.open.Add(1)
	p.came <- struct{}{}
	return func() { p.open.Add(-1) }
}

// word notes that something was said, or that the client has left: what follows is timed from here.
func (p *patient) word() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
}

// end notes that the router ended a request.
func (p *patient) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = append(p.ended, time.Since(p.last))
}

// fate is what became of its requests, as the card says it: ended by the router within three times
// the bound, or otherwise.
func (p *patient) fate(t *testing.T, bound time.Duration) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, took := range p.ended {
		if took > 3*bound {
			t.Errorf("the upstream was cancelled after %s, with a bound of %s", took, bound)
			return "cancelled late"
		}
	}
	switch {
	case p.arrivals.Load() == 0:
		return "not reached"
	case p.broke.Load():
		return "broke off"
	case len(p.ended) > 0:
		return "cancelled"
	}
	return "had ended"
}

// halfOpen is the address of a listener whose connections come about and are never read from, until
// the client has its answer. A body larger than the window does not even leave the router.
func halfOpen(t *testing.T, p *patient) string {
	t.Helper()
	return accepting(t, func(c *net.TCPConn) {
		defer p.arrived()()
		<-p.release
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second)) // it is open
		if _, err := io.Copy(io.Discard, c); !errors.Is(err, os.ErrDeadlineExceeded) {
			p.end()
		}
	})
}

// accepting serves the connections to an address in a goroutine each, and closes them in the end.
func accepting(t *testing.T, serve func(*net.TCPConn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			all.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return "http://" + l.Addr().String()
}

// kept is the address of a relay before the stub. Once breaks is called, the connections there are
// break with the next byte from the router: they are reset, or swallow all that comes as if the
// other side had been unplugged. New connections are well.
func kept(reset bool) func(*testing.T, *patient) string {
	return func(t *testing.T, p *patient) string {
		t.Helper()
		var generation atomic.Int64
		p.breaks = func() { generation.Add(1) }
		return accepting(t, func(c *net.TCPConn) {
			born := generation.Load()
			gone := func() bool { return generation.Load() != born }
			up, err := net.Dial("tcp", p.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer up.Close()
			var back sync.WaitGroup
			back.Go(func() { pipe(c, up, func() bool { return !gone() }) })
			pipe(up, c, func() bool { return !gone() })
			if gone() && p.arrivals.Load() == 0 {
				left := p.arrived()
				if reset {
					p.broke.Store(true)
					_ = c.SetLinger(0) // it is open
				} else {
					_, _ = io.Copy(io.Discard, c) // until the router ends it
					p.end()
				}
				left()
			}
			_ = c.Close() // so that the other direction ends
			_ = up.Close()
			back.Wait()
		})
	}
}

// pipe copies until the end of either, or until something comes when it should not be passed on.
func pipe(to io.Writer, from io.Reader, on func() bool) {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if err != nil || !on() {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
