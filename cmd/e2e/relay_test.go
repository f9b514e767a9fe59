package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// relay is the way of a browser to one control plane node, as a load balancer is: it can send to another
// node, cut what is open, refuse what is new, and keep back what the node says.
type relay struct {
	listener    net.Listener
	connections sync.WaitGroup

	mu     sync.Mutex // guards what follows
	to     string
	down   bool
	silent chan struct{} // what nodes say waits until it is closed; nil: does not wait
	open   map[net.Conn]bool
	closed bool
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, to: to, open: map[net.Conn]bool{}}
	r.connections.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			r.connections.Go(func() { r.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // ends the loop
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
		r.hush(false)
		r.cut()
		r.connections.Wait()
	})
	return r
}

func (r *relay) url() string { return "http://" + r.listener.Addr().String() }

// cut ends all that is open.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		_ = c.Close() // ends what carries it
	}
}

// send has new connections go to a node, or be refused.
func (r *relay) send(to string, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to != "" {
		r.to = to
	}
	r.down = down
}

// hush keeps back what nodes say, or lets it through.
func (r *relay) hush(silent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case silent && r.silent == nil:
		r.silent = make(chan struct{})
	case !silent && r.silent != nil:
		close(r.silent)
		r.silent = nil
	}
}

// keep remembers connections that cut ends; false: they are not wanted.
func (r *relay) keep(cs ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.down {
		return false
	}
	for _, c := range cs {
		r.open[c] = true
	}
	return true
}

func (r *relay) forget(c net.Conn) {
	_ = c.Close() // over
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
}

func (r *relay) carry(from net.Conn) {
	defer r.forget(from)
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	if !r.keep(from) {
		return
	}
	node, err := net.DialTimeout("tcp", to, 5*time.Second)
	if err != nil {
		return
	}
	defer r.forget(node)
	if !r.keep(node) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(node, from) // ends with either
		_ = node.Close()
	})
	r.speak(from, node)
	_ = from.Close()
	both.Wait()
}

// speak carries what the node says, and waits while it may not be heard.
func (r *relay) speak(to, node net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := node.Read(buffer)
		r.mu.Lock()
		silent := r.silent
		r.mu.Unlock()
		if silent != nil {
			<-silent
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func TestARelayCutsRefusesHushesAndSendsElsewhere(t *testing.T) {
	t.Parallel()
	node := func(name string) string {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				all.Go(func() {
					defer c.Close()
					_, _ = fmt.Fprint(c, name)
					_, _ = io.Copy(c, c) // until the test has ended
				})
			}
		})
		t.Cleanup(func() { _ = listener.Close(); all.Wait() })
		return listener.Addr().String()
	}
	r := newRelay(t, node("one"))
	dial := func() net.Conn {
		c, err := net.Dial("tcp", r.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	hears := func(c net.Conn, want string) {
		t.Helper()
		got := make([]byte, len(want))
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := io.ReadFull(c, got); want != "" && string(got[:n]) != want {
			t.Errorf("heard %q %v, want %q", got[:n], err, want)
		}
	}
	over := func(c net.Conn) {
		t.Helper()
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("goes on: %d bytes, %v", n, err)
		}
	}
	first := dial()
	hears(first, "one")
	r.hush(true)
	if _, err := fmt.Fprint(first, "echo"); err != nil {
		t.Fatal(err)
	}
	_ = first.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := first.Read(make([]byte, 4)); !isTimeout(err) {
		t.Errorf("heard %d bytes, %v of a silent node", n, err)
	}
	r.hush(false)
	hears(first, "echo")
	r.send(node("two"), false)
	hears(dial(), "two")
	r.cut()
	over(first)
	r.send("", true)
	over(dial())
	r.send("", false)
	hears(dial(), "two")
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
